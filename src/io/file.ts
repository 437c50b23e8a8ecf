// File access: complete reads at a position, and atomic writes.
import { randomUUID } from 'node:crypto';
import fsSync from 'node:fs';
import fs, { type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as v from 'valibot';
import { ArgumentError, FileError, TsxlaError } from '../base/errors.js';
import { makeFolder } from '../base/folder.js';
import { fileName, jsonText, list, object, readJson } from '../base/json.js';
import { holderOf, type Lock, tryLock } from '../base/lock.js';
import { messageOf } from '../base/thrown.js';

const CHUNK = 2 ** 30; // Node reads at most 2 GiB at once

/** Fills an array with the bytes at a position. */
export type ReadAt = (into: Uint8Array, position: number) => Promise<void>;

export interface OpenFile {
  readonly path: string;
  readonly size: number;
  readonly read: ReadAt;
  /** The same while all else waits: many short reads take a sixth of the time so. */
  readonly readNow: (into: Uint8Array, position: number) => void;
  close(): Promise<void>;
}

export async function openFile(file: string): Promise<OpenFile> {
  const bad = (e: unknown) => new FileError(`cannot read ${file}: ${messageOf(e)}`, { cause: e });
  const short = (at: number) => new FileError(`${file} is cut short: it ends at byte ${at}`);
  const info = await fs.stat(file).catch(() => undefined); // what is wrong with it, open says
  if (info?.isFIFO()) throw bad(new Error('it is a pipe, but random access is needed: write it to a file first'));
  const handle = await fs.open(file).catch((e) => {
    throw bad(e);
  });
  const { size } = await handle.stat();
  const read: ReadAt = async (into, position) => {
    for (let done = 0; done < into.byteLength; ) {
      const length = Math.min(into.byteLength - done, CHUNK);
      const { bytesRead } = await handle.read(into, done, length, position + done).catch((e) => {
        throw bad(e);
      });
      if (!bytesRead) throw short(position + done);
      done += bytesRead;
    }
  };
  const readSync = (into: Uint8Array, at: number, position: number): number => {
    try {
      return fsSync.readSync(handle.fd, into, at, into.byteLength - at, position);
    } catch (e) {
      throw bad(e);
    }
  };
  const readNow = (into: Uint8Array, position: number): void => {
    for (let done = 0; done < into.byteLength; ) {
      const bytesRead = readSync(into, done, position + done);
      if (!bytesRead) throw short(position + done);
      done += bytesRead;
    }
  };
  return { path: file, size, read, readNow, close: () => handle.close() };
}

/** Opens a file for as long as `use` runs. */
export async function withFile<T>(file: string, use: (file: OpenFile) => Promise<T>): Promise<T> {
  const opened = await openFile(file);
  try {
    return await use(opened);
  } finally {
    await opened.close();
  }
}

/** Writes in order. The bytes may be changed after it returns. */
export type Write = (bytes: Uint8Array) => Promise<void>;
export type WriteFile = (write: Write) => Promise<void>;

/** Files that are written together, by path, and files that are then removed. */
export interface FileSet {
  readonly files: ReadonlyMap<string, WriteFile>;
  readonly remove: readonly string[];
}

/**
 * Replaces a set of files, all or none. They are written under temporary names and flushed to the disk first, so that a reader
 * never sees half a file and a full disk changes nothing. Several files of one folder are then listed in a journal before the
 * first is renamed: a process that is killed between two renames leaves a set that `finishReplacing` completes. `remove` goes
 * last. One process at a time renames the files of a folder, and completes what another left before: its journal would
 * otherwise bring the older files back later.
 */
export async function replaceFiles(
  files: ReadonlyMap<string, WriteFile>,
  remove: readonly string[] = [],
): Promise<void> {
  const aside: Replacement[] = [];
  let lock: Lock | undefined;
  let journal: string | undefined;
  let current = '';
  try {
    for (const [file, write] of files) {
      current = file;
      const known = await fs.stat(file).catch(() => undefined);
      if (known && !known.isFile()) {
        await writeFlushed(file, 'w', write); // a pipe or a device: nothing to rename over
        continue;
      }
      const target = await realPathOf(file, known !== undefined);
      const temporary = `${target}.${randomUUID()}.tmp`;
      aside.push({ target, temporary });
      await writeFlushed(temporary, 'wx', write);
    }
    const gone = await Promise.all(remove.map((file) => realPathOf(file, false)));
    const folders = new Set(aside.map(({ target }) => path.dirname(target)));
    const folder = folderOf([...aside.map(({ target }) => target), ...gone]);
    for (const other of folders) if (other !== folder) await finishReplacing(other);
    if (folder !== undefined) {
      lock = await lockFolder(folder);
      await completeAll(folder);
      journal = await writeJournal(folder, aside, gone);
    }
    for (const { target, temporary } of aside) await fs.rename((current = temporary), target);
    for (const file of gone) await fs.rm((current = file), { force: true });
    for (const changed of folders) await flushFolder(changed); // a rename is on the disk when its folder is
    if (journal) await fs.rm(journal, { force: true });
  } catch (e) {
    if (!journal) for (const { temporary } of aside) await fs.rm(temporary, { force: true }).catch(() => {}); // else it is to be completed
    if (e instanceof TsxlaError || !(e as NodeJS.ErrnoException).syscall) throw e; // not the disk's: an array's own
    throw new FileError(`cannot write ${current}: ${messageOf(e)}`, { cause: e });
  } finally {
    await lock?.release();
  }
}

/** Where a file is, or will be: through a link, not in its place, unless it leads to what other models share. */
async function realPathOf(file: string, isThere: boolean): Promise<string> {
  const real = isThere ? await fs.realpath(file).catch(() => undefined) : undefined; // gone meanwhile
  if (real !== undefined && path.basename(path.dirname(real)) !== BLOBS) return real;
  const folder = path.dirname(file);
  return path.join(await fs.realpath(folder).catch(() => folder), path.basename(file));
}
/** The folder of a Hugging Face cache to whose files the snapshots of a model link. They are named by their content. */
const BLOBS = 'blobs';

interface Replacement {
  readonly target: string;
  readonly temporary: string;
}
const JOURNAL = /^\.replacing-[0-9a-f-]{36}\.json$/;
/** What a temporary name has behind that of its target. */
const TEMPORARY = /^\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp$/;
const JournalSchema = object({ rename: list(v.tuple([fileName, fileName])), remove: list(fileName) });

/** The folder of a set, as sets of ours have one. A single rename needs no journal. */
function folderOf(all: readonly string[]): string | undefined {
  const [first, ...others] = all.map((file) => path.dirname(file));
  return others.length && others.every((folder) => folder === first) ? first : undefined;
}

async function writeJournal(folder: string, aside: readonly Replacement[], gone: readonly string[]): Promise<string> {
  const journal = path.join(folder, `.replacing-${randomUUID()}.json`);
  const temporary = `${journal}.tmp`;
  const content = {
    rename: aside.map((a) => [path.basename(a.temporary), path.basename(a.target)]),
    remove: gone.map((file) => path.basename(file)),
  };
  try {
    await writeFlushed(temporary, 'wx', (write) => write(jsonText(content)));
    await fs.rename(temporary, journal);
    await flushFolder(folder);
  } catch (e) {
    for (const file of [temporary, journal]) await fs.rm(file, { force: true }).catch(() => {});
    throw e;
  }
  return journal;
}

/**
 * Completes a replacement that a killed process left half done in a folder; one that is under way is waited for. To be called
 * before a set of files is read.
 */
export async function finishReplacing(folder: string): Promise<void> {
  const lock = await lockFolder(folder, async () => (await journalsIn(folder)).length > 0);
  if (!lock) return;
  try {
    await completeAll(folder);
  } finally {
    await lock.release();
  }
}

const PAUSE = 20; // milliseconds between two tries
const PATIENCE = 8_000; // renaming takes far less

/** The lock for renaming the files of a set, once no other process has it; undefined if it is no longer needed. */
async function lockFolder(folder: string): Promise<Lock>;
async function lockFolder(folder: string, isNeeded: () => Promise<boolean>): Promise<Lock | undefined>;
async function lockFolder(folder: string, isNeeded = async () => true): Promise<Lock | undefined> {
  const thing = path.join(folder, '.replacing');
  const end = Date.now() + PATIENCE;
  while (await isNeeded()) {
    const [tried] = await Promise.allSettled([tryLock(thing)]);
    if (tried.status === 'fulfilled' && tried.value) return tried.value;
    if (tried.status === 'rejected' && Date.now() > end - PATIENCE / 2) {
      // Who may not write here waits for who may, and not for long.
      const why = `cannot complete an interrupted save in ${folder}: ${messageOf(tried.reason)}`;
      throw new FileError(why, { cause: tried.reason });
    }
    if (Date.now() > end)
      throw new FileError(`${folder} is being replaced by ${holderOf(thing)}: wait until it is done`);
    await sleep(PAUSE);
  }
  return undefined;
}

const journalsIn = async (folder: string): Promise<string[]> =>
  (await fs.readdir(folder).catch(() => [])).filter((name) => JOURNAL.test(name));

/** Only for the holder of the folder's lock. */
async function completeAll(folder: string): Promise<void> {
  for (const name of await journalsIn(folder)) {
    const journal = path.join(folder, name);
    const content = await readJson(journal, JournalSchema);
    if (!content) continue;
    for (const [temporary, target] of content.rename) {
      // The folder may come from an untrusted source: a journal may only rename files that replaceFiles writes.
      if (!temporary.startsWith(target) || !TEMPORARY.test(temporary.slice(target.length)))
        throw new FileError(`${journal} would rename ${temporary} to ${target}: remove it if you do not know it`);
      await ifThere(fs.rename(path.join(folder, temporary), path.join(folder, target)));
    }
    for (const file of content.remove) await ifThere(fs.rm(path.join(folder, file)));
    await flushFolder(folder);
    await ifThere(fs.rm(journal));
  }
}
/** The process that was killed may have done it already. */
const ifThere = (done: Promise<void>): Promise<void> =>
  done.catch((e: NodeJS.ErrnoException) => {
    if (e.code !== 'ENOENT') throw new FileError(`cannot complete an interrupted save: ${e.message}`, { cause: e });
  });

const SET_FILE = /^[^.].*\.(json|jinja|safetensors|pt|pth|bin)$/;
const TRIES = 100;

/**
 * Opens or reads files that are replaced together, so that all of them are of one save: an interrupted save is completed first,
 * and if another writer intervened, `read` runs again. It should open large files and read them later: open
 * files do not change. `release` closes what a discarded run has opened.
 */
export async function readSet<T>(
  folder: string,
  read: () => Promise<T>,
  release: (found: T) => PromiseLike<unknown> = async () => {},
): Promise<T> {
  for (let i = 0; i < TRIES; i++) {
    await finishReplacing(folder);
    const before = await stampOf(folder);
    const [found] = await Promise.allSettled([read()]);
    if (before !== undefined && before === (await stampOf(folder))) {
      if (found.status === 'rejected') throw found.reason;
      return found.value;
    }
    if (found.status === 'fulfilled') await release(found.value);
  }
  throw new FileError(
    `${folder} was replaced ${TRIES} times while it was being read: wait until the process that writes it has finished`,
  );
}

/** Differs whenever a file of a set is replaced; undefined while they are. */
async function stampOf(folder: string): Promise<string | undefined> {
  const names = await fs.readdir(folder).catch(() => []); // the names first: a journal is there before the first rename
  if (names.some((name) => JOURNAL.test(name))) return undefined;
  const files = names.filter((name) => SET_FILE.test(name)).sort();
  const stamps = await Promise.all(
    files.map(async (name) => {
      const info = await fs.stat(path.join(folder, name), { bigint: true }).catch(() => undefined);
      return `${name} ${info?.ino} ${info?.ctimeNs}`;
    }),
  );
  return stamps.join('\n');
}

/**
 * Makes an output folder ready before any work is done for it: creates it, and writes and removes a file in it. What is wrong
 * with the name, the folders above it or the permissions is an error that names the option. Disposing of the result removes a
 * folder that was created here and is still empty.
 */
export async function openOutput(folder: string, option = '--output'): Promise<AsyncDisposable> {
  const cannot = (what: string, cause?: unknown) =>
    new ArgumentError(`${option} ${folder || "''"}: ${what}`, { cause });
  if (!folder.trim()) throw cannot('the name is empty: give a folder');
  const isNew = !fsSync.existsSync(folder);
  try {
    makeFolder(path.resolve(folder));
  } catch (e) {
    const file = fileOn(path.resolve(folder));
    throw cannot(file ? `${file} is a file: give another folder` : `the folder cannot be created: ${messageOf(e)}`, e);
  }
  const probe = path.join(folder, `.probe-${randomUUID()}`);
  try {
    await fs.writeFile(probe, 'x', { flag: 'wx' });
  } catch (e) {
    throw cannot(`the folder cannot be written: ${messageOf(e)}`, e);
  } finally {
    await fs.rm(probe, { force: true }).catch(() => {});
  }
  return {
    async [Symbol.asyncDispose]() {
      if (isNew) await fs.rmdir(folder).catch(() => {}); // fails if it has something in it
    },
  };
}

/** The file in the path that should be a folder. */
function fileOn(place: string): string | undefined {
  try {
    return fsSync.statSync(place).isDirectory() ? undefined : place;
  } catch {
    const above = path.dirname(place);
    return above === place ? undefined : fileOn(above);
  }
}

/** Writes a file, and flushes it to the disk. */
export async function writeFlushed(file: string, flag: 'w' | 'wx' | 'a', content: string | WriteFile): Promise<void> {
  const handle = await fs.open(file, flag);
  try {
    if (typeof content === 'string') await handle.writeFile(content);
    else await content((bytes) => handle.writeFile(bytes));
    await flush(handle);
  } finally {
    await handle.close();
  }
}

export async function flushFile(file: string): Promise<void> {
  const handle = await fs.open(file);
  await flush(handle).finally(() => handle.close());
}

export async function flushFolder(folder: string): Promise<void> {
  const handle = await fs.open(folder).catch(() => undefined); // Windows opens no folders
  await (handle && flush(handle).finally(() => handle.close()));
}

/** A disk that fails is an error; a thing that cannot be flushed (a pipe, a device, some network mounts) is not. */
const flush = (handle: FileHandle): Promise<void> =>
  handle.sync().catch((e: NodeJS.ErrnoException) => {
    if (e.code !== 'EINVAL' && e.code !== 'ENOTSUP') throw e;
  });
