// Protocol buffers from tables: a message is { name: [field number, kind] }, and only the fields it names are read.
import type { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { wire as library } from '../base/packages.js';

interface Scalars {
  string: string;
  bytes: Uint8Array; // a view of the message, not a copy
  bool: boolean;
  int: number; // any int32, int64 or enum; rounded beyond 2^53: use 'int64' where it must be exact
  int64: bigint;
  uint64: bigint;
  float: number;
  double: number;
}
type Scalar = keyof Scalars;
/** A recursive message refers to itself through a function. */
type Single = Scalar | Message<unknown> | (() => Message<unknown>);
type Kind = Single | readonly [Single] | readonly ['map', 'string' | 'int', Single];
type Fields = Readonly<Record<string, readonly [number, Kind]>>;

type One<K> = K extends Scalar ? Scalars[K] : K extends Message<infer T> | (() => Message<infer T>) ? T : never;
type Value<K> = K extends readonly ['map', infer A, infer B]
  ? ReadonlyMap<One<A>, One<B>>
  : K extends readonly [infer E]
    ? readonly One<E>[]
    : K extends Scalar
      ? Scalars[K]
      : One<K> | undefined;
/**
 * The result of decoding: absent scalars are zero, absent lists and maps empty, absent messages undefined. These values
 * are inherited: `message.name` always works, but Object.keys and spreads see only fields that were present.
 */
type Decoded<F extends Fields> = { readonly [N in keyof F]: Value<F[N][1]> };
/** The input of encoding: any subset of the fields. */
type Given<T> = T extends Uint8Array
  ? T
  : T extends readonly (infer E)[]
    ? readonly Given<E>[]
    : T extends ReadonlyMap<infer K, infer V>
      ? ReadonlyMap<K, Given<V>>
      : T extends object
        ? { readonly [K in keyof T]?: Given<T[K]> | undefined }
        : T;

type Plain = Record<string, unknown>;
interface Field {
  readonly name: string;
  readonly number: number;
  readonly kind: Single;
  readonly shape: 'one' | 'list' | 'map';
}
export interface Message<T> {
  readonly fields: ReadonlyMap<number, Field>;
  readonly absent: Plain; // the values of absent fields
  readonly decoded?: T; // never set: carries the type
}

/** Defines a message by its table of fields. They are written in the order of the table. */
export function message<const F extends Fields>(fields: F): Message<Decoded<F>> {
  const absent: Plain = {};
  const all = Object.entries<readonly [number, Kind]>(fields).map(([name, [number, kind]]): [number, Field] => {
    if (typeof kind === 'string') absent[name] = SCALARS[kind].zero;
    else absent[name] = !Array.isArray(kind) ? undefined : kind[0] === 'map' ? new Map() : [];
    if (!Array.isArray(kind)) return [number, { name, number, kind: kind as Single, shape: 'one' }];
    if (kind[0] !== 'map') return [number, { name, number, kind: kind[0], shape: 'list' }];
    return [number, { name, number, kind: message({ key: [1, kind[1]], value: [2, kind[2]] }), shape: 'map' }];
  });
  return { fields: new Map(all), absent };
}

const [VARINT, BIT64, DELIMITED, BIT32] = [0, 1, 2, 5] as const satisfies readonly WireType[];
interface Codec {
  readonly wire: WireType;
  readonly zero: unknown;
  read(r: BinaryReader): unknown;
  write(w: BinaryWriter, value: never): unknown;
}
// biome-ignore format: a table
const SCALARS: Record<Scalar, Codec> = {
  string: { wire: DELIMITED, zero: '', read: (r) => r.string(), write: (w, v: string) => w.string(v) },
  bytes: { wire: DELIMITED, zero: new Uint8Array(), read: (r) => r.bytes(), write: (w, v: Uint8Array) => w.bytes(v) },
  bool: { wire: VARINT, zero: false, read: (r) => r.bool(), write: (w, v: boolean) => w.bool(v) },
  int: { wire: VARINT, zero: 0, read: (r) => Number(r.int64()), write: (w, v: number) => w.int64(v) },
  int64: { wire: VARINT, zero: 0n, read: (r) => r.int64(), write: (w, v: bigint) => w.int64(v) },
  uint64: { wire: VARINT, zero: 0n, read: (r) => r.uint64(), write: (w, v: bigint) => w.uint64(v) },
  float: { wire: BIT32, zero: 0, read: (r) => r.float(), write: (w, v: number) => w.float(v) },
  double: { wire: BIT64, zero: 0, read: (r) => r.double(), write: (w, v: number) => w.double(v) },
};
const messageOf = (kind: Exclude<Single, Scalar>): Message<unknown> => (typeof kind === 'function' ? kind() : kind);

export const decode = <T>(message: Message<T>, bytes: Uint8Array): T =>
  read(message, new (library().BinaryReader)(bytes), bytes.length) as T;

function read(message: Message<unknown>, r: BinaryReader, end: number): Plain {
  const out: Plain = Object.create(message.absent); // 200 times faster than a copy, and most fields are absent
  while (r.pos < end) {
    const [number, wire] = r.tag();
    const field = message.fields.get(number);
    const scalar = typeof field?.kind === 'string' ? SCALARS[field.kind] : undefined;
    const wanted = scalar?.wire ?? DELIMITED;
    if (!field || (wire !== wanted && (field.shape !== 'list' || wire !== DELIMITED))) {
      r.skip(wire, number);
    } else if (scalar && wire === wanted) {
      add(out, field, scalar.read(r));
    } else {
      const length = r.uint32();
      const limit = r.pos + length;
      if (limit > end) throw new RangeError(`field ${number} is longer than the message that contains it`);
      if (!scalar) add(out, field, read(messageOf(field.kind as Exclude<Single, Scalar>), r, limit));
      else while (r.pos < limit) add(out, field, scalar.read(r)); // packed
    }
  }
  if (r.pos > end) throw new RangeError('a field ends beyond the message that contains it');
  return out;
}

function add(out: Plain, { name, shape }: Field, value: unknown): void {
  if (shape === 'one') {
    out[name] = value;
    return;
  }
  // The empty list or map of an absent field is shared by all messages, so the first element makes a new one.
  if (!Object.hasOwn(out, name)) out[name] = shape === 'list' ? [] : new Map();
  if (shape === 'list') (out[name] as unknown[]).push(value);
  else (out[name] as Map<unknown, unknown>).set((value as Plain)['key'], (value as Plain)['value']);
}

/** Writes every given field, including zeros, which matter in a oneof. Lists of numbers are packed. */
export const encode = <T>(message: Message<T>, value: Given<T>): Uint8Array =>
  write(message, value as Plain, new (library().BinaryWriter)()).finish();

function write(message: Message<unknown>, value: Plain, w: BinaryWriter): BinaryWriter {
  const one = (field: Field, v: unknown) => {
    if (typeof field.kind === 'string') {
      const { wire, write } = SCALARS[field.kind];
      write(w.tag(field.number, wire), v as never);
    } else {
      write(messageOf(field.kind), v as Plain, w.tag(field.number, DELIMITED).fork()).join();
    }
  };
  for (const field of message.fields.values()) {
    const v = value[field.name];
    if (v === undefined) continue;
    if (field.shape === 'one') one(field, v);
    else if (field.shape === 'map') for (const [key, x] of v as Map<unknown, unknown>) one(field, { key, value: x });
    else if (typeof field.kind !== 'string' || SCALARS[field.kind].wire === DELIMITED) {
      for (const x of v as unknown[]) one(field, x);
    } else if ((v as unknown[]).length > 0) {
      w.tag(field.number, DELIMITED).fork();
      for (const x of v as never[]) SCALARS[field.kind].write(w, x);
      w.join();
    }
  }
  return w;
}
