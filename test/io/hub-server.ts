// A small Hugging Face hub on this machine. The official clients (@huggingface/hub, Python's huggingface_hub) talk to it as
// to the real one: commits of revisions, trees in pages, files in ranges, and the hub's words for what is refused.
import { createHash } from 'node:crypto';
import http from 'node:http';
import type { AddressInfo } from 'node:net';

const sha = (algorithm: string, ...parts: (string | Buffer)[]) =>
  parts.reduce((h, p) => h.update(p), createHash(algorithm)).digest('hex');
export const isLarge = (name: string): boolean => /\.(safetensors|parquet)$/.test(name);
export const oidOf = (name: string, b: Buffer): string =>
  isLarge(name) ? sha('sha256', b) : sha('sha1', `blob ${b.length}\0`, b);

export interface HubRepo {
  /** The files of each commit. */
  readonly commits: Record<string, ReadonlyMap<string, Buffer>>;
  /** The commits of branches and tags. */
  readonly refs: Record<string, string>;
  /** Only with this token. */
  readonly token?: string;
  /** What is asked of others: to accept terms, or it is not shown to them. */
  readonly access?: 'gated' | 'private';
}

export class TestHub {
  /** By 'owner/name', and 'datasets/owner/name'. */
  readonly repos = new Map<string, HubRepo>();
  /** What was asked for, with the range of bytes. */
  asked: string[] = [];
  /** Bytes of files. */
  served = 0;
  /** Bytes of one answer, then the connection breaks. */
  cutAfter = Number.POSITIVE_INFINITY;
  /** How many connections break so. */
  cuts = Number.POSITIVE_INFINITY;
  /** Files come with a wrong byte. */
  lie = false;
  /** Every answer. */
  status = 200;
  /** Files of one page of a tree. */
  page = 1000;
  /** Where the next page of a tree is, in place of here. */
  elsewhere: string | undefined;
  /** Number of trees and files that are refused with `busyStatus`. */
  busy = 0;
  busyStatus = 503;
  /** The Retry-After header of these. */
  retryAfter: string | undefined;
  /** As a proxy that answers a range with the whole file. */
  ignoresRanges = false;
  readonly #server = http.createServer((request, response) => this.#answer(request, response));

  get address(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }
  async start(port = 0): Promise<void> {
    await new Promise<void>((done) => void this.#server.listen(port, '127.0.0.1', done));
  }
  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
  reset(): void {
    Object.assign(this, { asked: [], served: 0, lie: false, status: 200, page: 1000, busy: 0, busyStatus: 503 });
    Object.assign(this, { retryAfter: undefined, elsewhere: undefined, ignoresRanges: false });
    Object.assign(this, { cutAfter: Number.POSITIVE_INFINITY, cuts: Number.POSITIVE_INFINITY });
  }

  #answer(request: http.IncomingMessage, response: http.ServerResponse): unknown {
    const url = new URL(request.url!, this.address);
    const range = request.headers.range?.match(/^bytes=(\d+)-(\d+)?$/);
    const isProbe = range?.[0] === 'bytes=0-0';
    this.asked.push(`${url.pathname}${range && !isProbe ? ` ${range[0]}` : ''}`);
    const json = (value: unknown, code = 200, headers = {}) =>
      response.writeHead(code, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
    const no = (code: number, what: string, error: string) =>
      json({ error }, code, { 'x-error-code': what, 'x-error-message': error });
    if (this.status !== 200) return json({ error: 'no' }, this.status);

    const parts = url.pathname.match(
      /^\/(?:api\/(?<kind>models|datasets)\/(?<api>[^/]+\/[^/]+)(?:\/(?<what>revision|tree|paths-info))?|(?<file>(?:datasets\/)?[^/]+\/[^/]+)\/resolve)(?:\/(?<rest>.+))?$/,
    )?.groups;
    const key = parts && (parts['file'] ?? `${parts['kind'] === 'datasets' ? 'datasets/' : ''}${parts['api']}`);
    const repo = key === undefined ? undefined : this.repos.get(key);
    const given = request.headers.authorization?.replace(/^Bearer /, '');
    const mayRead = !repo?.token || given === repo.token;
    // To one without a token, the hub does not say whether there is such a repository.
    if (!parts || !key || !repo || (repo.access === 'private' && !mayRead))
      return given
        ? no(404, 'RepoNotFound', 'Repository not found')
        : no(401, 'RepoNotFound', 'Invalid username or password.');

    const [name = '', ...below] = (parts['rest'] ?? 'main').split('/');
    const revision = decodeURIComponent(name);
    const commit = repo.refs[revision] ?? (repo.commits[revision] ? revision : undefined);
    if (!commit) return no(404, 'RevisionNotFound', `Invalid rev id: ${revision}`);
    const files = repo.commits[commit]!;
    const path = below.map(decodeURIComponent).join('/');
    if (parts['api'] && (parts['what'] ?? 'revision') === 'revision') {
      const id = key.replace(/^datasets\//, '');
      const isPrivate = repo.access === 'private';
      const about = { _id: '1', id, sha: commit, private: isPrivate, gated: repo.access === 'gated' && 'auto' };
      return json({ ...about, author: id.split('/')[0], downloads: 0, likes: 0, tags: [], siblings: [] });
    }
    if ((parts['what'] === 'tree' || parts['file']) && this.busy-- > 0)
      return json({ error: 'busy' }, this.busyStatus, { ...(this.retryAfter && { 'retry-after': this.retryAfter }) });
    if (parts['what'] === 'tree') return this.#tree(files, path, url, json);
    if (parts['what'] === 'paths-info') return this.#paths(files, request, json);
    if (!mayRead) return no(given ? 403 : 401, 'GatedRepo', `Access to ${key} is restricted.`);
    const whole = files.get(path);
    if (!whole) return no(404, 'EntryNotFound', 'Entry not found');
    return this.#file(path, whole, commit, range, request, response);
  }

  #entry = ([name, b]: readonly [string, Buffer]) => ({
    type: 'file',
    path: name,
    size: b.length,
    oid: isLarge(name) ? 'f'.repeat(40) : oidOf(name, b),
    ...(isLarge(name) && { lfs: { oid: oidOf(name, b), size: b.length, pointerSize: 134 } }),
  });

  #tree(
    files: ReadonlyMap<string, Buffer>,
    folder: string,
    url: URL,
    json: (value: unknown, code?: number, headers?: object) => unknown,
  ): unknown {
    const prefix = folder && `${folder}/`;
    const isDeep = /^(true|1)$/i.test(url.searchParams.get('recursive') ?? '');
    const all = new Map<string, unknown>();
    for (const [name, b] of files) {
      if (!name.startsWith(prefix)) continue;
      const below = name.slice(prefix.length).split('/');
      for (let n = 1; n < below.length; n++) {
        const path = prefix + below.slice(0, n).join('/');
        if (isDeep || n === 1) all.set(path, { type: 'directory', path, size: 0, oid: sha('sha1', path) });
      }
      if (isDeep || below.length === 1) all.set(name, this.#entry([name, b]));
    }
    const entries = [...all.values()];
    const start = Number(url.searchParams.get('cursor') ?? 0);
    const next = new URL(url);
    next.searchParams.set('cursor', String(start + this.page));
    const more = start + this.page < entries.length;
    const link = this.elsewhere ?? (more ? next.href : undefined);
    return json(entries.slice(start, start + this.page), 200, link ? { link: `<${link}>; rel="next"` } : {});
  }

  async #paths(
    files: ReadonlyMap<string, Buffer>,
    request: http.IncomingMessage,
    json: (value: unknown) => unknown,
  ): Promise<unknown> {
    let body = '';
    for await (const chunk of request) body += chunk;
    const wanted = request.headers['content-type']?.includes('json')
      ? [JSON.parse(body).paths].flat()
      : new URLSearchParams(body).getAll('paths');
    const isFolder = (path: string) => [...files.keys()].some((f) => f.startsWith(`${path}/`));
    return json(
      wanted.flatMap((path: string) => {
        const b = files.get(path);
        return b
          ? [this.#entry([path, b])]
          : isFolder(path)
            ? [{ type: 'directory', path, oid: sha('sha1', path) }]
            : [];
      }),
    );
  }

  #file(
    name: string,
    whole: Buffer,
    commit: string,
    range: RegExpMatchArray | null | undefined,
    request: http.IncomingMessage,
    response: http.ServerResponse,
  ): unknown {
    if (this.ignoresRanges && range?.[0] !== 'bytes=0-0') range = undefined;
    const start = range ? Number(range[1]) : 0;
    const end = range ? Math.min(Number(range[2] ?? whole.length - 1) + 1, whole.length) : whole.length;
    const body = Buffer.from(whole.subarray(start, end));
    if (this.lie) body[0]! ^= 1;
    response.writeHead(range ? 206 : 200, {
      'content-length': body.length,
      'accept-ranges': 'bytes',
      etag: `"${oidOf(name, whole)}"`,
      'x-repo-commit': commit,
      ...(isLarge(name) && { 'x-linked-size': whole.length, 'x-linked-etag': `"${oidOf(name, whole)}"` }),
      ...(range && { 'content-range': `bytes ${start}-${end - 1}/${whole.length}` }),
    });
    if (request.method === 'HEAD') return response.end();
    const sent = this.cuts > 0 ? body.subarray(0, this.cutAfter) : body;
    if (range?.[0] !== 'bytes=0-0') this.served += sent.length;
    if (sent.length === body.length) return response.end(body);
    this.cuts--;
    return response.write(sent, () => setTimeout(() => response.destroy(), 50));
  }
}
