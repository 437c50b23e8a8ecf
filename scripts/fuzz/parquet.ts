// Parquet: its footer and page headers are structs of Thrift's compact protocol. They are taken apart, changed and written
// again with a right length, so that the layers below are reached.
import { type Mutate, mutateBytes, oneOf, otherSize } from './bytes.js';
import type { Random } from './random.js';

// Compact types: 1 true, 2 false, 3 byte, 4 i16, 5 i32, 6 i64, 7 double, 8 binary, 9 list, 10 set, 11 map, 12 struct
type Value = bigint | Buffer | boolean | List | Struct;
interface List {
  type: number;
  items: Value[];
  /** What the header says there are, where that is a lie. */
  count?: bigint;
}
export interface Field {
  id: number;
  type: number;
  value: Value;
}
type Struct = Field[];
const isList = (v: Value): v is List => typeof v === 'object' && 'items' in v;

class Reader {
  at = 0;
  constructor(readonly bytes: Buffer) {}
  byte(): number {
    if (this.at >= this.bytes.length) throw new Error('the end');
    return this.bytes[this.at++]!;
  }
  varint(): bigint {
    let [n, shift] = [0n, 0n];
    for (;;) {
      const b = this.byte();
      n |= BigInt(b & 0x7f) << shift;
      shift += 7n;
      if (b < 0x80) return n;
    }
  }
  value(type: number): Value {
    if (type === 3) return BigInt(this.byte());
    if (type >= 4 && type <= 6) {
      const n = this.varint();
      return (n >> 1n) ^ -(n & 1n);
    }
    if (type === 7) return this.slice(8);
    if (type === 8) return this.slice(Number(this.varint()));
    if (type === 9 || type === 10) {
      const head = this.byte();
      const of = head & 15;
      const count = head >> 4 === 15 ? Number(this.varint()) : head >> 4;
      return { type: of, items: Array.from({ length: count }, () => (of < 3 ? this.byte() === 1 : this.value(of))) };
    }
    if (type === 12) return this.struct();
    throw new Error(`type ${type}`);
  }
  slice(n: number): Buffer {
    if (this.at + n > this.bytes.length) throw new Error('the end');
    return this.bytes.subarray(this.at, (this.at += n));
  }
  struct(): Struct {
    const fields: Struct = [];
    for (let id = 0, head = this.byte(); head; head = this.byte()) {
      const type = head & 15;
      const delta = head >> 4;
      if (delta) id += delta;
      else {
        const n = this.varint();
        id = Number((n >> 1n) ^ -(n & 1n));
      }
      fields.push({ id, type, value: type === 1 ? true : type === 2 ? false : this.value(type) });
    }
    return fields;
  }
}

const varint = (n: bigint): Buffer => {
  const out: number[] = [];
  for (n = BigInt.asUintN(64, n); n >= 0x80n; n >>= 7n) out.push(Number(n & 0x7fn) | 0x80);
  return Buffer.from([...out, Number(n)]);
};
const zigzag = (n: bigint): Buffer => varint((n << 1n) ^ (n >> 63n));
function write(type: number, value: Value): Buffer {
  if (typeof value === 'boolean') return Buffer.from([value ? 1 : 2]);
  if (typeof value === 'bigint') return type === 3 ? Buffer.from([Number(BigInt.asUintN(8, value))]) : zigzag(value);
  if (Buffer.isBuffer(value)) return type === 7 ? value : Buffer.concat([varint(BigInt(value.length)), value]);
  if (!isList(value)) return writeStruct(value);
  const count = value.count ?? BigInt(value.items.length);
  const head =
    count < 15n
      ? Buffer.from([(Number(count) << 4) | value.type])
      : Buffer.concat([Buffer.from([0xf0 | value.type]), varint(count)]);
  return Buffer.concat([head, ...value.items.map((item) => write(value.type, item))]);
}
function writeStruct(fields: Struct): Buffer {
  const parts: Buffer[] = [];
  let last = 0;
  for (const { id, type, value } of fields) {
    const delta = id - last;
    parts.push(
      delta > 0 && delta < 16
        ? Buffer.from([(delta << 4) | type])
        : Buffer.concat([Buffer.from([type]), zigzag(BigInt(id))]),
    );
    if (type > 2) parts.push(write(type, value));
    last = id;
  }
  return Buffer.concat([...parts, Buffer.from([0])]);
}

/** Every struct and list inside, with the ids that lead to it: 4[0].1[2].3 */
function nodesOf(value: Value, path = ''): { readonly path: string; readonly node: Struct | List }[] {
  if (typeof value !== 'object' || Buffer.isBuffer(value)) return [];
  const inside = isList(value)
    ? value.items.flatMap((item, i) => nodesOf(item, `${path}[${i}]`))
    : value.flatMap((f) => nodesOf(f.value, path ? `${path}.${f.id}` : String(f.id)));
  return [{ path, node: value }, ...inside];
}

function otherValue({ type, value }: Field, random: Random): Pick<Field, 'type' | 'value'> {
  if (random.once(12)) return { type: random.pick([1, 2, 3, 5, 6, 8, 9, 12, 15]), value }; // of another type
  if (typeof value === 'boolean') return { type: 3 - type, value: !value };
  if (typeof value === 'bigint') {
    const small = random.once(2); // enums: codecs, encodings, types
    return {
      type,
      value: small
        ? BigInt(random.below(16) - 1)
        : random.once(4)
          ? -otherSize(value, random)
          : otherSize(value, random),
    };
  }
  if (Buffer.isBuffer(value))
    return {
      type,
      value: random.pick([
        Buffer.alloc(0),
        random.bytes(8),
        Buffer.from('__proto__'),
        Buffer.concat([value, value]),
        Buffer.alloc(5000, 'x'),
      ]),
    };
  return { type, value };
}

/** Changes a struct in place. */
function changeStruct(root: Struct, random: Random): string {
  const nodes = nodesOf(root);
  const { path, node } = random.pick(nodes);
  if (isList(node)) {
    const i = random.below(node.items.length);
    const how = random.below(5);
    if (how === 0) node.items.splice(i, 1);
    else if (how === 1 && node.items.length) node.items.push(structuredCopy(node.items[i]!));
    else if (how === 2) node.items.reverse();
    else if (how === 3) node.count = otherSize(BigInt(node.items.length), random);
    else {
      const [item] = node.items.slice(i, i + 1);
      if (typeof item === 'bigint' || Buffer.isBuffer(item))
        node.items[i] = otherValue({ id: 0, type: node.type, value: item }, random).value;
      else node.items = [];
    }
    return `list ${path} ${['shortened', 'grown', 'reversed', `said to have ${node.count}`, 'changed'][how]}`;
  }
  const i = random.below(node.length);
  const field = node[i];
  if (!field) return 'nothing';
  const name = path ? `${path}.${field.id}` : String(field.id);
  const how = random.below(8);
  if (how === 0) {
    node.splice(i, 1);
    return `field ${name} removed`;
  }
  if (how === 1) {
    const other = random.pick(random.pick(nodes.filter((n) => !isList(n.node))).node as Struct);
    if (other) node[i] = { ...field, value: structuredCopy(other.value), type: other.type };
    return `field ${name} is a copy of another`;
  }
  if (how === 2) {
    field.id = random.pick([0, -1, 99, 32767, field.id + 1]);
    return `field ${name} becomes ${field.id}`;
  }
  const before = field.value;
  Object.assign(field, otherValue(field, random));
  const shown = (v: Value) => (typeof v === 'bigint' ? String(v) : Buffer.isBuffer(v) ? `${v.length} bytes` : typeof v);
  return `field ${name}: ${shown(before)} set to ${shown(field.value)} (type ${field.type})`;
}
const structuredCopy = (v: Value): Value => {
  if (typeof v !== 'object' || Buffer.isBuffer(v)) return v;
  return isList(v)
    ? { ...v, items: v.items.map(structuredCopy) }
    : v.map((f) => ({ ...f, value: structuredCopy(f.value) }));
};

interface Split {
  readonly body: Buffer;
  readonly footer: Struct;
}
function split(b: Buffer): Split | undefined {
  if (b.length < 12) return undefined;
  const start = b.length - 8 - b.readUInt32LE(b.length - 8);
  if (start < 4) return undefined;
  try {
    return { body: b.subarray(0, start), footer: new Reader(b.subarray(start, -8)).struct() };
  } catch {
    return undefined;
  }
}
function joined({ body, footer }: Split): Buffer {
  const bytes = writeStruct(footer);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([body, bytes, length, Buffer.from('PAR1')]);
}

const footer: Mutate = (b, random) => {
  const parts = split(b);
  if (!parts) return undefined;
  const done = Array.from({ length: 1 + random.below(2) }, () => changeStruct(parts.footer, random));
  return { bytes: joined(parts), what: `footer: ${done.join('; ')}` };
};

/** FileMetaData.row_groups (4), RowGroup.columns (1), ColumnChunk.meta_data (3): where pages begin, and what shifts with them. */
const OFFSETS = [9, 10, 11]; // data page, index page, dictionary page
const PACKED = 7;
const get = (s: Struct | undefined, id: number): Value | undefined => s?.find((f) => f.id === id)?.value;
const columnsOf = (footer: Struct): Struct[] =>
  ((get(footer, 4) as List | undefined)?.items ?? []).flatMap((group) =>
    ((get(group as Struct, 1) as List | undefined)?.items ?? []).flatMap((chunk) => {
      const about = get(chunk as Struct, 3);
      return about ? [about as Struct] : [];
    }),
  );

/** Where the pages of each column begin. */
export const pagesOf = (b: Buffer): number[][] =>
  columnsOf(split(b)?.footer ?? []).map((column) =>
    OFFSETS.map((id) => get(column, id))
      .filter((v) => typeof v === 'bigint')
      .map(Number),
  );

/** A page's header changed; offsets and sizes in the footer are made right. Throws where there is no page. */
export function changePage(b: Buffer, column: number, start: number, change: (header: Struct) => void): Buffer {
  const { body, footer } = split(b)!;
  const reader = new Reader(body.subarray(start));
  const header = reader.struct();
  change(header);
  const bytes = writeStruct(header);
  const shift = BigInt(bytes.length - reader.at);
  for (const [i, fields] of columnsOf(footer).entries())
    for (const field of fields) {
      if (typeof field.value !== 'bigint') continue;
      if (OFFSETS.includes(field.id) && field.value > BigInt(start)) field.value += shift;
      if (i === column && field.id === PACKED) field.value += shift;
    }
  return joined({ body: Buffer.concat([body.subarray(0, start), bytes, body.subarray(start + reader.at)]), footer });
}
const page: Mutate = (b, random) => {
  const columns = pagesOf(b);
  const column = random.below(columns.length);
  const start = random.pick(columns[column] ?? []);
  if (start === undefined) return undefined;
  let what = '';
  const bytes = changePage(b, column, start, (header) => {
    what = changeStruct(header, random);
  });
  return { bytes, what: `page header at ${start}: ${what}` };
};
const pages: Mutate = (b, random, others) => {
  const parts = split(b);
  if (!parts) return undefined;
  const mutant = mutateBytes(parts.body, random, others)!;
  return { bytes: joined({ ...parts, body: mutant.bytes }), what: `pages: ${mutant.what}` };
};

export const mutateParquet: Mutate = oneOf(footer, footer, footer, page, page, page, pages, mutateBytes);
