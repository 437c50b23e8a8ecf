// Zip archives of numpy and torch. An archive's structure is verified before use: end records, directory and local headers must
// agree, and members must not overlap. Writing is uncompressed, as in numpy.
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import zlib from 'node:zlib';
import { crc32 } from '../base/checksum.js';
import { ArgumentError, FileError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import { type OpenFile, type ReadAt, type Write, withFile } from './file.js';

const MEMBERS = 2 ** 18;
const DIRECTORY_BYTES = 64 * 2 ** 20;
const DEFLATE_RATIO = 1032; // the most that deflate can shrink anything by
const CHUNK = 4 * 2 ** 20; // bytes that are read, and summed, at once

export interface Member {
  readonly name: string;
  readonly size: number; // bytes, unpacked
  readonly compressed: boolean;
  /** Where its bytes begin in the file: unpacked ones, if it is not compressed. */
  readonly start: number;
  /** Reads it front to back (positions may only ascend) and compares its checksum. */
  unpack<T>(use: (read: ReadAt) => Promise<T>): Promise<T>;
  /** Reads an uncompressed member in any order; `verify` compares its checksum, reading what was not read yet. */
  open(): CheckedReader;
}

export interface CheckedReader {
  readonly read: ReadAt;
  verify(): Promise<void>;
}

export interface Kind {
  readonly name: string; // what an archive should be: "a torch file"
  /** A checksum of 0 means none: torch writes 0 if checksums are turned off. */
  readonly zeroIsNone?: boolean;
}

/** Opens an archive for as long as `use` runs. */
export const withZip = <T>(
  path: string,
  kind: Kind,
  use: (members: ReadonlyMap<string, Member>, file: OpenFile) => Promise<T>,
): Promise<T> => withFile(path, async (file) => use(await membersOf(file, kind), file));

export async function membersOf(file: OpenFile, kind: Kind): Promise<Map<string, Member>> {
  const bad: Bad = (what, cause) => new FileError(`${file.path} is not ${kind.name}: ${printable(what)}`, { cause });
  const directory = await findDirectory(file, bad);
  const entries = await readDirectory(file, directory, bad);
  await checkLocal(file, entries, directory.start, bad);
  return new Map(entries.map((entry) => [entry.name, memberOf(file, entry, kind, bad)]));
}

type Bad = (what: string, cause?: unknown) => FileError;
/** Names come from the file: control characters must not reach the terminal. */
export const printable = (text: string): string => text.replaceAll(/\p{Cc}/gu, '\ufffd');

const [LOCAL, CENTRAL, END64, LOCATOR] = [0x04034b50, 0x02014b50, 0x06064b50, 0x07064b50];
const [LOCAL_BYTES, CENTRAL_BYTES, END_BYTES, END64_BYTES, LOCATOR_BYTES] = [30, 46, 22, 56, 20];
const SHORT = 0xffff; // in a field of 16 bits: look in the zip64 field
const LONG = 0xffffffff; // the same in a field of 32 bits

interface Directory {
  readonly start: number;
  readonly size: number;
  readonly count: number;
}

/** The position of the directory, from the records at the end of a file. It must end where they begin. */
async function findDirectory(file: OpenFile, bad: Bad): Promise<Directory> {
  const length = Math.min(file.size, LOCATOR_BYTES + END64_BYTES + END_BYTES + SHORT); // a comment may stand at the very end
  const base = file.size - length;
  const tail = Buffer.alloc(length);
  await file.read(tail, base);
  const at = length < END_BYTES ? -1 : tail.lastIndexOf('PK\x05\x06', length - END_BYTES, 'latin1');
  if (at < 0) throw bad('it is not a zip archive, or its end record is missing');
  const comment = tail.readUInt16LE(at + 20);
  const after = length - at - END_BYTES - comment;
  if (after !== 0) throw bad(after < 0 ? 'its comment is cut short' : `${after} bytes follow its end record`);
  const number16 = (o: number) => tail.readUInt16LE(at + o);
  const number32 = (o: number) => tail.readUInt32LE(at + o);
  const said = { start: number32(16), size: number32(12), count: number16(10) };
  if (number16(4) !== 0 || number16(6) !== 0 || number16(8) !== said.count)
    throw bad('it is one part of a multi-disk archive');
  const locator = at - LOCATOR_BYTES;
  const zip64 = locator >= 0 && tail.readUInt32LE(locator) === LOCATOR;
  const end = zip64 ? locator - END64_BYTES : at; // in `tail`
  const found = zip64 ? findDirectory64(tail, base, locator, said, bad) : said;
  if (found.start + found.size !== base + end)
    throw bad(
      `its directory should lie at bytes ${found.start} to ${found.start + found.size}, but it ends at byte ${base + end}`,
    );
  return found;
}

function findDirectory64(tail: Buffer, base: number, locator: number, said: Directory, bad: Bad): Directory {
  const at = locator - END64_BYTES;
  const number = (o: number) => whole(tail.readBigUInt64LE(o));
  const position = number(locator + 8);
  if (at < 0 || position !== base + at || tail.readUInt32LE(at) !== END64 || number(at + 4) !== END64_BYTES - 12)
    throw bad(`its zip64 end record is not at byte ${position}, where its locator points`);
  const disks = [tail.readUInt32LE(locator + 4), tail.readUInt32LE(at + 16), tail.readUInt32LE(at + 20)];
  const found = { start: number(at + 48), size: number(at + 40), count: number(at + 32) };
  if (disks.some((n) => n !== 0) || tail.readUInt32LE(locator + 16) > 1 || number(at + 24) !== found.count)
    throw bad('it is one part of a multi-disk archive');
  // What fits into the short record stands there too.
  const agrees = (short: number, long: number, most: number) => short === most || short === long;
  const { start, size, count } = said;
  if (!agrees(start, found.start, LONG) || !agrees(size, found.size, LONG) || !agrees(count, found.count, SHORT))
    throw bad('its end record and its zip64 end record disagree');
  return found;
}

/** Beyond 2^53 a number is inexact, but then it is larger than any file, and is rejected. */
const whole = (n: bigint): number => Number(n);

interface Entry {
  readonly name: string;
  readonly nameBytes: Buffer;
  readonly flags: number;
  readonly method: number;
  readonly crc: number;
  readonly packed: number; // bytes in the file
  readonly size: number; // bytes, unpacked
  readonly offset: number; // of its local header
  start: number; // of its bytes, once the local header is read
}

const ENCRYPTED = 0x2041; // any of: encrypted, strongly, its directory too
const DESCRIPTOR = 0x8; // sizes and checksum follow the bytes
const UTF8_NAME = 0x800;

async function readDirectory(file: OpenFile, { start, size, count }: Directory, bad: Bad): Promise<Entry[]> {
  if (count > MEMBERS) throw bad(`it has ${count} members, more than ${MEMBERS}`);
  if (size > DIRECTORY_BYTES) throw bad(`its directory has ${size} bytes, more than ${DIRECTORY_BYTES}`);
  const bytes = Buffer.alloc(size);
  await file.read(bytes, start);
  const entries = new Map<string, Entry>();
  let found = 0;
  for (let at = 0; at < size; found++) {
    if (size - at < CENTRAL_BYTES || bytes.readUInt32LE(at) !== CENTRAL)
      throw bad(`its directory is damaged at byte ${start + at}`);
    const number16 = (o: number) => bytes.readUInt16LE(at + o);
    const number32 = (o: number) => bytes.readUInt32LE(at + o);
    const extra = at + CENTRAL_BYTES + number16(28);
    const end = extra + number16(30) + number16(32);
    if (end > size) throw bad(`its directory is damaged at byte ${start + at}`);
    const nameBytes = bytes.subarray(at + CENTRAL_BYTES, extra);
    const name = nameOf(nameBytes, number16(8), bad);
    const sizes = [number32(24), number32(20), number32(42)]; // unpacked, packed, offset
    const [unpacked, packed, offset] = long(sizes, bytes.subarray(extra, extra + number16(30)), name, bad);
    if (entries.has(name)) throw bad(`it holds ${name} twice`);
    if (number16(34) !== 0) throw bad('it is one part of a multi-disk archive');
    const entry = {
      ...{ name, nameBytes, flags: number16(8), method: number16(10), crc: number32(16) },
      ...{ size: unpacked!, packed: packed!, offset: offset!, start: 0 },
    };
    entries.set(name, entry);
    checkEntry(entry, bad);
    at = end;
  }
  if (found !== count) throw bad(`its end record counts ${count} members, but its directory lists ${found}`);
  return [...entries.values()];
}

/** Names are keys here, never paths: so they may be absolute. */
function nameOf(bytes: Buffer, flags: number, bad: Bad): string {
  const name = bytes.toString('utf8');
  const same = flags & UTF8_NAME ? Buffer.from(name).equals(bytes) : bytes.every((b) => b < 0x80);
  if (!same) throw bad(`the name of its member ${name} is not UTF-8`);
  if (!name || name.includes('\0')) throw bad('it has a member whose name is empty or contains a zero byte');
  return name;
}

/** Numbers that do not fit into 32 bits stand in the zip64 field, in their order. */
function long(numbers: readonly number[], extra: Buffer, name: string, bad: Bad): number[] {
  const broken = () => bad(`the zip64 field of ${name} is damaged`);
  let field: Buffer | undefined;
  for (let at = 0; at + 4 <= extra.length; ) {
    const end = at + 4 + extra.readUInt16LE(at + 2);
    if (end > extra.length) throw broken();
    if (extra.readUInt16LE(at) === 1) {
      if (field) throw broken();
      field = extra.subarray(at + 4, end);
    }
    at = end;
  }
  let at = 0;
  return numbers.map((n) => {
    if (n !== LONG) return n;
    if (!field || at + 8 > field.length) throw broken();
    at += 8;
    return whole(field.readBigUInt64LE(at - 8));
  });
}

function checkEntry({ name, flags, method, size, packed }: Entry, bad: Bad): void {
  if (flags & ENCRYPTED) throw bad(`${name} is encrypted`);
  if (method !== 0 && method !== 8)
    throw bad(`${name} is compressed by method ${method}: 0 (none) and 8 (deflate) are read`);
  // A member that claims to unpack to more than is possible is a bomb.
  if (method === 0 ? size !== packed : size > packed * DEFLATE_RATIO + 64)
    throw bad(`${name} claims ${size} bytes out of ${packed}`);
}

/** Compares the headers in front of the members with the directory, and notes where the bytes begin. */
async function checkLocal(file: OpenFile, entries: readonly Entry[], end: number, bad: Bad): Promise<void> {
  let free = 0; // where the last member ended
  let before = '';
  let turn = 0;
  for (const entry of entries.toSorted((a, b) => a.offset - b.offset)) {
    const { name, nameBytes, flags, method, offset, packed } = entry;
    const differs = (what: string) => bad(`${name}: its ${what} at byte ${offset} differs from the directory's`);
    if (offset < free) throw bad(`${before} and ${name} overlap at byte ${offset}`);
    if (offset + LOCAL_BYTES + nameBytes.length + packed > end) throw bad(`${name} reaches beyond byte ${end}`);
    const header = Buffer.alloc(LOCAL_BYTES + nameBytes.length);
    file.readNow(header, offset);
    if (header.readUInt32LE(0) !== LOCAL) throw bad(`${name} has no local header at byte ${offset}`);
    if (header.readUInt16LE(26) !== nameBytes.length || !header.subarray(LOCAL_BYTES).equals(nameBytes))
      throw differs('name');
    const ownFlags = header.readUInt16LE(6);
    if ((ownFlags ^ flags) & ENCRYPTED || header.readUInt16LE(8) !== method) throw differs('compression method');
    const extra = Buffer.alloc(header.readUInt16LE(28));
    entry.start = offset + header.length + extra.length;
    free = entry.start + packed;
    if (free > end) throw bad(`${name} reaches beyond byte ${end}`);
    const sizes = [header.readUInt32LE(22), header.readUInt32LE(18)]; // unpacked, packed
    if (sizes.includes(LONG)) file.readNow(extra, offset + header.length);
    const [size64, packed64] = sizes.includes(LONG) ? long(sizes, extra, name, bad) : sizes;
    const later = (n: number) => ((flags | ownFlags) & DESCRIPTOR) !== 0 && n === 0; // it follows the bytes
    const crc = header.readUInt32LE(14);
    if (!(size64 === entry.size || later(size64!)) || !(packed64 === packed || later(packed64!))) throw differs('size');
    if (!(crc === entry.crc || later(crc))) throw differs('checksum');
    before = name;
    if (++turn % 1024 === 0) await setImmediate();
  }
}

function memberOf(file: OpenFile, entry: Entry, { zeroIsNone }: Kind, bad: Bad): Member {
  const { name, size, start } = entry;
  const compressed = entry.method !== 0;
  const unchecked = zeroIsNone && entry.crc === 0;
  const check = (crc: number) => {
    if (crc !== entry.crc && !unchecked)
      throw bad(`${name} is damaged: its CRC-32 differs from the one in the archive`);
  };
  const open = (): CheckedReader => checkedReader(file, entry, unchecked ? undefined : check);
  const unpack = async <T>(use: (read: ReadAt) => Promise<T>): Promise<T> => {
    if (compressed) return inflate(file, entry, check, bad, use);
    const { read, verify } = open();
    const made = await use(read);
    await verify();
    return made;
  };
  return { name, size, compressed, start, open, unpack };
}

/** Updates the checksum with bytes read from the front on, so that a sequential read needs no second pass. */
function checkedReader(file: OpenFile, { name, size, start }: Entry, check?: (crc: number) => void): CheckedReader {
  let [crc, summed] = [0, 0];
  const read: ReadAt = async (into, position) => {
    if (position + into.byteLength > size)
      throw new FileError(`${file.path}: ${name} is cut short: it ends at byte ${size}`);
    for (let at = 0; at < into.byteLength; at += CHUNK) {
      const chunk = into.subarray(at, at + CHUNK);
      const from = position + at;
      await file.read(chunk, start + from);
      if (!check || from > summed || from + chunk.length <= summed) continue;
      crc = crc32(chunk.subarray(summed - from), crc);
      summed = from + chunk.length;
    }
  };
  const verify = async () => {
    if (!check) return;
    const rest = Buffer.alloc(Math.min(CHUNK, size - summed));
    while (summed < size) await read(rest.subarray(0, Math.min(rest.length, size - summed)), summed);
    check(crc);
  };
  return { read, verify };
}

/** Unpacks what deflate packed, in pieces: it never holds more of it than one. */
async function inflate<T>(
  file: OpenFile,
  { name, size, packed, start }: Entry,
  check: (crc: number) => void,
  bad: Bad,
  use: (read: ReadAt) => Promise<T>,
): Promise<T> {
  async function* source() {
    for (let at = 0; at < packed; at += PIECE) {
      const piece = Buffer.alloc(Math.min(PIECE, packed - at));
      await file.read(piece, start + at);
      yield piece;
    }
  }
  const inflated = zlib.createInflateRaw();
  const stored = Readable.from(source()).on('error', (e) => inflated.destroy(e));
  stored.pipe(inflated);
  const chunks = inflated[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let [crc, total] = [0, 0];
  const next = async (): Promise<Buffer | undefined> => {
    const { value, done } = await chunks.next().catch((e) => {
      throw e instanceof FileError ? e : bad(`${name}: ${messageOf(e)}`, e);
    });
    if (done) return undefined;
    if ((total += value.length) > size) throw bad(`${name} unpacks to more than the ${size} bytes it claims`);
    crc = crc32(value, crc);
    return value;
  };
  try {
    let rest: Buffer = Buffer.alloc(0);
    let at = 0; // where the rest begins
    const made = await use(async (into, position) => {
      for (let done = 0; done < into.byteLength; ) {
        const skip = Math.min(position + done - at, rest.length);
        rest = rest.subarray(skip);
        at += skip;
        if (!rest.length) {
          const chunk = await next();
          if (!chunk) throw bad(`${name} is cut short: it ends at byte ${at}`);
          rest = chunk;
          continue;
        }
        const n = Math.min(rest.length, into.byteLength - done);
        into.set(rest.subarray(0, n), done);
        done += n;
      }
    });
    while (await next()); // to the end, for the checksum
    if (total !== size) throw bad(`${name} unpacks to ${total} bytes, not the ${size} it claims`);
    check(crc);
    return made;
  } finally {
    stored.destroy();
    inflated.destroy();
  }
}
const PIECE = 2 ** 16;

/** Little-endian fields: [bytes, value]. */
const fields = (...values: readonly (readonly [1 | 2 | 4 | 8, number])[]): Buffer =>
  Buffer.concat(
    values.map(([bytes, value]) => {
      const field = Buffer.alloc(8);
      field.writeBigUInt64LE(BigInt(value));
      return field.subarray(0, bytes);
    }),
  );

/** Writes members, uncompressed; `bytes` of each are asked for when its turn comes. */
export async function writeZip(
  write: Write,
  members: Iterable<readonly [string, () => Promise<readonly Uint8Array[]>]>,
): Promise<void> {
  let at = 0;
  const put = async (bytes: Uint8Array) => {
    await write(bytes);
    at += bytes.byteLength;
  };
  const directory: Buffer[] = [];
  for (const [member, bytes] of members) {
    const parts = await bytes();
    const name = Buffer.from(member);
    if (!member || member.includes('\0') || name.length > SHORT || name.toString() !== member)
      throw new ArgumentError(`'${printable(member.slice(0, 80))}' cannot be the name of a member of a zip archive`);
    const size = parts.reduce((n, p) => n + p.byteLength, 0);
    const crc = parts.reduce((c, p) => crc32(p, c), 0);
    const offset = at;
    // Sizes always in the zip64 field: one form for small and large files.
    // biome-ignore format: a table
    const common = [[2, 45], [2, 0x800], [2, 0], [2, 0], [2, 0x21], [4, crc], [4, LONG], [4, LONG], [2, name.length]] as const;
    await put(fields([4, 0x04034b50], ...common, [2, 20]));
    await put(Buffer.concat([name, fields([2, 1], [2, 16], [8, size], [8, size])]));
    for (const part of parts) await put(part);
    directory.push(
      fields([4, 0x02014b50], [2, 45], ...common, [2, 28], [2, 0], [2, 0], [2, 0], [4, 0], [4, LONG]),
      name,
      fields([2, 1], [2, 24], [8, size], [8, size], [8, offset]),
    );
  }
  const count = directory.length / 3;
  const start = at;
  await put(Buffer.concat(directory));
  const size = at - start;
  const end = at;
  // biome-ignore format: a table
  await put(fields([4, 0x06064b50], [8, 44], [2, 45], [2, 45], [4, 0], [4, 0], [8, count], [8, count], [8, size], [8, start]));
  await put(fields([4, 0x07064b50], [4, 0], [8, end], [4, 1]));
  await put(fields([4, 0x06054b50], [2, 0], [2, 0], [2, 0xffff], [2, 0xffff], [4, LONG], [4, LONG], [2, 0]));
}
