// Files of the Hugging Face hub by URL: hf://datasets/OWNER/NAME[@REVISION]/PATH and hf://OWNER/NAME[@REVISION]/PATH, where
// PATH may be a pattern. They are found in the hub's cache or downloaded into it, one by one.
import { mkdir, readdir } from 'node:fs/promises';
import path from 'node:path';
import { envFlag } from '../base/env.js';
import { ArgumentError, HubError } from '../base/errors.js';
import { bytes, plural } from '../base/format.js';
import { jsonText, object, optional, type Read, readJson, record, text, whole } from '../base/json.js';
import { noticeOnce } from '../base/log.js';
import { checkOptions } from '../base/options.js';
import { replaceFiles } from './file.js';
import {
  cachedCommit,
  endpoint,
  exists,
  Fetch,
  type HubEntry,
  type HubOptions,
  hashOfEntry,
  isFolder,
  isWhole,
  lockRepo,
  type Repo,
  repoOf,
  sizeOfEntry,
  snapshotOf,
  titleOf,
} from './hub-repo.js';

export type HubFileOptions = Omit<HubOptions, 'revision'>;
export const HUB_FILE_OPTIONS = ['offline', 'refresh', 'signal', 'onProgress'] as const;

/** A local file, or one that can be downloaded. */
export interface FoundFile {
  /** Its path: on this machine, or in its repository. */
  readonly path: string;
  /** On the hub: its size. */
  readonly bytes?: number;
  /** Its path on this machine, once downloaded. */
  fetch(signal?: AbortSignal): Promise<string>;
}

const PREFIX = 'hf://';
export const isHubFile = (name: string): boolean => name.startsWith(PREFIX);

interface HubName {
  readonly repo: Repo;
  /** A path in the repository, or a pattern of paths. */
  readonly pattern: string;
}

/** The parts of a name as Python's HfFileSystem has it. */
export function parseHubFile(name: string): HubName {
  const [, kind = '', rest = ''] = /^hf:\/\/(?:(datasets|models|spaces|buckets|kernels)\/)?(.*)$/s.exec(name) ?? [];
  const parts = /^([\w-][\w.-]*\/[\w-][\w.-]*)(?:@(refs\/(?:convert\/[\w.-]+|pr\/\d+)|[^/]+))?\/(.+)$/s.exec(rest);
  const isOther = kind && kind !== 'datasets' && kind !== 'models';
  if (!parts || isOther || parts[3]!.split('/').some((part) => part === '' || part === '.' || part === '..'))
    throw new ArgumentError(
      `${name} is not a file of the hub: write hf://datasets/OWNER/NAME/PATH or hf://OWNER/NAME/PATH, with @REVISION after NAME for a revision other than main; PATH may have *, ** and ?`,
    );
  const [, repo, revision = 'main', pattern] = parts as unknown as [string, string, string?, string?];
  return { repo: repoOf(kind === 'datasets' ? 'dataset' : 'model', repo, unquoted(revision)), pattern: pattern! };
}
const unquoted = (revision: string): string => {
  try {
    return decodeURIComponent(revision);
  } catch {
    return revision;
  }
};

/**
 * The files with these names: local paths as they are, hub files (hf://...) by their patterns, in the order of their paths.
 * Nothing is downloaded yet.
 */
export async function findFiles(names: readonly string[], options: HubFileOptions = {}): Promise<FoundFile[]> {
  const found: FoundFile[] = [];
  for (const name of names)
    if (isHubFile(name)) found.push(...(await hubFiles(name, options)));
    else found.push({ path: name, fetch: async () => name });
  return found;
}

/** The local paths of files. Those named hf://... are downloaded unless they are in the cache. */
export async function resolveFiles(names: string | readonly string[], options: HubFileOptions = {}): Promise<string[]> {
  checkOptions('resolveFiles', HUB_FILE_OPTIONS, options);
  const here: string[] = [];
  for (const file of await findFiles([names].flat() as string[], options)) here.push(await file.fetch());
  return here;
}

/** The local path of one file; a pattern of several is an error. */
export async function resolveFile(name: string, options: HubFileOptions = {}): Promise<string> {
  checkOptions('resolveFile', HUB_FILE_OPTIONS, options);
  const [file, ...more] = await findFiles([name], options);
  if (more.length) throw new ArgumentError(`${name} matches ${more.length + 1} files: name one of them`);
  return file!.fetch();
}

/** Whether a name of the hub means a folder: it has neither stars nor an ending. */
export const isHubFolder = (name: string): boolean => isHubFile(name) && !isPattern(name) && !path.posix.extname(name);
/** The local path of a folder; files of the hub are downloaded. */
export async function resolveFolder(name: string): Promise<string> {
  if (!isHubFile(name)) return name;
  const files = await resolveFiles(`${name.replace(/\/$/, '')}/*`);
  return path.dirname(files[0]!);
}

/** A file beside one of the hub, if there is such a file. */
export async function resolveBeside(name: string, file: string): Promise<string | undefined> {
  const [found] = await hubFiles(`${name.slice(0, name.lastIndexOf('/') + 1)}${file}`, {}, true);
  return found?.fetch();
}

// ---- the files of a repository

interface Listing {
  readonly commit: string;
  readonly files: readonly HubEntry[];
  /** By this process, of the hub. */
  readonly isAsked: boolean;
}

async function hubFiles(name: string, options: HubFileOptions, isOptional = false): Promise<FoundFile[]> {
  const { repo, pattern } = parseHubFile(name);
  const { offline = envFlag('HF_HUB_OFFLINE'), refresh = false } = options;
  const listing = refresh && !offline ? undefined : await knownListing(repo);
  if (listing) {
    const matching = matches(listing.files, pattern);
    const there = await Promise.all(
      matching.map((f) => isWhole(path.join(snapshotOf(repo, listing.commit), f.path), f)),
    );
    const missing = matching.filter((_, i) => !there[i]);
    if (matching.length && !missing.length) return matching.map((file) => placeOf(repo, listing, file, options));
    if (offline && matching.length) throw notCached(name, repo, missing);
    if (offline && isOptional) return [];
    if (offline) throw noMatch(name, repo, pattern, listing.files);
  } else if (!refresh || offline) {
    const there = await withoutListing(repo, pattern);
    if (there) return there;
    if (offline && isOptional) return [];
    if (offline) throw notCached(name, repo, []);
  }
  const asked = listing?.isAsked ? listing : await askedListing(repo, options, refresh);
  const matching = matches(asked.files, pattern);
  if (!matching.length && isOptional) return [];
  if (!matching.length) throw noMatch(name, repo, pattern, asked.files);
  const here = await Promise.all(matching.map((f) => isWhole(path.join(snapshotOf(repo, asked.commit), f.path), f)));
  const away = matching.filter((_, i) => !here[i]);
  if (away.length)
    noticeOnce(
      `${titleOf(repo)}: ${plural(away.length, 'file')} (${bytes(away.reduce((n, f) => n + sizeOfEntry(f), 0))}) to fetch into ${repo.folder}, each when it is read`,
      `${name} ${repo.folder}`,
    );
  return matching.map((file) => placeOf(repo, asked, file, options));
}

const placeOf = (repo: Repo, { commit }: Listing, file: HubEntry, options: HubFileOptions): FoundFile => ({
  path: file.path,
  bytes: sizeOfEntry(file),
  fetch: (signal) => fetchFile(repo, commit, file, signal ? { ...options, signal } : options),
});

/** One process at a time downloads a file; others wait and then find it in the cache. */
async function fetchFile(repo: Repo, commit: string, file: HubEntry, options: HubFileOptions): Promise<string> {
  const target = path.join(snapshotOf(repo, commit), file.path);
  if (await isWhole(target, file)) return target;
  const { lock } = await lockRepo(repo, `tsxla-${hashOfEntry(file)}`, options.signal);
  try {
    return await new Fetch(repo, options, lock.lost).file(file, commit);
  } finally {
    await lock.release();
  }
}

/** The commits of revisions: a revision stays at the commit of its first use for the life of this process. */
const known = new Map<string, { readonly listing: Promise<Listing>; readonly signal: AbortSignal | undefined }>();
const keyOf = ({ folder, revision }: Repo): string => `${endpoint()} ${folder} ${revision}`;

async function knownListing(repo: Repo): Promise<Listing | undefined> {
  return (await known.get(keyOf(repo))?.listing.catch(() => undefined)) ?? cachedListing(repo);
}
async function cachedListing(repo: Repo): Promise<Listing | undefined> {
  const commit = await cachedCommit(repo);
  const files = commit && (await readTree(treeFile(repo, commit)));
  return commit && files ? { commit, files, isAsked: false } : undefined;
}

function askedListing(repo: Repo, options: HubFileOptions, refresh: boolean): Promise<Listing> {
  const key = keyOf(repo);
  const before = refresh ? undefined : known.get(key);
  if (before)
    return before.listing.catch((e) => {
      if (!before.signal?.aborted || options.signal?.aborted) throw e;
      return askedListing(repo, options, refresh); // who asked was stopped, and not we
    });
  const asking = { listing: ask(repo, options, refresh), signal: options.signal };
  known.set(key, asking);
  asking.listing.catch(() => known.get(key) === asking && known.delete(key)); // the next try asks again
  return asking.listing;
}

/** One process asks the hub; waiting processes use its answer. */
async function ask(repo: Repo, options: HubFileOptions, refresh: boolean): Promise<Listing> {
  const { lock, waited } = await lockRepo(repo, 'tsxla-list', options.signal);
  try {
    const told = waited && !refresh ? await cachedListing(repo) : undefined;
    if (told) return { ...told, isAsked: true };
    const hub = new Fetch(repo, options, lock.lost);
    const { commit, files } = await hub.list(true);
    await writeTree(treeFile(repo, commit), files);
    await hub.note(commit);
    return { commit, files, isAsked: true };
  } finally {
    await lock.release();
  }
}

/** Files that another program has fetched: one by its name, and offline whatever of the pattern is there. */
async function withoutListing(repo: Repo, pattern: string): Promise<FoundFile[] | undefined> {
  const commit = await cachedCommit(repo);
  const snapshot = commit && snapshotOf(repo, commit);
  if (!snapshot || !(await isFolder(snapshot))) return undefined;
  const isOne = !isPattern(pattern);
  if (!isOne && !envFlag('HF_HUB_OFFLINE')) return undefined;
  const names = isOne ? [pattern] : await readdir(snapshot, { recursive: true });
  const there = [];
  for (const file of matches(
    names.map((name) => ({ path: name.replaceAll(path.sep, '/') })),
    pattern,
  )) {
    const place = path.join(snapshot, file.path);
    if ((await exists(place)) && !(await isFolder(place))) there.push(file.path);
  }
  return there.length ? there.map((file) => ({ path: file, fetch: async () => path.join(snapshot, file) })) : undefined;
}

// ---- the list of a commit's files, in the form that Python's client gives it

const treeFile = ({ folder }: Repo, commit: string): string => path.join(folder, 'trees', `${commit}.json`);
const Entry = object({
  size: whole(),
  blob_id: text,
  lfs_sha256: optional(text),
  lfs_size: optional(whole()),
  xet_hash: optional(text),
});
const Tree = object({ format_version: whole(1, 1), files: record(Entry) });

async function readTree(file: string): Promise<HubEntry[] | undefined> {
  const tree = await readJson(file, Tree).catch(() => undefined); // of a later version: it is asked for again
  return tree && Object.entries(tree.files).map(([name, entry]) => entryOf(name, entry));
}
const entryOf = (path: string, e: Read<typeof Entry>): HubEntry => ({
  path,
  size: e.size,
  oid: e.blob_id,
  ...(e.lfs_sha256 !== undefined && { lfs: { oid: e.lfs_sha256, size: e.lfs_size ?? e.size } }),
  ...(e.xet_hash !== undefined && { xetHash: e.xet_hash }),
});

async function writeTree(file: string, entries: readonly HubEntry[]): Promise<void> {
  const files = Object.fromEntries(
    entries.map(({ path, size, oid = '', lfs, xetHash }) => [
      path,
      {
        size,
        blob_id: oid,
        ...(lfs && { lfs_sha256: lfs.oid, lfs_size: lfs.size }),
        ...(xetHash && { xet_hash: xetHash }),
      },
    ]),
  );
  await mkdir(path.dirname(file), { recursive: true });
  await replaceFiles(new Map([[file, (write) => write(jsonText({ format_version: 1, files }))]]));
}

// ---- patterns

const isPattern = (name: string): boolean => /[*?[]/.test(name);

/** The files that a pattern means, in the order of their paths. A file of that very name is meant alone. */
function matches<F extends { readonly path: string }>(files: readonly F[], pattern: string): F[] {
  const same = files.filter((f) => f.path === pattern);
  if (same.length || !isPattern(pattern)) return same;
  const regex = regexOf(pattern);
  return files.filter((f) => regex.test(f.path)).sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** A set of characters, [a-z] or [!a-z]. A reversed range, [z-a], is empty. */
function setOf(set: string, not: boolean): string {
  const full = set.replace(/(.)-(.)/gs, (range, first: string, last: string) => (first <= last ? range : ''));
  if (!full) return not ? '[^/]' : '(?!)';
  return `${not ? '(?!/)[^' : '['}${full.replace(/[\\\]^[]/g, '\\$&')}]`;
}

/** Of a pattern as Python's glob has it: * and ? stop at folders, ** does not. */
function regexOf(pattern: string): RegExp {
  const source = pattern.replace(
    /\*\*\/|\*\*|\*|\?|\[(!?)((?:\]|[^\]])[^\]]*)\]|[\\^$.|+(){}[\]]/g,
    (part, not, set) => {
      if (set !== undefined) return setOf(set, !!not);
      return { '**/': '(?:.*/)?', '**': '.*', '*': '[^/]*', '?': '[^/]' }[part as string] ?? `\\${part}`;
    },
  );
  return new RegExp(`^${source}$`, 's');
}

const NEAREST = 3;
const reversed = (text: string): string => [...text].reverse().join('');
/** How many letters two texts begin with alike. */
function prefixOf(a: string, b: string): number {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  return n;
}

function noMatch(name: string, repo: Repo, pattern: string, files: readonly HubEntry[]): Error {
  const within = files.filter((f) => f.path.startsWith(`${pattern.replace(/\/$/, '')}/`));
  if (within.length)
    return new HubError(`${name} is a folder of ${plural(within.length, 'file')}: name them, as in ${name}/*`);
  const nearest = files
    .map(({ path }) => ({ path, alike: prefixOf(path, pattern) + prefixOf(reversed(path), reversed(pattern)) }))
    .sort((a, b) => b.alike - a.alike || (a.path < b.path ? -1 : 1))
    .slice(0, NEAREST);
  const what = isPattern(pattern) ? 'no file matches' : 'no file';
  const others = files.length ? `the nearest are ${nearest.map((f) => f.path).join(', ')}` : 'it has no files';
  return new HubError(`${titleOf(repo)}: ${what} ${pattern}: ${others}`);
}

function notCached(name: string, repo: Repo, missing: readonly HubEntry[]): Error {
  const [first, ...more] = missing;
  const what = first ? `: ${first.path}${more.length ? ` and ${more.length} more` : ''} missing` : '';
  const download = `hf download ${repo.name}${repo.type === 'dataset' ? ' --repo-type dataset' : ''}`;
  return new HubError(
    `${name} is not ${first ? 'whole ' : ''}in the cache (${repo.folder})${what}, and nothing is downloaded offline: unset HF_HUB_OFFLINE, or copy that folder from a machine where this was run (${download})`,
  );
}
