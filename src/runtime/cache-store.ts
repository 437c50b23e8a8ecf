// The folder of compiled programs: one file each, written atomically, and not used if other users could have written it.
import { randomUUID } from 'node:crypto';
import { type FileHandle, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { FileError, TsxlaError } from '../base/errors.js';
import { list, object, optional, parseJson, real, record, text, whole } from '../base/json.js';
import { messageOf } from '../base/thrown.js';
import { distrust } from '../base/trust.js';
import { FORMAT, type Ingredients, keyOf, sha256 } from './cache-key.js';

/** The header of a file: describes its program. */
export interface Header {
  readonly key: string;
  readonly name: string;
  readonly created: string; // ISO 8601
  readonly compileSeconds: number;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly ingredients: Ingredients;
  /** Sizes in bytes: of the StableHLO text, of the compressed text, and of the executable. */
  readonly sizes: { readonly text: number; readonly compressed: number; readonly executable: number };
}

export interface Stored {
  readonly header: Header;
  /** Unpacks the StableHLO text. Throws a BadEntryError if the file is damaged. */
  readonly text: () => string;
  readonly executable: Uint8Array;
}

const HEADER = object({
  key: text,
  name: text,
  created: text,
  compileSeconds: real,
  inputs: list(text),
  outputs: list(text),
  ingredients: object({
    format: whole(),
    program: text,
    flags: record(list(text)),
    plugin: object({ platform: text, version: text, api: text, size: whole(), sha256: text }),
    devices: record(whole()),
    machine: optional(object({ model: text, cores: whole(), features: text })),
  }),
  sizes: object({ text: whole(), compressed: whole(), executable: whole() }),
});
/** `source` names the file in errors. */
const headerOf = (json: Uint8Array, source: string): Header =>
  parseJson(json, source, HEADER, {
    error: (message, options) => new BadEntryError(message, options),
  }) as object as Header;

/** A listed file; `header` is absent if it cannot be read. */
export interface Listed {
  readonly key: string;
  readonly bytes: number;
  readonly used: Date;
  readonly header?: Header;
}

/** An entry that must not be used; the message says why. */
export class BadEntryError extends TsxlaError {}

// A file: MAGIC, the SHA-256 of all that follows, the header's length, the header as JSON, the text compressed, the executable.
const MAGIC = `tsxla-${FORMAT}\n`;
const PREFIX = MAGIC.length + 32 + 4;
const ENTRY = /^([0-9a-f]{64})\.program$/;
const TEMPORARY = /\.tmp-[0-9a-f-]{36}$/;
const MEMO = /^plugin-[0-9a-f]{32}$/;
const fileOf = (folder: string, key: string): string => path.join(folder, `${key}.program`);
const deflate = promisify(zlib.deflate);

const ifMissing =
  <T>(value: T) =>
  (e: NodeJS.ErrnoException): T => {
    if (e.code !== 'ENOENT') throw e;
    return value;
  };

/** Reads and checks an entry. Undefined if there is none; throws a BadEntryError for a damaged or untrusted one. */
export async function readEntry(folder: string, key: string): Promise<Stored | undefined> {
  const file = await open(fileOf(folder, key)).catch(ifMissing(undefined));
  if (!file) return undefined;
  try {
    const reason = distrust(fileOf(folder, key), await file.stat());
    if (reason) throw new BadEntryError(reason);
    const bytes = await file.readFile();
    const header = parseHeader(bytes, key, fileOf(folder, key));
    const { compressed, executable } = header.sizes;
    const start = bytes.length - executable;
    const packed = bytes.subarray(start - compressed, start);
    return {
      header,
      text: () => unpack(packed, header.sizes.text, fileOf(folder, key)),
      executable: bytes.subarray(start),
    };
  } finally {
    await file.close();
  }
}

function parseHeader(bytes: Buffer, key: string, name: string): Header {
  const refuse = (what: string): never => {
    throw new BadEntryError(`${name} ${what}`);
  };
  if (bytes.length < PREFIX || bytes.toString('latin1', 0, MAGIC.length) !== MAGIC) refuse('is not a cached program');
  const sum = bytes.toString('hex', MAGIC.length, MAGIC.length + 32);
  if (sha256(bytes.subarray(MAGIC.length + 32)) !== sum) refuse('is damaged: its checksum does not match');
  const end = PREFIX + bytes.readUInt32LE(PREFIX - 4);
  if (end > bytes.length) refuse(`is damaged: its header would end at byte ${end} of ${bytes.length}`);
  const header = headerOf(bytes.subarray(PREFIX, end), `the header of ${name}`);
  if (header.key !== key) refuse(`contains another program, ${header.key}`);
  const { compressed, executable } = header.sizes;
  if (end + compressed + executable !== bytes.length)
    refuse(`is damaged: ${compressed} and ${executable} bytes follow its header, not ${bytes.length - end}`);
  if (keyOf(header.ingredients) !== key) refuse('is damaged: its key does not match its ingredients');
  return header;
}

function unpack(packed: Uint8Array, size: number, name: string): string {
  const bad = (what: string, cause?: unknown) => new BadEntryError(`${name} is damaged: its text ${what}`, { cause });
  let bytes: Buffer;
  try {
    bytes = zlib.inflateSync(packed, { maxOutputLength: Math.max(1, size) });
  } catch (e) {
    throw bad(`cannot be unpacked (${messageOf(e)})`, e);
  }
  if (bytes.length !== size) throw bad(`has ${bytes.length} bytes of ${size}`);
  return bytes.toString();
}

/** Reads only the header of a file, without verifying the whole file. */
async function readHeader(file: string): Promise<Header | undefined> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(file);
    const prefix = Buffer.alloc(PREFIX);
    await handle.read(prefix, 0, PREFIX, 0);
    if (prefix.toString('latin1', 0, MAGIC.length) !== MAGIC) return undefined;
    const length = Math.min(prefix.readUInt32LE(PREFIX - 4), (await handle.stat()).size);
    const json = Buffer.alloc(length);
    await handle.read(json, 0, length, PREFIX);
    return headerOf(json, file);
  } catch {
    return undefined;
  } finally {
    await handle?.close();
  }
}

/** Writes an entry atomically, after making room for it. False if it is larger than the limit. */
export async function writeEntry(
  folder: string,
  about: Omit<Header, 'sizes'>,
  text: string,
  executable: Uint8Array,
  limit: number,
): Promise<boolean> {
  const compressed = (await deflate(text)) as Buffer;
  const sizes = { text: Buffer.byteLength(text), compressed: compressed.length, executable: executable.length };
  const header = Buffer.from(JSON.stringify({ ...about, sizes } satisfies Header));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(header.length);
  const body = Buffer.concat([length, header, compressed, executable]);
  const bytes = Buffer.concat([Buffer.from(MAGIC, 'latin1'), Buffer.from(sha256(body), 'hex'), body]);
  if (bytes.length > limit) return false;
  await makeRoom(folder, limit - bytes.length);
  await writeWhole(fileOf(folder, about.key), bytes);
  return true;
}

/** Writes a file atomically: under a temporary name, synced to disk, then renamed. */
async function writeWhole(file: string, bytes: Uint8Array): Promise<void> {
  const draft = `${file}.tmp-${randomUUID()}`;
  try {
    const handle = await open(draft, 'wx', 0o600);
    try {
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (e) {
    await rm(draft, { force: true });
    throw e;
  }
}

/** Marks an entry as used now, so that it is evicted last. */
export async function touch(folder: string, key: string): Promise<void> {
  const now = new Date();
  await utimes(fileOf(folder, key), now, now).catch(() => undefined);
}

export const removeEntry = (folder: string, key: string): Promise<void> => rm(fileOf(folder, key), { force: true });

/** Entries, the least recently used first. */
export async function listEntries(folder: string): Promise<Listed[]> {
  const entries: Listed[] = [];
  for (const { key, bytes, used } of await listFiles(folder)) {
    const header = key && (await readHeader(fileOf(folder, key)));
    if (key) entries.push({ key, bytes, used, ...(header && { header }) });
  }
  return entries;
}

const namesIn = (folder: string): Promise<string[]> =>
  readdir(folder)
    .catch(ifMissing([]))
    .catch((e) => {
      throw new FileError(`cannot read the program cache: ${messageOf(e)}: set TSXLA_CACHE_DIR to another folder`, {
        cause: e,
      });
    });

/** The cache's own files in the folder, which may contain other files. `key` is absent for a file being written. */
async function listFiles(folder: string) {
  const names = await namesIn(folder);
  const files = names
    .filter((name) => ENTRY.test(name) || TEMPORARY.test(name))
    .map(async (name) => {
      const found = await stat(path.join(folder, name)).catch(ifMissing(undefined));
      return found && { name, key: ENTRY.exec(name)?.[1], bytes: found.size, used: found.mtime };
    });
  return (await Promise.all(files)).filter((f) => f !== undefined).sort((a, b) => Number(a.used) - Number(b.used));
}

export interface Removed {
  readonly entries: number;
  readonly bytes: number;
}

const DEAD = 3_600_000; // ms: no file takes an hour to write

/** Removes the least recently used entries until the rest fits, entries unused since `before`, and files of killed processes. */
export async function makeRoom(folder: string, limit: number, before = new Date(0)): Promise<Removed> {
  const files = await listFiles(folder);
  let total = files.reduce((sum, file) => sum + file.bytes, 0);
  const removed = { entries: 0, bytes: 0 };
  for (const { name, key, bytes, used } of files) {
    const go = key ? total > limit || used < before : Number(used) < Date.now() - DEAD;
    if (!go) continue;
    await rm(path.join(folder, name), { force: true });
    total -= bytes;
    removed.bytes += bytes;
    if (key) removed.entries++;
  }
  return removed;
}

/** Removes all files of the cache from the folder. */
export async function clear(folder: string): Promise<Removed> {
  const removed = await makeRoom(folder, -1);
  for (const name of await namesIn(folder)) {
    if (TEMPORARY.test(name) || MEMO.test(name)) await rm(path.join(folder, name), { force: true });
    if (/^[0-9a-f]{64}\.lock$/.test(name)) await rm(path.join(folder, name), { recursive: true, force: true });
  }
  return removed;
}
