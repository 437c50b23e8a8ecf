// The store: a folder an installed plugin, each holding its library and a manifest of what was put there.
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cacheDir } from '../base/env.js';
import { PluginCorruptError } from '../base/errors.js';
import { type Lock, tryLock } from '../base/lock.js';
import type { DeviceType } from './table.js';

export interface Manifest {
  readonly device: DeviceType;
  readonly package: string;
  readonly version: string;
  readonly platform: string;
  readonly library: string; // file name
  readonly sha256: string;
  readonly size: number;
  readonly mtimeMs: number;
}

/** An installed plugin; `path` is its library. */
export interface Entry extends Manifest {
  readonly path: string;
}

export const storeDir = (): string => path.join(cacheDir(), 'plugins');
export const entryName = (p: { package: string; version: string; platform: string }): string =>
  `${p.package}-${p.version}-${p.platform}`;

export async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  // Small enough pieces that the event loop, and with it the lock's heartbeat, stays free.
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk);
  return hash.digest('hex');
}

/** Throws unless the file's SHA-256 is the expected one. `mend` is the command that puts it right. */
export async function checkHash(file: string, expected: string, mend: string): Promise<void> {
  const actual = await sha256Of(file);
  if (actual === expected) return;
  throw new PluginCorruptError(
    `${file} is not the library that was installed: its sha256 is ${actual}, expected ${expected}. Mend it with: ${mend}`,
  );
}

const mendingCommand = (device: DeviceType): string => `tsxla plugins install ${device}`;
const manifestFile = (name: string): string => path.join(storeDir(), name, 'manifest.json');

/** The entry as its manifest tells it; undefined if there is none, or no readable one (then it is installed anew). */
async function readEntry(name: string): Promise<Entry | undefined> {
  try {
    const manifest = JSON.parse(await readFile(manifestFile(name), 'utf8')) as Manifest;
    if (typeof manifest.library !== 'string') return undefined;
    return { ...manifest, path: path.join(storeDir(), name, manifest.library) };
  } catch {
    return undefined;
  }
}

/** Opens an entry. Size and time of change are checked each time, the whole content (`full`) only when they differ. */
export async function openEntry(name: string, { full = false } = {}): Promise<Entry | undefined> {
  const entry = await readEntry(name);
  if (!entry) return undefined;
  const mend = mendingCommand(entry.device);
  const file = await stat(entry.path).catch(() => undefined);
  if (!file) throw new PluginCorruptError(`${entry.path} is gone from the store. Mend it with: ${mend}`);
  const untouched = file.size === entry.size && file.mtimeMs === entry.mtimeMs;
  if (untouched && !full) return entry;
  await checkHash(entry.path, entry.sha256, mend);
  if (untouched) return entry;
  // Same content, new time (a copied or restored cache): remember it, if the store can be written to.
  const fresh = { ...entry, mtimeMs: file.mtimeMs };
  await writeManifest(path.join(storeDir(), name), fresh).catch(() => undefined);
  return fresh;
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
}

/** One process at a time works on an entry. */
async function lock(name: string): Promise<Lock> {
  await mkdir(storeDir(), { recursive: true });
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
      await mkdir(temporary);
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
