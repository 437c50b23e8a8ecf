// C structs as bytes: fields are written and read at the offsets of the C header (layout.ts).
import { koffi } from '../base/packages.js';
import { STRUCTS } from './layout.js';

export type StructName = keyof typeof STRUCTS;
type Fields<S extends StructName> = (typeof STRUCTS)[S]['fields'];
type Kind = 'pointer' | 'size' | 'i64' | 'i32' | 'f32' | 'bool' | 'struct';
type KindOf<S extends StructName, F extends keyof Fields<S>> = Fields<S>[F] extends readonly [number, infer K]
  ? K
  : never;

/** A pointer argument: an address, or JavaScript memory whose address is passed. */
export type Pointer = bigint | ArrayBufferView | { readonly bytes: ArrayBufferView } | null;
type In<K> = K extends 'pointer' ? Pointer : K extends 'bool' ? boolean : K extends 'struct' ? never : number | bigint;
type Out<K> = K extends 'pointer' ? bigint : K extends 'bool' ? boolean : K extends 'struct' ? Buffer : number;

export type Values<S extends StructName> = { readonly [F in keyof Fields<S>]?: In<KindOf<S, F>> };

export class Struct<S extends StructName> {
  readonly bytes: Buffer;
  /** JavaScript memory that the fields point to: must live as long as this struct is used. */
  readonly #keep: Partial<Record<keyof Fields<S>, Pointer>> = {};

  constructor(
    readonly name: S,
    values: Values<S> = {},
    bytes?: Buffer,
  ) {
    const { size } = STRUCTS[name];
    this.bytes = bytes ?? Buffer.alloc(size);
    this.bytes.writeBigUInt64LE(BigInt(size), 0); // every struct starts with its own size
    for (const field in values) this.set(field as keyof Fields<S>, values[field as keyof Fields<S>] as never);
  }

  set<F extends keyof Fields<S>>(field: F, value: In<KindOf<S, F>>): this {
    const [offset, kind] = (STRUCTS[this.name].fields as Record<PropertyKey, readonly [number, Kind]>)[field]!;
    switch (kind) {
      case 'pointer':
        if (typeof value === 'object') this.#keep[field] = value;
        this.bytes.writeBigUInt64LE(addressOf(value as Pointer), offset);
        break;
      case 'size':
      case 'i64':
        this.bytes.writeBigInt64LE(BigInt.asIntN(64, BigInt(value as number | bigint)), offset);
        break;
      case 'f32':
        this.bytes.writeFloatLE(Number(value), offset);
        break;
      case 'i32':
        this.bytes.writeInt32LE(Number(value), offset);
        break;
      default:
        this.bytes.writeUInt8(value ? 1 : 0, offset);
    }
    return this;
  }

  get<F extends keyof Fields<S>>(field: F): Out<KindOf<S, F>> {
    const [offset, kind] = (STRUCTS[this.name].fields as Record<PropertyKey, readonly [number, Kind]>)[field]!;
    const read = (): bigint | number | boolean | Buffer => {
      if (kind === 'pointer') return this.bytes.readBigUInt64LE(offset);
      if (kind === 'size' || kind === 'i64') return Number(this.bytes.readBigInt64LE(offset));
      if (kind === 'i32') return this.bytes.readInt32LE(offset);
      if (kind === 'f32') return this.bytes.readFloatLE(offset);
      return kind === 'bool' ? this.bytes.readUInt8(offset) !== 0 : this.bytes.subarray(offset);
    };
    return read() as Out<KindOf<S, F>>;
  }
}

export function addressOf(p: Pointer): bigint {
  if (p === null) return 0n;
  if (typeof p === 'bigint') return p;
  const bytes = 'bytes' in p ? p.bytes : p;
  return bytes.byteLength ? koffi().address(bytes) : koffi().address(EMPTY); // an empty array has no address of its own
}
const EMPTY = Buffer.alloc(64);

/** A copy of `length` bytes of foreign memory. */
export const readBytes = (address: bigint, length: number): Buffer =>
  length ? Buffer.from(new Uint8Array(koffi().view(address, length))) : Buffer.alloc(0);
export const readString = (address: bigint, length: number): string => readBytes(address, length).toString('utf8');
/** `count` pointers, from an array of them. */
export const readPointers = (address: bigint, count: number): bigint[] => {
  const bytes = readBytes(address, 8 * count);
  return Array.from({ length: count }, (_, i) => bytes.readBigUInt64LE(8 * i));
};
export const readInt64s = (address: bigint, count: number): number[] => {
  const bytes = readBytes(address, 8 * count);
  return Array.from({ length: count }, (_, i) => Number(bytes.readBigInt64LE(8 * i)));
};
/** Reads a C array of structs. */
export const readStructs = <S extends StructName>(name: S, address: bigint, count: number): Struct<S>[] => {
  const { size } = STRUCTS[name];
  const bytes = readBytes(address, size * count);
  return Array.from({ length: count }, (_, i) => new Struct(name, {}, bytes.subarray(i * size, (i + 1) * size)));
};
