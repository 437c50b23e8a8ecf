// The store: one folder for each installed plugin, with its library and a manifest of what was put there. What is
// loaded from it is what tsxla's own table pins, and nothing that other users can change.
import { randomUUID } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { lstat, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cacheDir } from '../base/env.js';
import { PluginCorruptError } from '../base/errors.js';
import { makeFolder } from '../base/folder.js';
import { object, readJson, text } from '../base/json.js';
import { type Lock, tryLock } from '../base/lock.js';
import { distrust, distrustFolder } from '../base/trust.js';
import { rememberedSha256, sha256Of } from './hash.js';
import { type DeviceType, type Fetchable, libraryName } from './table.js';

export interface Manifest {
  readonly device: DeviceType;
  readonly package: string;
  readonly version: string;
  readonly platform: string;
  readonly library: string; // file name
  readonly sha256: string;
  readonly size: number;
  readonly mtimeMs: number; // when it was installed; nothing depends on it
}

/** An installed plugin; `path` is its library. */
export interface Entry extends Manifest {
  readonly path: string;
}

export const storeDir = (): string => path.join(cacheDir(), 'plugins');
export const entryName = (p: { package: string; version: string; platform: string }): string =>
  `${p.package}-${p.version}-${p.platform}`;
/** Where it is remembered that a library had the right content. Outside the entry: who replaces that leaves this behind. */
export const recordFile = (name: string): string => path.join(storeDir(), `${name}.verified`);

/** Throws unless the file's SHA-256 is the expected one. `mend` is the command that puts it right. */
export async function checkHash(file: string, expected: string, mend: string, record?: string): Promise<void> {
  const actual = await (record ? rememberedSha256(file, record) : sha256Of(file));
  if (actual === expected) return;
  throw new PluginCorruptError(
    `${file} is not the library that was installed: its sha256 is ${actual}, expected ${expected}. Mend it with: ${mend}`,
  );
}

export const mendingCommand = (device: DeviceType): string => `tsxla plugins install ${device}`;
const manifestFile = (name: string): string => path.join(storeDir(), name, 'manifest.json');

/** The entry as its manifest tells it; undefined if there is none, or no readable one (then it is installed anew). */
async function readEntry(name: string): Promise<Entry | undefined> {
  try {
    const manifest = (await readJson(manifestFile(name), object({ library: text }))) as Manifest | undefined;
    return manifest && { ...manifest, path: path.join(storeDir(), name, path.basename(manifest.library)) };
  } catch {
    return undefined;
  }
}

/** What the manifest of a pinned plugin must say. */
export const pinned = (what: Fetchable): Omit<Manifest, 'mtimeMs'> => ({
  device: what.device,
  package: what.package,
  version: what.version,
  platform: what.platform,
  library: libraryName(what),
  ...what.wheel.library,
});

/**
 * Opens the entry of a pinned plugin, or returns undefined if there is none. Throws unless it is what the table pins.
 * The content is hashed when the file has changed in any way since it was last hashed, and always with `full`.
 */
export async function openEntry(what: Fetchable, { full = false } = {}): Promise<Entry | undefined> {
  const name = entryName(what);
  const entry = await readEntry(name);
  if (!entry) return undefined;
  const mend = mendingCommand(what.device);
  const expected = pinned(what);
  const library = path.join(storeDir(), name, expected.library);
  const file = await lstat(library).catch(() => undefined);
  for (const [key, value] of Object.entries(expected)) {
    const said = entry[key as keyof Manifest];
    if (said === value) continue;
    throw new PluginCorruptError(
      `${manifestFile(name)} was changed: ${key} is ${JSON.stringify(said)}, expected ${JSON.stringify(value)}. \
Mend it with: ${mend}`,
    );
  }
  if (!file) throw new PluginCorruptError(`${library} is gone from the store. Mend it with: ${mend}`);
  checkStore();
  const reason =
    distrustFolder(path.dirname(library)) ??
    (file.isFile() ? distrust(library, file) : `${library} is not a regular file`);
  if (reason) throw new PluginCorruptError(`${library} is not loaded: ${reason}. Mend it with: ${mend}`);
  await checkHash(library, expected.sha256, mend, full ? undefined : recordFile(name));
  return { ...entry, path: library };
}

/** Throws if other users can change what is in the store. The folder of all caches may be a sticky one, as /tmp is. */
function checkStore(): void {
  const { uid } = statSync(cacheDir());
  const reason = distrust(cacheDir(), { uid, mode: 0 }) ?? distrustFolder(storeDir());
  if (!reason) return;
  throw new PluginCorruptError(
    `plugins in ${storeDir()} are not loaded: ${reason}. Or set TSXLA_CACHE_DIR to a folder that only you can write to`,
  );
}

async function writeManifest(folder: string, { path: _, ...manifest }: Entry): Promise<void> {
  const draft = path.join(folder, `manifest.${randomUUID()}`);
  await writeFile(draft, `${JSON.stringify(manifest, null, 2)}\n`);
  await rename(draft, path.join(folder, 'manifest.json'));
}

/** Names of the installed entries; with `unfinished`, of those too that a stopped installation left. */
export async function entryNames({ unfinished = false } = {}): Promise<string[]> {
  const names = await readdir(storeDir()).catch(() => []);
  const entries = names.filter((name) => existsSync(manifestFile(name)) && !name.includes('.tmp-'));
  const left = unfinished
    ? names.filter((name) => name.includes('.tmp-')).map((name) => name.replace(/\.tmp-.*/, ''))
    : [];
  return [...new Set([...entries, ...left])];
}

export async function listEntries(): Promise<Entry[]> {
  const entries = await Promise.all((await entryNames()).map(readEntry));
  return entries.filter((e) => e !== undefined);
}

// A temporary folder is its entry's name with a suffix, on the same file system, so that one rename installs it.
const temporaryName = (name: string): string => path.join(storeDir(), `${name}.tmp-${randomUUID()}`);

/** Removes what dead installations of this entry left. Only the lock's holder may call it. */
async function sweep(name: string): Promise<void> {
  for (const left of await readdir(storeDir())) {
    if (left.startsWith(`${name}.tmp-`)) await rm(path.join(storeDir(), left), { recursive: true, force: true });
  }
}

/** Takes an entry out of the store by a rename, so that a kill half-way leaves no half-deleted entry. */
async function discard(name: string): Promise<void> {
  const aside = temporaryName(name);
  await rename(path.join(storeDir(), name), aside).catch((e) => {
    if (e.code !== 'ENOENT') throw e;
  });
  await rm(aside, { recursive: true, force: true });
  await rm(recordFile(name), { force: true });
}

const FOLDER = 0o755; // whatever the umask: a folder that others can write to is refused

/** One process at a time works on an entry. */
async function lock(name: string): Promise<Lock> {
  makeFolder(storeDir(), FOLDER);
  checkStore();
  for (;;) {
    const held = await tryLock(path.join(storeDir(), name));
    if (held) return held;
    await sleep(200);
  }
}

type Fill = (folder: string, lost: AbortSignal) => Promise<Omit<Manifest, 'mtimeMs'>>;

/**
 * Installs an entry that `fill` puts into a temporary folder, unless `accept` finds it good already.
 * However many processes call this at once, one fills and the rest find it there.
 */
export async function install(name: string, fill: Fill, accept?: () => Promise<Entry | undefined>): Promise<Entry> {
  for (;;) {
    const held = await lock(name);
    const temporary = temporaryName(name);
    let begun = false;
    try {
      await sweep(name);
      const present = await accept?.().catch((e) => {
        if (!(e instanceof PluginCorruptError)) throw e; // a corrupt entry is what installing mends
      });
      if (present) return present;
      await mkdir(temporary, { mode: FOLDER });
      begun = true;
      const made = await fill(temporary, held.lost);
      const { mtimeMs } = await stat(path.join(temporary, made.library));
      const entry = { ...made, mtimeMs, path: path.join(storeDir(), name, made.library) };
      await writeManifest(temporary, entry);
      await discard(name);
      await rename(temporary, path.join(storeDir(), name));
      return entry;
    } catch (e) {
      // Whoever took a lost lock has swept our folder: go round again, and find what they installed.
      if (!held.lost.aborted && !(begun && !existsSync(temporary))) throw e;
    } finally {
      await rm(temporary, { recursive: true, force: true });
      await held.release();
    }
  }
}

/** Removes an entry; says where it was. */
export async function removeEntry(name: string): Promise<string> {
  const held = await lock(name);
  try {
    await sweep(name);
    await discard(name);
    return path.join(storeDir(), name);
  } finally {
    await held.release();
  }
}
