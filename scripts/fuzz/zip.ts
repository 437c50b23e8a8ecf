// Zip archives: a strict reader to compare with, a writer, and mutations of their records and members.
import zlib from 'node:zlib';
import { type Mutate, mutateBytes, oneOf, otherSize, readSize, splice, writeSize } from './bytes.js';
import type { Random } from './random.js';

/** CRC-32, which Node has from 20.15 on. */
const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});
export function crc32(bytes: Uint8Array): number {
  let crc = ~0;
  for (const byte of bytes) crc = (crc >>> 8) ^ TABLE[(crc ^ byte) & 0xff]!;
  return ~crc >>> 0;
}

export interface Member {
  readonly name: string;
  readonly data: Buffer;
  readonly compressed: boolean;
  /** Whether the checksum is that of the data. */
  readonly isSound: boolean;
}

type Fields = Readonly<Record<string, readonly [at: number, width: number]>>;
interface Kind {
  readonly name: string;
  readonly magic: string;
  readonly size: number;
  readonly fields: Fields;
}
// biome-ignore format: a table
const LOCAL: Kind = { name: 'local header', magic: 'PK\x03\x04', size: 30, fields: {
  magic: [0, 4], version: [4, 2], flags: [6, 2], method: [8, 2], time: [10, 4], crc: [14, 4], packed: [18, 4], size: [22, 4],
  nameLength: [26, 2], extraLength: [28, 2] } };
// biome-ignore format: a table
const CENTRAL: Kind = { name: 'directory entry', magic: 'PK\x01\x02', size: 46, fields: {
  magic: [0, 4], madeBy: [4, 2], version: [6, 2], flags: [8, 2], method: [10, 2], crc: [16, 4], packed: [20, 4], size: [24, 4],
  nameLength: [28, 2], extraLength: [30, 2], commentLength: [32, 2], disk: [34, 2], attributes: [38, 4], offset: [42, 4] } };
// biome-ignore format: a table
const END: Kind = { name: 'end of directory', magic: 'PK\x05\x06', size: 22, fields: {
  magic: [0, 4], disk: [4, 2], startDisk: [6, 2], countHere: [8, 2], count: [10, 2], size: [12, 4], offset: [16, 4],
  commentLength: [20, 2] } };
// biome-ignore format: a table
const END64: Kind = { name: 'zip64 end of directory', magic: 'PK\x06\x06', size: 56, fields: {
  magic: [0, 4], recordSize: [4, 8], version: [14, 2], disk: [16, 4], countHere: [24, 8], count: [32, 8], size: [40, 8],
  offset: [48, 8] } };
// biome-ignore format: a table
const LOCATOR: Kind = { name: 'zip64 locator', magic: 'PK\x06\x07', size: 20, fields: {
  magic: [0, 4], disk: [4, 4], offset: [8, 8], disks: [16, 4] } };
const KINDS = [LOCAL, CENTRAL, END, END64, LOCATOR];

const field = (b: Buffer, at: number, kind: Kind, name: string): number => {
  const [offset, width] = kind.fields[name]!;
  if (at < 0 || at + kind.size > b.length) throw new Error(`${kind.name} outside the file`);
  return Number(readSize(b, at + offset, width));
};
const expect = (is: boolean, what: string): void => {
  if (!is) throw new Error(what);
};
const isAt = (b: Buffer, at: number, { magic, size }: Kind): boolean =>
  at >= 0 && at + size <= b.length && b.toString('latin1', at, at + 4) === magic;
const LONG = 0xffffffff;

/** All members of an archive in which every record agrees with every other; else it throws. */
export function readZip(b: Buffer): Member[] {
  const end = b.lastIndexOf(END.magic, undefined, 'latin1');
  expect(isAt(b, end, END), 'no end of directory');
  expect(end + 22 + field(b, end, END, 'commentLength') === b.length, 'bytes behind the comment');
  let [count, size, offset] = ['count', 'size', 'offset'].map((name) => field(b, end, END, name)) as [
    number,
    number,
    number,
  ];
  let directoryEnd = end;
  if (isAt(b, end - 20, LOCATOR)) {
    const at = field(b, end - 20, LOCATOR, 'offset');
    expect(isAt(b, at, END64), 'no zip64 end of directory');
    directoryEnd = at;
    if (count === 0xffff) count = field(b, at, END64, 'count');
    if (size === LONG) size = field(b, at, END64, 'size');
    if (offset === LONG) offset = field(b, at, END64, 'offset');
  }
  expect(offset + size === directoryEnd, 'the directory ends elsewhere');
  const members: Member[] = [];
  let at = offset;
  for (; at < directoryEnd; ) {
    expect(isAt(b, at, CENTRAL), 'no directory entry');
    const get = (name: string) => field(b, at, CENTRAL, name);
    const nameEnd = at + 46 + get('nameLength');
    const extraEnd = nameEnd + get('extraLength');
    const name = b.toString('utf8', at + 46, nameEnd);
    const sizes = { size: get('size'), packed: get('packed'), offset: get('offset') };
    for (let extra = nameEnd; extra + 4 <= extraEnd; extra += 4 + b.readUInt16LE(extra + 2)) {
      if (b.readUInt16LE(extra) !== 1) continue;
      let next = extra + 4;
      for (const key of ['size', 'packed', 'offset'] as const)
        if (sizes[key] === LONG) {
          sizes[key] = Number(b.readBigUInt64LE(next));
          next += 8;
        }
    }
    expect(isAt(b, sizes.offset, LOCAL), 'no local header');
    const start =
      sizes.offset + 30 + field(b, sizes.offset, LOCAL, 'nameLength') + field(b, sizes.offset, LOCAL, 'extraLength');
    expect(start + sizes.packed <= b.length, 'a member ends outside the file');
    const packed = b.subarray(start, start + sizes.packed);
    const method = get('method');
    expect(method === 0 || method === 8, 'another compression');
    const data = method ? zlib.inflateRawSync(packed, { maxOutputLength: sizes.size + 1 }) : packed;
    expect(data.length === sizes.size, 'another size');
    members.push({ name, data, compressed: method > 0, isSound: crc32(data) === get('crc') });
    at = extraEnd + get('commentLength');
  }
  expect(at === directoryEnd && members.length === count, 'another count');
  return members;
}

const number = (width: number, value: number | bigint): Buffer => {
  const b = Buffer.alloc(width);
  writeSize(b, 0, width, BigInt(value));
  return b;
};

/** Writes members; `long` with zip64 fields. */
export function writeZip(members: readonly Pick<Member, 'name' | 'data' | 'compressed'>[], long = false): Buffer {
  const [parts, directory]: [Buffer[], Buffer[]] = [[], []];
  let at = 0;
  for (const { name, data, compressed } of members) {
    const packed = compressed ? zlib.deflateRawSync(data) : data;
    const bytes = Buffer.from(name);
    const common = Buffer.concat([
      ...[number(2, long ? 45 : 20), number(2, 0x800), number(2, compressed ? 8 : 0), number(4, 0x210000)],
      ...[number(4, crc32(data)), number(4, long ? LONG : packed.length), number(4, long ? LONG : data.length)],
      number(2, bytes.length),
    ]);
    const sizes = long ? [number(8, data.length), number(8, packed.length)] : [];
    const extra = (fields: Buffer[]) =>
      Buffer.concat(long ? [number(2, 1), number(2, 8 * fields.length), ...fields] : []);
    const [here, there] = [extra(sizes), extra([...sizes, number(8, at)])];
    const local = Buffer.concat([
      Buffer.from(LOCAL.magic, 'latin1'),
      common,
      number(2, here.length),
      bytes,
      here,
      packed,
    ]);
    const rest = Buffer.concat([number(2, there.length), Buffer.alloc(10), number(4, long ? LONG : at)]);
    directory.push(Buffer.concat([Buffer.from(CENTRAL.magic, 'latin1'), number(2, 45), common, rest, bytes, there]));
    parts.push(local);
    at += local.length;
  }
  const entries = Buffer.concat(directory);
  const n = members.length;
  const tail64 = Buffer.concat([
    ...[Buffer.from(END64.magic, 'latin1'), number(8, 44), number(2, 45), number(2, 45), Buffer.alloc(8)],
    ...[number(8, n), number(8, n), number(8, entries.length), number(8, at)],
    ...[Buffer.from(LOCATOR.magic, 'latin1'), Buffer.alloc(4), number(8, at + entries.length), number(4, 1)],
  ]);
  const tail = Buffer.concat([
    ...[Buffer.from(END.magic, 'latin1'), Buffer.alloc(4), number(2, long ? 0xffff : n), number(2, long ? 0xffff : n)],
    ...[number(4, long ? LONG : entries.length), number(4, long ? LONG : at), Buffer.alloc(2)],
  ]);
  return Buffer.concat([...parts, entries, ...(long ? [tail64] : []), tail]);
}

const recordsOf = (b: Buffer): { readonly kind: Kind; readonly at: number }[] =>
  KINDS.flatMap((kind) => {
    const found: { kind: Kind; at: number }[] = [];
    for (let at = b.indexOf(kind.magic, 0, 'latin1'); at >= 0; at = b.indexOf(kind.magic, at + 1, 'latin1'))
      if (at + kind.size <= b.length) found.push({ kind, at });
    return found;
  });

/** One field of one record set to something else: a size, or what another record has there. */
const record: Mutate = (b, random) => {
  const records = recordsOf(b);
  if (!records.length) return undefined;
  const kind = random.pick([...new Set(records.map((r) => r.kind))]);
  const alike = records.filter((r) => r.kind === kind);
  const { at } = random.pick(alike);
  const [name, [offset, width]] = random.pick(Object.entries(kind.fields));
  const old = readSize(b, at + offset, width);
  const value = random.pick([
    () => otherSize(old, random),
    () => readSize(b, random.pick(alike).at + offset, width),
    () => BigInt(b.length - random.below(2)),
    () => BigInt(at),
  ])();
  const bytes = Buffer.from(b);
  writeSize(bytes, at + offset, width, value);
  return { bytes, what: `${kind.name} at ${at}: ${name} ${old} set to ${value}` };
};
/** The zip64 field of a directory entry or local header. */
const extra: Mutate = (b, random) => {
  const found = recordsOf(b).filter(({ kind }) => kind === CENTRAL || kind === LOCAL);
  const { kind, at } = random.pick(found) ?? {};
  if (!kind || at === undefined) return undefined;
  const start = at + kind.size + field(b, at, kind, 'nameLength');
  const length = field(b, at, kind, 'extraLength');
  if (!length || start + length > b.length) return undefined;
  const bytes = Buffer.from(b);
  const width = random.pick([2, 8]);
  const place = start + (width === 2 ? 2 * random.below(2) : 4 + 8 * random.below(Math.max(1, (length - 4) >> 3)));
  if (place + width > b.length) return undefined;
  const value = otherSize(readSize(b, place, width), random);
  writeSize(bytes, place, width, value);
  return { bytes, what: `extra field of the ${kind.name} at ${at}: ${width} bytes at ${place} set to ${value}` };
};
/** A record taken out, doubled, or put elsewhere; counts and offsets stay as they are. */
const blocks: Mutate = (b, random) => {
  const records = recordsOf(b).filter(({ kind }) => kind !== LOCAL);
  const { kind, at } = random.pick(records) ?? {};
  if (!kind || at === undefined) return undefined;
  const next = Math.min(
    ...recordsOf(b)
      .map((r) => r.at)
      .filter((a) => a > at),
    b.length,
  );
  const block = b.subarray(at, next);
  if (random.once(2)) return { bytes: splice(b, at, next - at), what: `${kind.name} at ${at} removed` };
  return { bytes: splice(b, at, 0, block), what: `${kind.name} at ${at} doubled` };
};
const around: Mutate = (b, random) => {
  const end = b.lastIndexOf(END.magic, undefined, 'latin1');
  const comment = random.pick([
    Buffer.from('comment'),
    b.subarray(Math.max(0, end)),
    Buffer.alloc(70_000),
    random.bytes(30),
  ]);
  if (random.once(3))
    return { bytes: Buffer.concat([random.bytes(1 + random.below(40)), b]), what: 'bytes put before it' };
  if (random.once(2) || end < 0)
    return { bytes: Buffer.concat([b, comment]), what: `${comment.length} bytes appended` };
  const bytes = Buffer.concat([b, comment]);
  writeSize(bytes, end + 20, 2, BigInt(comment.length));
  return { bytes, what: `a comment of ${comment.length} bytes` };
};

/** Members changed, and a whole archive written of them: what is inside is reached. */
const members =
  (inside: (name: string) => Mutate): Mutate =>
  (b, random, others) => {
    let all: Member[];
    try {
      all = readZip(b);
    } catch {
      return undefined;
    }
    if (!all.length) return undefined;
    const i = random.below(all.length);
    const { name, data } = all[i]!;
    const alike = others.flatMap((other) => membersIn(other).map((m) => m.data));
    const long = random.once(2);
    const written = (next: readonly Pick<Member, 'name' | 'data' | 'compressed'>[], what: string) => ({
      bytes: writeZip(next, long),
      what: `${what}; archive written anew`,
    });
    const how = random.below(12);
    if (how === 0)
      return written(
        all.filter((_, k) => k !== i),
        `${name} removed`,
      );
    if (how === 1) return written([...all, all[i]!], `${name} there twice`);
    if (how === 2) {
      const to = random.pick([
        '',
        '/',
        '../x',
        `/${name}`,
        name.toUpperCase(),
        random.pick(all).name,
        `${name}\0`,
        '__proto__.npy',
        'x'.repeat(60_000),
      ]);
      return written(
        all.map((m, k) => (k === i ? { ...m, name: to } : m)),
        `${name} renamed to ${to.slice(0, 40)}`,
      );
    }
    if (how === 3)
      return written(
        all.map((m) => ({ ...m, compressed: random.once(2) })),
        'compressed in part',
      );
    if (how === 4) return written(shuffled(all, random), 'in another order');
    const mutant = inside(name)(data, random, alike.length ? alike : [data]);
    return (
      mutant &&
      written(
        all.map((m, k) => (k === i ? { ...m, data: mutant.bytes } : m)),
        `${name}: ${mutant.what}`,
      )
    );
  };
const membersIn = (b: Buffer): Member[] => {
  try {
    return readZip(b);
  } catch {
    return [];
  }
};
function shuffled<T>(list: readonly T[], random: Random): T[] {
  const left = [...list];
  return list.map(() => left.splice(random.below(left.length), 1)[0]!);
}

/** Mutations of archives; `inside` says what kind of file a member is. */
export const mutateZip = (inside: (name: string) => Mutate): Mutate =>
  oneOf(
    record,
    record,
    record,
    extra,
    blocks,
    around,
    ...Array.from({ length: 6 }, () => members(inside)),
    mutateBytes,
  );
