// Files: whole reads at a place, and writes that are there entirely or not at all.
import { randomUUID } from 'node:crypto';
import fsSync from 'node:fs';
import fs, { type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { FileError } from '../base/errors.js';
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

/** Writes in order. What it is given may change after it returns. */
export type Write = (bytes: Uint8Array) => Promise<void>;
export type WriteFile = (write: Write) => Promise<void>;

/**
 * Writes files that replace others: all of them first under temporary names, flushed to the disk, then renamed. So a reader
 * never sees half a file, and when one cannot be written (a full disk) all stay as they were. `remove` goes last.
 */
export async function replaceFiles(
  files: ReadonlyMap<string, WriteFile>,
  remove: readonly string[] = [],
): Promise<void> {
  const aside: { readonly target: string; readonly temporary: string }[] = [];
  let current = '';
  try {
    for (const [file, write] of files) {
      current = file;
      const known = await fs.stat(file).catch(() => undefined);
      if (known && !known.isFile()) {
        await writeFlushed(file, 'w', write); // a pipe or a device: nothing to rename over
        continue;
      }
      const target = known ? await fs.realpath(file) : file; // through a link, not in its place
      const temporary = `${target}.${randomUUID()}.tmp`;
      aside.push({ target, temporary });
      await writeFlushed(temporary, 'wx', write);
    }
    for (const { target, temporary } of aside) await fs.rename((current = temporary), target);
    for (const file of remove) await fs.rm((current = file), { force: true });
    // A rename is on the disk when its folder is.
    for (const folder of new Set(aside.map(({ target }) => path.dirname(target)))) await flushFolder(folder);
  } catch (e) {
    for (const { temporary } of aside) await fs.rm(temporary, { force: true });
    if (e instanceof FileError || !(e as NodeJS.ErrnoException).syscall) throw e; // not the disk's: an array's own
    throw new FileError(`cannot write ${current}: ${messageOf(e)}`, { cause: e });
  }
}

async function writeFlushed(file: string, flag: string, write: WriteFile): Promise<void> {
  const handle = await fs.open(file, flag);
  try {
    await write((bytes) => handle.writeFile(bytes));
    await flush(handle);
  } finally {
    await handle.close();
  }
}

export async function flushFolder(folder: string): Promise<void> {
  const handle = await fs.open(folder).catch(() => undefined); // Windows opens no folders
  if (!handle) return;
  await flush(handle).finally(() => handle.close());
}

/** To the disk, where the thing has one: pipes and some devices do not. */
const flush = (handle: FileHandle): Promise<void> =>
  handle.sync().catch((e: NodeJS.ErrnoException) => {
    if (e.code !== 'EINVAL' && e.code !== 'ENOTSUP') throw e;
  });
