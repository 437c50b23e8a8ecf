// Reads and writes the files of checkpoints, by one process or several. A folder is written under a temporary name and renamed
// when it is complete. Several processes write their parts into the folder of the first one, which combines them in one index
// and renames it: folders left behind by the others are never used as checkpoints.
import { createHash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import fsp from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout } from 'node:timers/promises';
import { CheckpointError, FileError } from '../base/errors.js';
import { isFileName } from '../base/folder.js';
import {
  anyObject,
  checkJson,
  list,
  object,
  optional,
  readJson,
  readJsonSync,
  real,
  text,
  whole,
} from '../base/json.js';
import { isAlive, removeStaleLock } from '../base/lock.js';
import { messageOf } from '../base/thrown.js';
import type { ArraySource, HostArray } from './array.js';
import { flushFolder, replaceFiles, writeFlushed } from './file.js';
import { checkCovered, checkIndex, freeName, type Index, isWhole, keyOf, PartedArrays, sha256 } from './parts.js';
import { openSafetensors, type SafetensorsFile, writeSafetensors } from './safetensors.js';
import type { Snapshot } from './state.js';

export interface CheckpointInfo {
  readonly step: number;
  readonly path: string;
  readonly metrics: Readonly<Record<string, number>>;
  /** Milliseconds since 1970. */
  readonly time: number;
}

interface FileEntry {
  readonly bytes: number;
  /** The hash of the file, if the whole file is verified; otherwise its arrays are. */
  readonly sha256?: string;
}
type Files = Record<string, FileEntry>;
/** By item. */
type Indexes = Record<string, Index>;

export interface Manifest extends Omit<CheckpointInfo, 'path'> {
  readonly format: 'tsxla-checkpoint';
  /** 1 had no parts: each item's arrays are whole, in one file. */
  readonly version: 1 | 2;
  /** The folder it was written in, by which several processes recognize their own checkpoint. */
  readonly attempt?: string;
  /** Larger than that of all earlier checkpoints: steps do not suffice, as a run may go back to an earlier one. */
  readonly order: number;
  /** The items that are states, not plain values. */
  readonly stateful: readonly string[];
  /** Each item, with { $tensor: name } in place of arrays. */
  readonly items: Readonly<Record<string, unknown>>;
  readonly files: Readonly<Files>;
  /** Of all the rest; the first ones of version 2 had none. */
  readonly sha256?: string;
}
/** A manifest's hash is that of its JSON without the hash: places in the data, rates and counts are in it. */
const sealOf = ({ sha256: _, ...rest }: Manifest): string =>
  createHash('sha256').update(JSON.stringify(rest)).digest('hex');

const MANIFEST = 'checkpoint.json';
/** The lock of the process that saves in a folder of checkpoints. */
export const WRITER = '.writer';
const ARRAYS = 'arrays.json';
const VERSION = 2;
export const FOLDER = /^step-(\d+)$/;
/** A folder that is being written or replaced: .unfinished-HOST-PID-ID.STEP */
const LEFT = /^\.unfinished-(\w+)-(\d+)-/;
const FORMER = '-former';

const numbered = (n: number): string => String(n).padStart(5, '0');
export const folderOf = (dir: string, step: number): string => path.join(dir, `step-${String(step).padStart(8, '0')}`);

/** The index of this process among those that save together. */
export interface Processes {
  readonly index: number;
  readonly count: number;
  /** The time to wait for the other processes, in milliseconds. */
  readonly patience?: number;
}
const PATIENCE = 10 * 60e3;
const POLL = 50; // milliseconds

// ---- writing

/** Writes the checkpoint of a step. Resolves in every process when it exists. */
export async function writeCheckpoint(
  dir: string,
  about: Pick<Manifest, 'step' | 'metrics' | 'order'>,
  state: Snapshot,
  processes: Processes = { index: 0, count: 1 },
): Promise<void> {
  if (processes.index) return contribute(dir, about.step, state, processes);
  const name = newName(about.step);
  const [folder, former] = [path.join(dir, name), path.join(dir, name + FORMER)];
  underWay.add(name);
  try {
    await fsp.mkdir(folder);
    const { files, indexes } = await writeParts(folder, state, 0);
    for (let i = 1; i < processes.count; i++) await adopt(folder, i, { files, indexes }, processes);
    for (const index of Object.values(indexes)) checkCovered(index);
    await writeFlushed(path.join(folder, ARRAYS), 'wx', JSON.stringify(indexes));
    files[ARRAYS] = await digest(path.join(folder, ARRAYS));
    const manifest: Manifest = {
      format: 'tsxla-checkpoint',
      version: VERSION,
      ...about,
      attempt: name,
      time: Date.now(),
      stateful: [...state].flatMap(([item, { stateful }]) => (stateful ? [item] : [])),
      items: Object.fromEntries([...state].map(([item, { tree }]) => [item, tree])),
      files,
    };
    const sealed = { ...manifest, sha256: sealOf(manifest) };
    await writeFlushed(path.join(folder, MANIFEST), 'wx', JSON.stringify(sealed, null, 1));
    await flushFolder(folder);
    // Of a run that was resumed before this step; removed when the new one exists.
    const target = folderOf(dir, about.step);
    await fsp.rename(target, former).catch(() => {});
    await fsp.rename(folder, target);
    await flushFolder(dir);
    await fsp.rm(former, { recursive: true, force: true });
  } catch (e) {
    await fsp.rm(folder, { recursive: true, force: true }).catch(() => {});
    throw e;
  } finally {
    underWay.delete(name);
  }
}

interface Written {
  readonly files: Files;
  readonly indexes: Indexes;
}

/** Writes the parts of each item that a process has to a separate file. Whole arrays keep their names. */
async function writeParts(folder: string, state: Snapshot, process: number): Promise<Written> {
  const [files, indexes]: [Files, Indexes] = [{}, {}];
  for (const [item, { arrays }] of state) {
    const isParted = process > 0 || [...arrays.values()].some((a) => a.parts.some((p) => !isWhole(a, p)));
    const file = `${item}${isParted ? `.part-${numbered(process)}` : ''}.safetensors`;
    const stored = new Map<string, HostArray>();
    const index: Index = {};
    for (const [name, array] of arrays) {
      const { dtype, shape } = array;
      const entry = { dtype, shape, parts: [] as Index[string]['parts'] };
      for (const part of array.parts) {
        const key = freeName(isWhole(array, part) ? name : keyOf(name, part), stored);
        stored.set(key, { dtype, shape: part.shape, data: part.data });
        entry.parts.push({ start: part.start, shape: part.shape, file, key, sha256: await sha256([part.data]) });
      }
      index[name] = entry;
    }
    if (arrays.size) indexes[item] = index;
    if (!stored.size) continue;
    await writeSafetensors(path.join(folder, file), stored);
    files[file] = { bytes: (await fsp.stat(path.join(folder, file))).size };
  }
  return { files, indexes };
}

const reportOf = (process: number): string => `parts-${numbered(process)}.json`;

/** Adds the parts of another process, once they are written. */
async function adopt(folder: string, process: number, all: Written, { count, patience = PATIENCE }: Processes) {
  const report = path.join(folder, reportOf(process));
  const written = await until(patience, () => readJson(report, WRITTEN));
  if (!written) throw new Error(`process ${process} of ${count} has not written its parts within ${patience / 1e3} s`);
  Object.assign(all.files, checkedFiles(written.files, report));
  for (const [item, index] of Object.entries(checkedIndexes(written.indexes, report)))
    for (const [name, { parts }] of Object.entries(index)) {
      const entry = all.indexes[item]?.[name];
      if (!entry)
        throw new Error(
          `process ${process} saves ${item}: ${name}, but the first process does not: all must save the same items`,
        );
      entry.parts.push(...parts);
    }
  await fsp.rm(report);
}

/**
 * Writes this process's parts into the folder that process 0 has opened for the step, and waits until the checkpoint is complete.
 * A run that was killed may have left such a folder behind: it gets the parts, too, and never becomes a checkpoint.
 */
async function contribute(dir: string, step: number, state: Snapshot, { index, patience = PATIENCE }: Processes) {
  const given = new Set<string>();
  const isThere = await until(patience, async () => {
    for (const name of await fsp.readdir(dir)) {
      if (given.has(name) || !LEFT.test(name) || !name.endsWith(`.${step}`)) continue;
      const folder = path.join(dir, name);
      try {
        const text = Buffer.from(JSON.stringify(await writeParts(folder, state, index)));
        await replaceFiles(new Map([[path.join(folder, reportOf(index)), (write) => write(text)]]));
        given.add(name);
      } catch (e) {
        if (fs.existsSync(folder)) throw e; // else it was given up
      }
    }
    const attempt = attemptOf(folderOf(dir, step));
    return attempt !== undefined && given.has(attempt);
  });
  if (!isThere)
    throw new Error(
      `the first process has not made a checkpoint of the parts of process ${index} within ${patience / 1e3} s`,
    );
}

function attemptOf(folder: string): string | undefined {
  try {
    return readManifest(folder).attempt;
  } catch {
    return undefined; // not there, or just being replaced
  }
}

/** The first true thing that it gives; undefined when the time is over. */
async function until<T>(patience: number, look: () => Promise<T | undefined | false>): Promise<T | undefined> {
  for (const end = Date.now() + patience; ; ) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) return undefined;
    await setTimeout(POLL);
  }
}

async function digest(file: string): Promise<Required<FileEntry>> {
  const hash = createHash('sha256');
  await pipeline(fs.createReadStream(file, { highWaterMark: 2 ** 20 }), hash);
  return { bytes: (await fsp.stat(file)).size, sha256: hash.digest('hex') };
}

// ---- leftovers of killed processes

/** Removes a checkpoint. If the process is killed meanwhile, no partial checkpoint is left. */
export async function removeCheckpoint(dir: string, folder: string): Promise<void> {
  const going = path.join(dir, newName('gone'));
  try {
    await fsp.rename(folder, going);
  } catch (e) {
    if ((e as NodeJS.ErrnoException).code === 'ENOENT') return; // removed by hand
    throw e;
  }
  await fsp.rm(going, { recursive: true, force: true });
}

/** Removes what processes left behind; a checkpoint that had just made room for another of its step is put back. */
export function cleanUp(dir: string): void {
  removeStaleLock(path.join(dir, WRITER));
  for (const name of fs.readdirSync(dir)) {
    if (!isAbandoned(name)) continue;
    const left = path.join(dir, name);
    const step = /\.(\d+)-former$/.exec(name)?.[1];
    const target = step && folderOf(dir, Number(step));
    try {
      if (target && !fs.existsSync(target)) fs.renameSync(left, target);
      else fs.rmSync(left, { recursive: true, force: true });
    } catch (e) {
      if (fs.existsSync(left)) throw e; // else another process has done it
    }
  }
}
/** Folders that are being written by this process. */
const underWay = new Set<string>();
const HOST = os.hostname().replace(/\W/g, '_');
const newName = (step: number | 'gone'): string => `.unfinished-${HOST}-${process.pid}-${randomUUID()}.${step}`;
/** Whether a folder was left by a process of this machine that has ended. Processes of other machines are unknown. */
const isAbandoned = (name: string): boolean => {
  const [, host, pid] = name.match(LEFT) ?? [];
  if (host !== HOST || underWay.has(name.replace(FORMER, ''))) return false;
  return Number(pid) === process.pid || !isAlive(Number(pid));
};
// ---- reading

const notWhole = (folder: string, what: string, cause?: unknown) =>
  new CheckpointError(`${folder} is not a whole checkpoint: ${what}`, { cause });

/** The schema of a manifest; a metric that was not finite is null. */
const CONTENT = object({
  step: whole(),
  order: whole(),
  time: real,
  metrics: anyObject,
  stateful: list(text),
  items: anyObject,
  files: anyObject,
  attempt: optional(text),
});
const METRIC = optional(real);
const FILE = object({ bytes: whole(), sha256: optional(text) });
/** What another process says that it has written. */
const WRITTEN = object({ files: anyObject, indexes: anyObject });

/** Names of files in the folder, with their sizes. */
function checkedFiles(files: object, source: string): Files {
  for (const [name, entry] of Object.entries(files)) {
    checkJson(entry, `${source}: files: ${name}`, FILE);
    if (!isFileName(name)) throw new FileError(`${source} names ${name}, which is not a file in its folder`);
  }
  return files as Files;
}
function checkedIndexes(indexes: object, source: string): Indexes {
  for (const [item, index] of Object.entries(indexes))
    checkIndex(checkJson(index, `${source}: ${item}`, anyObject), `${source}: ${item}`);
  return indexes as Indexes;
}

export function readManifest(folder: string): Manifest {
  const file = path.join(folder, MANIFEST);
  try {
    const found = readJsonSync(file, anyObject);
    if (!found) throw new FileError('it does not exist');
    return checkManifest(folder, found);
  } catch (e) {
    throw e instanceof CheckpointError ? e : notWhole(folder, `its ${MANIFEST} cannot be read (${messageOf(e)})`, e);
  }
}

function checkManifest(folder: string, found: object): Manifest {
  const manifest = found as Manifest;
  if (manifest.format !== 'tsxla-checkpoint') throw notWhole(folder, `its ${MANIFEST} is not a tsxla checkpoint's`);
  if (manifest.version !== 1 && manifest.version !== VERSION) {
    const version = checkJson(manifest.version, `${MANIFEST}: version`, whole());
    throw notWhole(
      folder,
      `it has version ${version}, but this tsxla reads 1 and ${VERSION}: use the version that saved it`,
    );
  }
  if (manifest.sha256 !== undefined && manifest.sha256 !== sealOf(manifest))
    throw notWhole(folder, `its ${MANIFEST} has changed since it was saved`);
  checkJson(manifest, MANIFEST, CONTENT);
  for (const [name, value] of Object.entries(manifest.metrics))
    checkJson(value, `${MANIFEST}: metrics: ${name}`, METRIC);
  checkedFiles(manifest.files, MANIFEST);
  if (manifest.version > 1 && !Object.hasOwn(manifest.files, ARRAYS))
    throw notWhole(folder, `its ${MANIFEST} does not name ${ARRAYS}`);
  return manifest;
}

async function readIndexes(folder: string, { files }: Manifest): Promise<Indexes> {
  const file = path.join(folder, ARRAYS);
  const indexes = checkedIndexes((await readJson(file, anyObject)) ?? {}, file);
  for (const index of Object.values(indexes)) {
    checkCovered(index);
    const strange = Object.values(index).flatMap((entry) => entry.parts.filter((p) => !Object.hasOwn(files, p.file)));
    if (strange[0]) throw notWhole(folder, `its ${ARRAYS} names ${strange[0].file}, but its ${MANIFEST} does not`);
  }
  return indexes;
}

/** Calls `use` with the arrays of each item. Checksums are verified as it reads. */
export async function withArrays<T>(
  folder: string,
  use: (manifest: Manifest, arraysOf: (item: string) => Promise<ArraySource>) => Promise<T>,
): Promise<T> {
  const opened = new Map<string, Promise<SafetensorsFile>>();
  const open = (file: string): Promise<SafetensorsFile> => {
    const known = opened.get(file) ?? openSafetensors(path.join(folder, file));
    opened.set(file, known);
    return known;
  };
  try {
    const manifest = readManifest(folder);
    await checkFiles(folder, manifest.files);
    const indexes = manifest.version === 1 ? {} : await readIndexes(folder, manifest);
    return await use(manifest, async (item) => {
      const file = `${item}.safetensors`;
      if (manifest.version === 1 && Object.hasOwn(manifest.files, file)) return open(file);
      return new PartedArrays(folder, Object.hasOwn(indexes, item) ? indexes[item]! : {}, open);
    });
  } catch (e) {
    const isFile = e instanceof FileError || e instanceof CheckpointError;
    throw isFile && !messageOf(e).startsWith(`${folder} is`) ? notWhole(folder, messageOf(e), e) : e;
  } finally {
    for (const file of opened.values()) await file.then((f) => f.close()).catch(() => {});
  }
}

async function checkFiles(folder: string, files: Readonly<Files>): Promise<void> {
  for (const [name, { bytes, sha256 }] of Object.entries(files)) {
    const file = path.join(folder, name);
    const size = (await fsp.stat(file).catch(() => undefined))?.size;
    if (size === undefined) throw notWhole(folder, `${name} is missing: restore it, or load another step`);
    if (size !== bytes) throw notWhole(folder, `${name} has ${size} bytes, but had ${bytes} when it was saved`);
    if (sha256 && (await digest(file)).sha256 !== sha256)
      throw notWhole(folder, `${name} has changed since it was saved`);
  }
}
