// Models of the Hugging Face hub: found in its cache or downloaded into it.
import path from 'node:path';
import { envFlag } from '../base/env.js';
import { ArgumentError, HubError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import {
  cachedCommit,
  exists,
  Fetch,
  HUB_OPTIONS,
  type HubOptions,
  isFolder,
  lockRepo,
  type Repo,
  repoOf,
  sizeOfEntry,
  snapshotOf,
  titleOf,
} from './hub-repo.js';
import { readIndex } from './sharded.js';

/** The files of a model that are downloaded: texts and weights, but not the same weights in other formats. */
const WANTED = /^[^/\\]+\.(safetensors|json|jinja|txt|model)$/;
const WANTED_OLD = /^[^/\\]+\.bin$/; // weights of models that have no safetensors
const LAST = 'config.json'; // once it is there, all is

/**
 * The folder of a model. An existing folder is returned; a name of the hub ('Qwen/Qwen3-0.6B') is looked up in the cache, and
 * downloaded if it is not complete there. Partial downloads are resumed.
 */
export async function resolveModel(nameOrFolder: string, options: HubOptions = {}): Promise<string> {
  checkOptions('resolveModel', HUB_OPTIONS, options);
  if (await isFolder(nameOrFolder)) return nameOrFolder;
  const { revision = 'main', offline = envFlag('HF_HUB_OFFLINE'), refresh = false } = options;
  if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)?$/.test(nameOrFolder)) {
    throw new ArgumentError(
      `${nameOrFolder} is neither an existing folder nor a name of the hub (such as Qwen/Qwen3-0.6B)`,
    );
  }
  const model = repoOf('model', nameOrFolder, revision);
  const { snapshot, missing } = await cached(model);
  if (snapshot && !missing.length && (offline || !refresh)) return snapshot;
  if (!offline) return fetchModel(model, options);
  throw new HubError(
    `${titleOf(model)} is not ${snapshot ? 'whole ' : ''}in the cache (${model.folder})${snapshot ? `: ${missing.join(', ')} missing` : ''}, \
and nothing is downloaded offline. Unset HF_HUB_OFFLINE, or copy that folder from a machine where this was run: hf download ${model.name}`,
  );
}

/** Which files of a model the cache has, and which it lacks. */
async function cached(model: Repo): Promise<{ readonly snapshot?: string; readonly missing: readonly string[] }> {
  const commit = await cachedCommit(model);
  if (!commit) return { missing: [] };
  const snapshot = snapshotOf(model, commit);
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

/** One process at a time downloads a model; others wait and then find it in the cache. */
async function fetchModel(model: Repo, options: HubOptions): Promise<string> {
  const { lock, waited } = await lockRepo(model, 'tsxla', options.signal);
  try {
    const { snapshot, missing } = await cached(model);
    if (waited && snapshot && !missing.length) return snapshot;
    const hub = new Fetch(model, options, lock.lost);
    const { commit, files } = await hub.list(false);
    const safe = files.some((f) => f.path.endsWith('.safetensors'));
    const wanted = files.filter((f) => WANTED.test(f.path) || (!safe && WANTED_OLD.test(f.path)));
    // Small files first, so that after a stop the index tells which shards are missing.
    wanted.sort((a, b) => Number(a.path === LAST) - Number(b.path === LAST) || sizeOfEntry(a) - sizeOfEntry(b));
    await hub.note(commit);
    for (const file of wanted) await hub.file(file, commit);
    return snapshotOf(model, commit);
  } finally {
    await lock.release();
  }
}
