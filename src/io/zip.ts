// Zip archives: members found by yauzl, sizes checked before anything is allocated; written uncompressed, as numpy does.
import type { Readable } from 'node:stream';
import zlib from 'node:zlib';
import yauzl, { type Entry, type ZipFile } from 'yauzl';
import { FileError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import { type OpenFile, type ReadAt, type Write, withFile } from './file.js';

const MEMBERS = 2 ** 18;
const DEFLATE_RATIO = 1032; // the most that deflate can shrink anything by

export interface Member {
  readonly name: string;
  readonly size: number; // bytes, unpacked
  readonly compressed: boolean;
  /** Where an uncompressed member's bytes begin in the file. */
  start(): Promise<number>;
  /** Unpacks it, front to back: positions may only ascend. */
  unpack<T>(use: (read: ReadAt) => Promise<T>): Promise<T>;
}

export interface Kind {
  readonly name: string; // what an archive should be: "a torch file"
  readonly checksums: boolean; // whether those of members are to be right
}

/** Opens an archive for as long as `use` runs. */
export function withZip<T>(
  path: string,
  { name: kind, checksums }: Kind,
  use: (members: ReadonlyMap<string, Member>, file: OpenFile) => Promise<T>,
): Promise<T> {
  const bad = (what: string, cause?: unknown) => new FileError(`${path} is not ${kind}: ${what}`, { cause });
  return withFile(path, async (file) => {
    const zip = await yauzl.openPromise(path, { autoClose: false }).catch((e) => {
      throw bad(messageOf(e), e);
    });
    try {
      return await use(await membersOf(zip, file, checksums, bad), file);
    } finally {
      zip.close();
    }
  });
}

type Bad = (what: string, cause?: unknown) => FileError;

async function membersOf(zip: ZipFile, file: OpenFile, checksums: boolean, bad: Bad): Promise<Map<string, Member>> {
  const members = new Map<string, Member>();
  let total = 0;
  try {
    if (zip.entryCount > MEMBERS) throw bad(`it has ${zip.entryCount} members, more than ${MEMBERS}`);
    for await (const entry of zip.eachEntry()) {
      const { fileName: name, compressedSize, uncompressedSize: size, compressionMethod: method } = entry;
      if (members.has(name)) throw bad(`it holds ${name} twice`);
      // Members that lie over one another, or claim to unpack to more than is possible, are bombs.
      total += compressedSize;
      const most = method ? compressedSize * DEFLATE_RATIO + 64 : compressedSize;
      if (total > file.size || size > most) throw bad(`${name} claims ${size} bytes out of ${compressedSize}`);
      if (entry.isEncrypted()) throw bad(`${name} is encrypted`);
      members.set(name, {
        name,
        size,
        compressed: method !== 0,
        start: () => startOf(zip, entry, bad),
        unpack: (use) => unpack(zip, entry, checksums, bad, use),
      });
    }
  } catch (e) {
    throw e instanceof FileError ? e : bad(messageOf(e), e);
  }
  return members;
}

const startOf = (zip: ZipFile, entry: Entry, bad: Bad): Promise<number> =>
  new Promise((resolve, reject) => {
    zip.readLocalFileHeader(entry, { minimal: true }, (e, header) =>
      e ? reject(bad(`${entry.fileName}: ${messageOf(e)}`, e)) : resolve(header.fileDataStart),
    );
  });

async function unpack<T>(
  zip: ZipFile,
  entry: Entry,
  checksums: boolean,
  bad: Bad,
  use: (read: ReadAt) => Promise<T>,
): Promise<T> {
  const broken = (e: unknown) => (e instanceof FileError ? e : bad(`${entry.fileName}: ${messageOf(e)}`, e));
  let stream: Readable | undefined;
  try {
    stream = await zip.openReadStreamPromise(entry);
    const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    let crc = 0;
    const next = async () => {
      const chunk = await chunks.next();
      if (checksums && !chunk.done) crc = crc32(chunk.value, crc);
      return chunk;
    };
    let rest: Buffer = Buffer.alloc(0);
    let at = 0; // where the rest begins
    const read: ReadAt = async (into, position) => {
      for (let done = 0; done < into.byteLength; ) {
        const skip = Math.min(position + done - at, rest.length);
        rest = rest.subarray(skip);
        at += skip;
        if (rest.length) {
          const n = Math.min(rest.length, into.byteLength - done);
          into.set(rest.subarray(0, n), done);
          done += n;
        } else {
          const { value, done: ended } = await next();
          if (ended) throw bad(`${entry.fileName} is cut short: it ends at byte ${at}`);
          rest = value;
        }
      }
    };
    const made = await use(read);
    while (!(await next()).done); // to the end, for the checksum
    if (checksums && crc !== entry.crc32) throw bad(`${entry.fileName} is damaged: its checksum is another`);
    return made;
  } catch (e) {
    throw broken(e);
  } finally {
    stream?.destroy();
  }
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});
/** For Node before 20.15, which has none of its own. */
function plainCrc32(bytes: Uint8Array, before: number): number {
  let crc = ~before;
  for (let i = 0; i < bytes.length; i++) crc = (crc >>> 8) ^ CRC_TABLE[(crc ^ bytes[i]!) & 0xff]!;
  return ~crc >>> 0;
}
const crc32 = (zlib.crc32 as typeof zlib.crc32 | undefined) ?? plainCrc32;

const LONG = 0xffffffff; // in a field of 32 bits: look in the zip64 field
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
