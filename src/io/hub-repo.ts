// Repositories of the Hugging Face hub: downloaded with the official client, and cached in the layout of Python's
// huggingface_hub, so that both share one cache. A dataset's folder begins with datasets-- instead of models--:
//   models--ORG--NAME/refs/REVISION                  the commit that a branch or tag was at
//   models--ORG--NAME/trees/COMMIT.json              the files that a commit has, and their sizes and hashes
//   models--ORG--NAME/snapshots/COMMIT/config.json   links to
//   models--ORG--NAME/blobs/HASH                     and HASH.incomplete, while it is fetched
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import fs from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { env } from '../base/env.js';
import { ArgumentError, FileError, HubError } from '../base/errors.js';
import { type Lock, tryLock } from '../base/lock.js';
import { messageOf } from '../base/thrown.js';
import { replaceFiles } from './file.js';

export interface HubOptions {
  /** A branch, a tag or a commit. Default: 'main'. */
  readonly revision?: string;
  /** Downloads nothing. Default: HF_HUB_OFFLINE. */
  readonly offline?: boolean;
  /** Requests the current commit of the revision from the hub even if the cache has one. */
  readonly refresh?: boolean;
  readonly signal?: AbortSignal;
  /** Called as bytes of a file arrive. */
  readonly onProgress?: (progress: { readonly file: string; readonly done: number; readonly total: number }) => void;
}
export const HUB_OPTIONS = ['revision', 'offline', 'refresh', 'signal', 'onProgress'] as const;

const home = (): string =>
  env('HF_HOME') ?? path.join(env('XDG_CACHE_HOME') ?? path.join(os.homedir(), '.cache'), 'huggingface');
/** The cache of models and datasets: HF_HUB_CACHE, or a folder in HF_HOME. */
export const hubCache = (): string =>
  path.resolve(
    (env('HF_HUB_CACHE') ?? env('HUGGINGFACE_HUB_CACHE') ?? path.join(home(), 'hub')).replace(
      /^~(?=\/|$)/,
      os.homedir(),
    ),
  );
export const endpoint = (): string => (env('HF_ENDPOINT') ?? 'https://huggingface.co').replace(/\/+$/, '');

export interface Repo {
  readonly type: 'model' | 'dataset';
  readonly name: string;
  readonly revision: string;
  /** In the cache. */
  readonly folder: string;
}

export function repoOf(type: Repo['type'], name: string, revision = 'main'): Repo {
  if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(revision))
    throw new ArgumentError(`revision ${revision} of ${name} is not a valid branch, tag or commit`);
  return { type, name, revision, folder: path.join(hubCache(), `${type}s--${name.replace('/', '--')}`) };
}

export const titleOf = ({ type, name, revision }: Repo): string =>
  `${type === 'model' ? '' : `${type} `}${name}${revision === 'main' ? '' : ` (${revision})`}`;
export const exists = async (file: string): Promise<boolean> => !!(await fs.stat(file).catch(() => undefined));
export const isFolder = async (file: string): Promise<boolean> =>
  !!(await fs.stat(file).catch(() => undefined))?.isDirectory();
const isHash = (text: unknown): boolean => typeof text === 'string' && /^[0-9a-f]{40}([0-9a-f]{24})?$/.test(text);

/** The commit that the cache has for a revision. */
export async function cachedCommit({ revision, folder }: Repo): Promise<string | undefined> {
  const named = (await fs.readFile(path.join(folder, 'refs', revision), 'utf8').catch(() => revision)).trim();
  return isHash(named) ? named : undefined;
}
export const snapshotOf = ({ folder }: Repo, commit: string): string => path.join(folder, 'snapshots', commit);

/** The hub's record of a file: of the client's ListFileEntry, whose declarations need skipLibCheck. */
export interface HubEntry {
  readonly path: string;
  readonly size: number;
  readonly oid?: string;
  readonly lfs?: { readonly oid: string; readonly size: number };
  readonly xetHash?: string;
}
export const sizeOfEntry = ({ lfs, size }: HubEntry): number => lfs?.size ?? size;
/** Whether a file is there with all of its bytes: a disk that was full, or a copy that was stopped, may have cut it off. */
export const isWhole = async (file: string, entry: HubEntry): Promise<boolean> =>
  (await fs.stat(file).catch(() => undefined))?.size === sizeOfEntry(entry);
/** A file's name in blobs is the hash of its content: git's, or for large files SHA-256. */
export const hashOfEntry = ({ lfs, oid }: HubEntry): string => lfs?.oid ?? oid ?? '';

/** The lock of a part of a repository, once no other process has it; and whether one had. */
export async function lockRepo(repo: Repo, part: string, signal?: AbortSignal) {
  const file = path.join(hubCache(), '.locks', path.basename(repo.folder), part);
  const take = async () => {
    try {
      await fs.mkdir(path.dirname(file), { recursive: true });
      return await tryLock(file);
    } catch (e) {
      throw new FileError(`cannot write into the cache: ${messageOf(e)}: set HF_HUB_CACHE to another folder`, {
        cause: e,
      });
    }
  };
  let lock: Lock | undefined = await take();
  const waited = !lock;
  for (; !lock; lock = await take()) await sleep(200, undefined, signal && { signal });
  return { lock, waited };
}

const TRIES = 5; // without a byte gained
const LONGEST_PAUSE = 300; // seconds: the hub counts requests over five minutes
/** Whether the token may be sent there. A mirror may name the hub itself. */
function isOfHub(url: string): boolean {
  const { origin, hostname, protocol } = new URL(url);
  const isOfficial = protocol === 'https:' && /(^|\.)huggingface\.co$/.test(hostname);
  return isOfficial || origin === new URL(endpoint()).origin;
}

/** Requests to the hub, for one repository. */
export class Fetch {
  readonly #signal: AbortSignal | undefined;
  /** The hub's error code (`x-error-code`) of the last request. */
  #code: string | null = null;
  /** Seconds to wait, from the last answer's Retry-After header. */
  #retryAfter: number | undefined;
  #hasToken = false;

  constructor(
    readonly repo: Repo,
    readonly options: Pick<HubOptions, 'signal' | 'onProgress'>,
    lost?: AbortSignal,
  ) {
    const signals = [lost, options.signal].filter((s) => s !== undefined);
    this.#signal = signals.length ? AbortSignal.any(signals) : undefined;
  }

  /** Waits before another try: as long as Retry-After says, or else twice as long each time. */
  async #pause(tries: number, e: unknown): Promise<void> {
    const seconds = statusOf(e) === 429 ? (this.#retryAfter ?? 0.5 * 2 ** tries) : 0.05 * 2 ** tries;
    const options = this.#signal && { signal: this.#signal };
    await sleep(1000 * Math.min(seconds, LONGEST_PAUSE), undefined, options).catch(() => {}); // stopped: the next try says so
  }

  /** The arguments of every call of the client. */
  async #access() {
    const token = (
      env('HF_TOKEN') ?? (await fs.readFile(env('HF_TOKEN_PATH') ?? path.join(home(), 'token'), 'utf8').catch(() => ''))
    ).trim();
    if (/[^\x21-\x7e]/.test(token))
      throw new HubError(
        'the token (HF_TOKEN, or of `hf auth login`) has spaces or characters that no token has: set it anew',
      );
    this.#hasToken = !!token;
    const signal = this.#signal ?? null;
    const asked: typeof fetch = async (url, init) => {
      this.#code = null;
      this.#retryAfter = undefined;
      const headers = new Headers(init?.headers);
      // A page of a list may name another host for the next one.
      if (headers.get('authorization') === `Bearer ${token}` && !isOfHub(String(url))) headers.delete('authorization');
      const response = await fetch(url, { ...init, headers, signal });
      if (!response.ok) this.#code = response.headers.get('x-error-code');
      if (response.status === 429) this.#retryAfter = secondsOf(response.headers.get('retry-after'));
      return response;
    };
    return { hubUrl: endpoint(), fetch: asked, ...(token && { accessToken: token }) };
  }

  /** The commit of the revision and its files: all, or only those at the top level. */
  async list(recursive: boolean): Promise<{ readonly commit: string; readonly files: HubEntry[] }> {
    const { type, name, revision } = this.repo;
    const { datasetInfo, listFiles, modelInfo } = await import('@huggingface/hub');
    const ask = async () => {
      const access = await this.#access();
      const asked = { name, revision, ...access };
      const { sha: commit } =
        type === 'model'
          ? await modelInfo({ ...asked, additionalFields: ['sha'] })
          : await datasetInfo({ ...asked, additionalFields: ['sha'] });
      if (!isHash(commit)) throw new Error(`the hub says that it is at commit ${commit}`);
      const files: HubEntry[] = [];
      const all = listFiles({ repo: { type, name }, revision: commit, recursive, ...access });
      for await (const file of all) if (file.type === 'file' && isInside(file.path)) files.push(file);
      return { commit, files };
    };
    for (let tries = 1; ; tries++)
      try {
        return await ask();
      } catch (e) {
        const isBusy = statusOf(e) === 429 || statusOf(e)! >= 500;
        if (!isBusy || this.#signal?.aborted || tries >= TRIES) throw this.failed(e);
        await this.#pause(tries, e);
      }
  }

  /** Notes which commit the revision is at. */
  async note(commit: string): Promise<void> {
    const { folder, revision } = this.repo;
    const ref = path.join(folder, 'refs', revision);
    for (const sub of [snapshotOf(this.repo, commit), path.dirname(ref)]) await fs.mkdir(sub, { recursive: true });
    if (revision !== commit) await replaceFiles(new Map([[ref, (write) => write(Buffer.from(commit))]]));
  }

  /** Downloads a file, unless the cache has it. */
  async file(file: HubEntry, commit: string): Promise<string> {
    const target = path.join(snapshotOf(this.repo, commit), file.path);
    if (await isWhole(target, file)) return target;
    const hash = hashOfEntry(file);
    if (!isHash(hash)) throw this.failed(new Error(`the hub names no hash of ${file.path}`));
    const blob = path.join(this.repo.folder, 'blobs', hash);
    if (!(await isWhole(blob, file))) await this.#blob(file, commit, blob);
    await fs.mkdir(path.dirname(target), { recursive: true });
    await fs.rm(target, { force: true }); // a link to a blob that is gone
    const link = path.relative(path.dirname(target), blob);
    await fs.symlink(link, target).catch(() => fs.copyFile(blob, target)); // Windows may forbid links
    return target;
  }

  /** Fetches a file, beginning where an earlier try ended. If parts of several tries are not the file, once from its start. */
  async #blob(file: HubEntry, commit: string, blob: string): Promise<void> {
    const incomplete = `${blob}.incomplete`;
    const expected = path.basename(blob);
    await fs.mkdir(path.dirname(blob), { recursive: true });
    for (let again = false; ; again = true) {
      const { came, parts } = await this.#bytes(file, commit, incomplete);
      if (came === `hash ${expected}`) break;
      await fs.rm(incomplete, { force: true });
      if (parts > 1 && !again) continue;
      const wrong = came.startsWith('hash') ? `${came}, expected ${expected}` : came;
      throw this.failed(new Error(`${file.path} came with ${wrong}; it was removed: try again`));
    }
    await fs.rename(incomplete, blob);
  }

  /** Downloads the missing part of a file. Returns the hash, or what is wrong, and the number of parts. */
  async #bytes(file: HubEntry, commit: string, incomplete: string): Promise<{ came: string; parts: number }> {
    const total = sizeOfEntry(file);
    const hash = file.lfs ? createHash('sha256') : createHash('sha1').update(`blob ${total}\0`);
    const out = await fs.open(incomplete, 'a');
    let done = (await out.stat()).size;
    let parts = done ? 1 : 0;
    try {
      if (done > total) await out.truncate((parts = done = 0));
      if (done) for await (const chunk of createReadStream(incomplete)) hash.update(chunk);
      for (let tries = 0; done < total; tries++) {
        const before = done;
        try {
          for await (const chunk of await this.#from(file, commit, done)) {
            if (done === before) parts++;
            if (done + chunk.length > total) return { came: `more than its ${total} bytes`, parts };
            await out.writeFile(chunk);
            hash.update(chunk);
            done += chunk.length;
            this.options.onProgress?.({ file: file.path, done, total });
          }
          if (done < total) throw new Error('the connection was closed');
        } catch (e) {
          if ((e as NodeJS.ErrnoException).syscall === 'write')
            throw new FileError(`cannot write ${incomplete}: ${messageOf(e)}`);
          if (done > before) tries = 0;
          const kept = `${file.path}: ${done} of ${total} bytes are kept, and the next attempt resumes from there`;
          if (this.#signal?.aborted || refused(e) || tries + 1 >= TRIES) throw this.failed(e, kept);
          await this.#pause(tries + 1, e);
        }
      }
      await out.sync();
    } finally {
      await out.close();
    }
    return { came: `hash ${hash.digest('hex')}`, parts };
  }

  async #from(file: HubEntry, revision: string, start: number): Promise<AsyncIterable<Uint8Array>> {
    const { downloadFile } = await import('@huggingface/hub');
    const { type, name } = this.repo;
    const quoted = file.path.split('/').map(encodeURIComponent).join('/'); // the client does not do it
    const blob = await downloadFile({ repo: { type, name }, path: quoted, revision, ...(await this.#access()) });
    if (!blob) throw new Error(`the hub lists ${file.path}, but does not have it`);
    return blob.slice(start, blob.size).stream() as unknown as AsyncIterable<Uint8Array>;
  }

  failed(e: unknown, where = ''): Error {
    if (e instanceof HubError) return e;
    const title = titleOf(this.repo);
    if (this.options.signal?.aborted)
      return new HubError(`fetching ${title} was stopped${where && `: ${where}`}`, { cause: e });
    const refusal = this.#refusal(statusOf(e));
    if (refusal) return new HubError(`cannot fetch ${title}: ${refusal}`, { cause: e });
    const said = `${messageOf(e)}${e instanceof Error && e.cause ? ` (${messageOf(e.cause)})` : ''}`;
    const holds = this.repo.type === 'model' ? `the folder of the model${this.#noFolder()}` : 'files that are here';
    const advice = `check the network, set HF_ENDPOINT to a mirror, or give ${holds}`;
    return new HubError(`cannot fetch ${title}: ${where && `${where}. `}${said}: ${advice}`, { cause: e });
  }

  /** A wrong path looks like a name of the hub. */
  #noFolder(): string {
    return this.repo.type === 'model' ? ` (there is no folder ${this.repo.name} here)` : '';
  }

  /** Why the hub refused a request. Without a token it answers 401 for missing repositories, too. */
  #refusal(status: number | undefined): string | undefined {
    const { type, name, revision } = this.repo;
    const page = `${endpoint()}/${type === 'model' ? '' : `${type}s/`}${name}`;
    const isMissing = this.#code === 'RepoNotFound';
    if (this.#code === 'RevisionNotFound') return `it has no branch, tag or commit ${revision}: see ${page}`;
    if (this.#code === 'GatedRepo' || status === 403)
      return `it needs permission: accept its terms at ${page}, and set HF_TOKEN to a token of that account`;
    if (status === 401 && this.#hasToken && !isMissing)
      return `${endpoint()} does not accept the token: set HF_TOKEN to one that is valid, or unset it`;
    if (status === 401)
      return `${endpoint()} has no such ${type}, or it is private or gated: check its name${this.#noFolder()}, accept its terms at ${page}, and set HF_TOKEN`;
    if (status === 429)
      return `${endpoint()} limits requests (HTTP 429), also after ${TRIES} tries: try again in a few minutes${this.#hasToken ? '' : '. With HF_TOKEN the limit is higher'}`;
    if (status === 404)
      return `${endpoint()} has no such ${type}${isMissing ? '' : ' or revision'}, or it is private: check its name${this.#noFolder()}, and set HF_TOKEN to a token that may read it`;
    return undefined;
  }
}

/** Whether a path of the hub stays in the snapshot. */
const isInside = (file: string): boolean =>
  !file.includes('\\') && file.split('/').every((part) => part && part !== '.' && part !== '..');
const statusOf = (e: unknown): number | undefined => (e as { statusCode?: number } | undefined)?.statusCode;
/** Seconds of a Retry-After header: a number, or a date. */
function secondsOf(header: string | null): number | undefined {
  const seconds = header?.trim() ? Number(header) : Number.NaN;
  const left = Number.isNaN(seconds) ? (Date.parse(header ?? '') - Date.now()) / 1000 : seconds;
  return Number.isFinite(left) ? Math.max(0, left) : undefined;
}
/** Whether a retry would be refused again. */
const refused = (e: unknown): boolean => {
  const status = statusOf(e) ?? 0;
  return status >= 400 && status < 500 && status !== 429;
};
