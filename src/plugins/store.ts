// The store: one folder for each installed plugin, with its library and a manifest. Only libraries that tsxla's own table pins
// are loaded from it, and none that other users can change.
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
  readonly mtimeMs: number; // time of installation; informational
}

/** An installed plugin; `path` is its library. */
export interface Entry extends Manifest {
  readonly path: string;
}

export const storeDir = (): string => path.join(cacheDir(), 'plugins');
export const entryName = (p: { package: string; version: string; platform: string }): string =>
  `${p.package}-${p.version}-${p.platform}`;
/** The record of a library's verified hash. Outside the entry, so that replacing the entry does not replace it. */
export const recordFile = (name: string): string => path.join(storeDir(), `${name}.verified`);

/** Throws unless the file has the expected SHA-256. `repair` is the command that repairs it. */
export async function checkHash(file: string, expected: string, repair: string, record?: string): Promise<void> {
  const actual = await (record ? rememberedSha256(file, record) : sha256Of(file));
  if (actual === expected) return;
  throw new PluginCorruptError(
    `${file} is not the library that was installed: its sha256 is ${actual}, expected ${expected}. Repair it with: ${repair}`,
  );
}

export const repairCommand = (device: DeviceType): string => `tsxla plugins install ${device}`;
const manifestFile = (name: string): string => path.join(storeDir(), name, 'manifest.json');

/** The entry described by its manifest; undefined if that is missing or unreadable (then it is installed again). */
async function readEntry(name: string): Promise<Entry | undefined> {
  try {
    const manifest = (await readJson(manifestFile(name), object({ library: text }))) as Manifest | undefined;
    return manifest && { ...manifest, path: path.join(storeDir(), name, path.basename(manifest.library)) };
  } catch {
    return undefined;
  }
}

/** The expected manifest of a pinned plugin. */
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
 * Hashes the content if the file has changed since it was last hashed, and always with `full`.
 */
export async function openEntry(what: Fetchable, { full = false } = {}): Promise<Entry | undefined> {
  const name = entryName(what);
  const entry = await readEntry(name);
  if (!entry) return undefined;
  const repair = repairCommand(what.device);
  const expected = pinned(what);
  const library = path.join(storeDir(), name, expected.library);
  const file = await lstat(library).catch(() => undefined);
  for (const [key, value] of Object.entries(expected)) {
    const said = entry[key as keyof Manifest];
    if (said === value) continue;
    throw new PluginCorruptError(
      `${manifestFile(name)} was changed: ${key} is ${JSON.stringify(said)}, expected ${JSON.stringify(value)}. \
Repair it with: ${repair}`,
    );
  }
  if (!file) throw new PluginCorruptError(`${library} is missing from the store. Repair it with: ${repair}`);
  checkStore();
  const reason =
    distrustFolder(path.dirname(library)) ??
    (file.isFile() ? distrust(library, file) : `${library} is not a regular file`);
  if (reason) throw new PluginCorruptError(`${library} was not loaded: ${reason}. Repair it with: ${repair}`);
  await checkHash(library, expected.sha256, repair, full ? undefined : recordFile(name));
  for (const [beside, { sha256 }] of Object.entries(what.wheel.beside ?? {})) {
    const file = path.join(path.dirname(library), beside);
    const found = await lstat(file).catch(() => undefined);
    if (!found?.isFile()) throw new PluginCorruptError(`${file} is missing from the store. Repair it with: ${repair}`);
    const reason = distrust(file, found);
    if (reason) throw new PluginCorruptError(`${library} was not loaded: ${reason}. Repair it with: ${repair}`);
    await checkHash(file, sha256, repair, full ? undefined : recordFile(`${name}.${beside}`));
  }
  return { ...entry, path: library };
}

/** Throws if other users can change the store's content. The cache folder itself may be sticky, as /tmp is. */
function checkStore(): void {
  const { uid } = statSync(cacheDir());
  const reason = distrust(cacheDir(), { uid, mode: 0 }) ?? distrustFolder(storeDir());
  if (!reason) return;
  throw new PluginCorruptError(
    `plugins in ${storeDir()} were not loaded: ${reason}. Or set TSXLA_CACHE_DIR to a folder that only you can write to`,
  );
}

async function writeManifest(folder: string, { path: _, ...manifest }: Entry): Promise<void> {
  const draft = path.join(folder, `manifest.${randomUUID()}`);
  await writeFile(draft, `${JSON.stringify(manifest, null, 2)}\n`);
  await rename(draft, path.join(folder, 'manifest.json'));
}

/** Names of the installed entries; with `unfinished`, also those left by an interrupted installation. */
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

/** Removes leftovers of dead installations of this entry. Only the lock's holder may call it. */
async function sweep(name: string): Promise<void> {
  for (const left of await readdir(storeDir())) {
    if (left.startsWith(`${name}.tmp-`)) await rm(path.join(storeDir(), left), { recursive: true, force: true });
  }
}

/** Removes an entry by renaming it first, so that a kill half-way leaves no half-deleted entry. */
async function discard(name: string): Promise<void> {
  const aside = temporaryName(name);
  await rename(path.join(storeDir(), name), aside).catch((e) => {
    if (e.code !== 'ENOENT') throw e;
  });
  await rm(aside, { recursive: true, force: true });
  for (const file of await readdir(storeDir()))
    if (file === path.basename(recordFile(name)) || (file.startsWith(`${name}.`) && file.endsWith('.verified')))
      await rm(path.join(storeDir(), file), { force: true });
}

const FOLDER = 0o755; // whatever the umask: a folder that others can write to is refused

/** Takes the lock of an entry: one process at a time works on it. */
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
 * Installs an entry that `fill` writes into a temporary folder, unless `accept` finds a good one already.
 * If several processes call this at once, one fills it and the others find it installed.
 */
export async function install(name: string, fill: Fill, accept?: () => Promise<Entry | undefined>): Promise<Entry> {
  for (;;) {
    const held = await lock(name);
    const temporary = temporaryName(name);
    let begun = false;
    try {
      await sweep(name);
      const present = await accept?.().catch((e) => {
        if (!(e instanceof PluginCorruptError)) throw e; // installing repairs a corrupt entry
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
      // We lost the lock, and the process that took it removed our folder: try again, and find what it installed.
      if (!held.lost.aborted && !(begun && !existsSync(temporary))) throw e;
    } finally {
      await rm(temporary, { recursive: true, force: true });
      await held.release();
    }
  }
}

/** Removes an entry; returns its folder. */
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
