// Models of the Hugging Face hub: found in its cache, or fetched into it by the official client, in the layout that
// Python's huggingface_hub keeps (so both share one cache):
//   models--ORG--NAME/refs/REVISION                  the commit that a branch or tag was at
//   models--ORG--NAME/snapshots/COMMIT/config.json   links to
//   models--ORG--NAME/blobs/HASH                     and HASH.incomplete, while it is fetched
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import fs from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ListFileEntry } from '@huggingface/hub';
import { env, envFlag } from '../base/env.js';
import { ArgumentError, FileError, HubError } from '../base/errors.js';
import { tryLock } from '../base/lock.js';
import { checkOptions } from '../base/options.js';
import { messageOf } from '../base/thrown.js';
import { replaceFiles } from './file.js';
import { readIndex } from './sharded.js';

export interface HubOptions {
  /** A branch, a tag or a commit; 'main' unless told. */
  readonly revision?: string;
  /** Nothing is fetched; HF_HUB_OFFLINE unless told. */
  readonly offline?: boolean;
  /** Asks the hub what the revision is at now, though the cache has one. */
  readonly refresh?: boolean;
  readonly signal?: AbortSignal;
  /** Called as bytes of a file arrive. */
  readonly onProgress?: (progress: { readonly file: string; readonly done: number; readonly total: number }) => void;
}
export const HUB_OPTIONS = ['revision', 'offline', 'refresh', 'signal', 'onProgress'] as const;

const home = (): string =>
  env('HF_HOME') ?? path.join(env('XDG_CACHE_HOME') ?? path.join(os.homedir(), '.cache'), 'huggingface');
/** Where models are kept, as the environment says: HF_HUB_CACHE, else in HF_HOME. */
export const hubCache = (): string =>
  path.resolve(
    (env('HF_HUB_CACHE') ?? env('HUGGINGFACE_HUB_CACHE') ?? path.join(home(), 'hub')).replace(
      /^~(?=\/|$)/,
      os.homedir(),
    ),
  );
const endpoint = (): string => (env('HF_ENDPOINT') ?? 'https://huggingface.co').replace(/\/+$/, '');

/** What is fetched of a model: its texts and weights, but not other formats of them. */
const WANTED = /^[^/\\]+\.(safetensors|json|jinja|txt|model)$/;
const WANTED_OLD = /^[^/\\]+\.bin$/; // weights of models that have no safetensors
const LAST = 'config.json'; // once it is there, all is

/**
 * The folder of a model: a folder that exists is used as it is; a name of the hub ('Qwen/Qwen3-0.6B') is looked for in the cache,
 * and fetched if it is not there whole. What an earlier try has fetched is kept.
 */
export async function resolveModel(nameOrFolder: string, options: HubOptions = {}): Promise<string> {
  checkOptions('resolveModel', HUB_OPTIONS, options);
  if (await isFolder(nameOrFolder)) return nameOrFolder;
  const { revision = 'main', offline = envFlag('HF_HUB_OFFLINE'), refresh = false } = options;
  if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)?$/.test(nameOrFolder)) {
    throw new ArgumentError(
      `${nameOrFolder} is neither a folder that is there nor a name of the hub (as Qwen/Qwen3-0.6B)`,
    );
  }
  if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(revision)) {
    throw new ArgumentError(`revision ${revision} of ${nameOrFolder} is no branch, tag or commit`);
  }
  const model = {
    name: nameOrFolder,
    revision,
    folder: path.join(hubCache(), `models--${nameOrFolder.replace('/', '--')}`),
  };
  const { snapshot, missing } = await cached(model);
  if (snapshot && !missing.length && (offline || !refresh)) return snapshot;
  if (!offline) return fetchModel(model, options);
  throw new HubError(
    `${title(model)} is not ${snapshot ? 'whole ' : ''}in the cache (${model.folder})${snapshot ? `: ${missing.join(', ')} missing` : ''}, \
and nothing is fetched offline. Unset HF_HUB_OFFLINE, or copy that folder from a machine where this was run: hf download ${model.name}`,
  );
}

interface Model {
  readonly name: string;
  readonly revision: string;
  readonly folder: string;
}

const title = ({ name, revision }: Model): string => (revision === 'main' ? name : `${name} (${revision})`);
const isFolder = async (file: string): Promise<boolean> =>
  !!(await fs.stat(file).catch(() => undefined))?.isDirectory();
const exists = async (file: string): Promise<boolean> => !!(await fs.stat(file).catch(() => undefined));

/** What the cache has of a model, and what it lacks. */
async function cached({
  revision,
  folder,
}: Model): Promise<{ readonly snapshot?: string; readonly missing: readonly string[] }> {
  const named = await fs.readFile(path.join(folder, 'refs', revision), 'utf8').catch(() => revision);
  if (!isHash(named.trim())) return { missing: [] };
  const snapshot = path.join(folder, 'snapshots', named.trim());
  return (await isFolder(snapshot)) ? { snapshot, missing: await lackingIn(snapshot) } : { missing: [] };
}

async function lackingIn(snapshot: string): Promise<string[]> {
  const config = (await exists(path.join(snapshot, LAST))) ? [] : [LAST];
  for (const weights of ['model.safetensors', 'pytorch_model.bin']) {
    if (await exists(path.join(snapshot, weights))) return config;
    const index = path.join(snapshot, `${weights}.index.json`);
    if (!(await exists(index))) continue;
    const lacking = [];
    for (const shard of new Set((await readIndex(index)).values())) {
      if (!(await exists(path.join(snapshot, shard)))) lacking.push(shard);
    }
    return [...config, ...lacking];
  }
  return [...config, 'model.safetensors'];
}

/** One process at a time fetches a model; the others wait, and find it there. */
async function fetchModel(model: Model, options: HubOptions): Promise<string> {
  const lock = path.join(hubCache(), '.locks', path.basename(model.folder), 'tsxla');
  await fs.mkdir(path.dirname(lock), { recursive: true });
  let held = await tryLock(lock);
  const waited = !held;
  for (; !held; held = await tryLock(lock)) await sleep(200, undefined, options.signal && { signal: options.signal });
  try {
    const { snapshot, missing } = await cached(model);
    if (waited && snapshot && !missing.length) return snapshot;
    return await new Fetch(model, options, held.lost).run();
  } finally {
    await held.release();
  }
}

const TRIES = 5; // without a byte gained

class Fetch {
  readonly #signal: AbortSignal;

  constructor(
    readonly model: Model,
    readonly options: HubOptions,
    lost: AbortSignal,
  ) {
    this.#signal = AbortSignal.any([lost, ...(options.signal ? [options.signal] : [])]);
  }

  /** What every call of the client takes. */
  async #access() {
    const token =
      env('HF_TOKEN') ??
      (await fs.readFile(env('HF_TOKEN_PATH') ?? path.join(home(), 'token'), 'utf8').catch(() => ''));
    const signal = this.#signal;
    return {
      hubUrl: endpoint(),
      fetch: ((url, init) => fetch(url, { ...init, signal })) as typeof fetch,
      ...(token.trim() && { accessToken: token.trim() }),
    };
  }

  async run(): Promise<string> {
    const { name, revision, folder } = this.model;
    const { modelInfo, listFiles } = await import('@huggingface/hub');
    const access = await this.#access();
    const files: ListFileEntry[] = [];
    let commit = '';
    try {
      ({ sha: commit } = await modelInfo({ name, revision, additionalFields: ['sha'], ...access }));
      if (!isHash(commit)) throw new Error(`the hub says that it is at commit ${commit}`);
      for await (const file of listFiles({ repo: name, revision: commit, ...access })) files.push(file);
    } catch (e) {
      throw this.#failed(e);
    }
    const safe = files.some((f) => f.path.endsWith('.safetensors'));
    const wanted = files.filter(
      (f) => f.type === 'file' && (WANTED.test(f.path) || (!safe && WANTED_OLD.test(f.path))),
    );
    // Small files first, so that after a stop the index tells which shards are missing.
    const inOrder = wanted.sort((a, b) => Number(a.path === LAST) - Number(b.path === LAST) || a.size - b.size);
    const snapshot = path.join(folder, 'snapshots', commit);
    for (const sub of [snapshot, path.join(folder, 'blobs'), path.dirname(path.join(folder, 'refs', revision))]) {
      await fs.mkdir(sub, { recursive: true });
    }
    if (revision !== commit) {
      await replaceFiles(new Map([[path.join(folder, 'refs', revision), (write) => write(Buffer.from(commit))]]));
    }
    for (const file of inOrder) await this.#file(file, commit, path.join(snapshot, file.path));
    return snapshot;
  }

  async #file(file: ListFileEntry, commit: string, target: string): Promise<void> {
    if (await exists(target)) return;
    const hash = file.lfs?.oid ?? file.oid ?? '';
    if (!isHash(hash)) throw this.#failed(new Error(`the hub names no hash of ${file.path}`));
    const blob = path.join(this.model.folder, 'blobs', hash);
    if (!(await exists(blob))) await this.#blob(file, commit, blob);
    await fs.rm(target, { force: true }); // a link to a blob that is gone
    const link = path.relative(path.dirname(target), blob);
    await fs.symlink(link, target).catch(() => fs.copyFile(blob, target)); // Windows may forbid links
  }

  /** Fetches a file, beginning where an earlier try ended. */
  async #blob(file: ListFileEntry, commit: string, blob: string): Promise<void> {
    const total = file.lfs?.size ?? file.size;
    const incomplete = `${blob}.incomplete`;
    // A file's name is the hash of its content: git's, or for large files SHA-256.
    const hash = file.lfs ? createHash('sha256') : createHash('sha1').update(`blob ${total}\0`);
    const out = await fs.open(incomplete, 'a');
    let done = (await out.stat()).size;
    try {
      if (done > total) await out.truncate((done = 0));
      if (done) for await (const chunk of createReadStream(incomplete)) hash.update(chunk);
      for (let tries = 0; done < total; tries++) {
        const before = done;
        try {
          for await (const chunk of await this.#from(file, commit, done)) {
            if (done + chunk.length > total) throw new Error(`more than its ${total} bytes arrive`);
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
          const kept = `${file.path}: ${done} of ${total} bytes are kept, and a new try goes on from there`;
          if (this.#signal.aborted || refused(e) || tries + 1 >= TRIES) throw this.#failed(e, kept);
          await sleep(100 * 2 ** tries);
        }
      }
      await out.sync();
    } finally {
      await out.close();
    }
    await this.#check(hash, file, blob, incomplete);
    await fs.rename(incomplete, blob);
  }

  async #check(hash: Hash, file: ListFileEntry, blob: string, incomplete: string): Promise<void> {
    const actual = hash.digest('hex');
    if (actual === path.basename(blob)) return;
    await fs.rm(incomplete, { force: true });
    throw this.#failed(
      new Error(`${file.path} came with hash ${actual}, expected ${path.basename(blob)}; it was removed: try again`),
    );
  }

  async #from(file: ListFileEntry, revision: string, start: number): Promise<AsyncIterable<Uint8Array>> {
    const { downloadFile } = await import('@huggingface/hub');
    const blob = await downloadFile({ repo: this.model.name, path: file.path, revision, ...(await this.#access()) });
    if (!blob) throw new Error(`the hub lists ${file.path}, but does not have it`);
    return blob.slice(start, blob.size).stream() as unknown as AsyncIterable<Uint8Array>;
  }

  #failed(e: unknown, where = ''): Error {
    if (this.options.signal?.aborted)
      return new HubError(`fetching ${title(this.model)} was stopped${where && `: ${where}`}`, { cause: e });
    const { name } = this.model;
    const status = statusOf(e);
    const said = `${where && `${where}. `}${messageOf(e)}${e instanceof Error && e.cause ? ` (${messageOf(e.cause)})` : ''}`;
    const advice =
      status === 401 || status === 403
        ? `it wants permission: accept its terms at ${endpoint()}/${name}, and set HF_TOKEN`
        : status === 404
          ? `there is no such model or revision at ${endpoint()}, or it is private: then set HF_TOKEN`
          : `check the network, set HF_ENDPOINT to a mirror, or give a folder that holds the model`;
    return new HubError(`cannot fetch ${title(this.model)}: ${said}: ${advice}`, { cause: e });
  }
}

const isHash = (text: unknown): boolean => typeof text === 'string' && /^[0-9a-f]{40}([0-9a-f]{24})?$/.test(text);
const statusOf = (e: unknown): number | undefined => (e as { statusCode?: number } | undefined)?.statusCode;
/** The hub said no, and will again. */
const refused = (e: unknown): boolean => {
  const status = statusOf(e) ?? 0;
  return status >= 400 && status < 500 && status !== 429;
};
