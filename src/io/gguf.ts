// The GGUF format of llama.cpp and Ollama: metadata by key, the tensors' names, shapes and types, then their bytes. Version 3,
// little endian. Files have the fastest dimension first; shapes here are row-major.
import { type ArrayType, type DType, type HostArray, hostArray, sizeOf } from '../base/dtype.js';
import { ArgumentError, DTypeError, FileError } from '../base/errors.js';
import { decodeFloats, indexOfNonfinite } from '../base/float.js';
import { checkOptions } from '../base/options.js';
import type { Shape } from '../base/shape.js';
import type { Tensor } from '../tensor/index.js';
import {
  type ArraySource,
  checkArray,
  compute,
  type NamedArrays,
  namedArrays,
  piecesOf,
  type ReadLater,
  readInto,
} from './array.js';
import { type OpenFile, openFile, replaceFiles, type Write, type WriteFile } from './file.js';
import { dequantizeBlocks, GGML, GGML_TYPES, type GgmlType, ggmlBytes, ggmlTypeOf, quantizeBlocks } from './ggml.js';
import { converted } from './placed.js';
import { entryOf } from './safetensors.js';

// biome-ignore format: a table
const VALUE_TYPES = ['u8', 'i8', 'u16', 'i16', 'u32', 'i32', 'f32', 'bool', 'string', 'array', 'u64', 'i64', 'f64'] as const;
type ValueType = (typeof VALUE_TYPES)[number];
type NumberType = Exclude<ValueType, 'bool' | 'string' | 'array' | 'u64' | 'i64'>;
/** A value of the metadata with its type in the file. */
export type GgufValue =
  | { readonly type: NumberType; readonly value: number }
  | { readonly type: 'u64' | 'i64'; readonly value: bigint }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'array'; readonly of: ValueType; readonly value: readonly GgufItem[] };
/** An element of an array; of an array of arrays, the inner one with its type. */
export type GgufItem = number | bigint | boolean | string | Extract<GgufValue, { type: 'array' }>;
export type GgufMetadata = ReadonlyMap<string, GgufValue>;

const [MAGIC, VERSION, DIMS, ALIGNMENT] = ['GGUF', 3, 4, 32];
const ALIGNMENT_KEY = 'general.alignment';
const HEADER_LIMIT = 256 * 2 ** 20; // bytes: a vocabulary of 262,144 tokens takes 10 MiB
const DEPTH = 4; // arrays in one another
const padded = (n: number, alignment: number): number => Math.ceil(n / alignment) * alignment;

// biome-ignore format: a table
const WIDTH: Readonly<Record<Exclude<ValueType, 'string' | 'array'>, number>> = {
  u8: 1, i8: 1, bool: 1, u16: 2, i16: 2, u32: 4, i32: 4, f32: 4, u64: 8, i64: 8, f64: 8,
};

// ---- reading

export interface GgufEntry extends ArrayType {
  /** The type in the file. Reading returns `dtype`: f32 for floats and blocks. */
  readonly type: GgmlType;
  readonly byteLength: number;
}
interface Place extends GgufEntry {
  readonly position: number; // in the file
}

/** An open GGUF file: its metadata, and its tensors, which are read on request. */
export class GgufFile implements ArraySource, AsyncDisposable {
  readonly #file: OpenFile;
  readonly #places: ReadonlyMap<string, Place>;

  private constructor(
    file: OpenFile,
    readonly metadata: GgufMetadata,
    places: ReadonlyMap<string, Place>,
  ) {
    this.#file = file;
    this.#places = places;
  }

  /** Reads the header and checks all of it. */
  static async open(path: string): Promise<GgufFile> {
    const file = await openFile(path);
    try {
      const { metadata, places } = await readHeader(file);
      return new GgufFile(file, metadata, places);
    } catch (e) {
      await file.close();
      throw e;
    }
  }

  get path(): string {
    return this.#file.path;
  }
  get entries(): ReadonlyMap<string, GgufEntry> {
    return this.#places;
  }
  /** The raw bytes of a tensor. */
  async readRaw(name: string): Promise<Uint8Array> {
    const { byteLength, position } = entryOf(this.path, this.#places, name);
    const bytes = new Uint8Array(byteLength);
    await readInto(this.#file.read, bytes, position);
    return bytes;
  }
  /** A tensor: f32 for floats and blocks, integers and f64 as they are. */
  async read(name: string): Promise<HostArray> {
    const { dtype, shape, type } = entryOf(this.path, this.#places, name);
    const { dtype: stored, dequantize } = GGML[type];
    if (!stored && !dequantize)
      throw new FileError(`${this.path}: ${name} is ${type}, which is not supported: convert it with llama-quantize`);
    const bytes = await this.readRaw(name);
    if (!stored) return { dtype, shape, data: dequantizeBlocks(type, bytes) };
    const numbers = hostArray({ dtype: stored, shape });
    for (const piece of piecesOf(numbers))
      piece.set(
        bytes.subarray(piece.byteOffset - numbers.byteOffset, piece.byteOffset - numbers.byteOffset + piece.length),
      );
    return { dtype, shape, data: decodeFloats(stored, numbers) };
  }

  close(): Promise<void> {
    return this.#file.close();
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Opens a file and checks its header; tensors are read on request. */
export const openGguf = (path: string): Promise<GgufFile> => GgufFile.open(path);

/** The metadata and all tensors of a file, in its order. */
export async function readGguf(
  path: string,
): Promise<{ readonly metadata: GgufMetadata; readonly arrays: Map<string, HostArray> }> {
  await using file = await openGguf(path);
  const arrays = new Map<string, HostArray>();
  for (const name of file.entries.keys()) arrays.set(name, await file.read(name));
  return { metadata: file.metadata, arrays };
}

type Bad = (what: string) => FileError;
class EndOfBytes extends Error {}

/** Reads values one after the other from the first bytes of a file. */
class Cursor {
  at = 0;
  readonly #view: DataView;
  constructor(
    private readonly bytes: Uint8Array,
    private readonly size: number,
    private readonly bad: Bad,
  ) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  #take(length: number): number {
    const start = this.at;
    if (start + length > this.size) throw this.bad(`its header goes beyond its ${this.size} bytes`);
    if (start + length > HEADER_LIMIT) throw this.bad(`its header is longer than ${HEADER_LIMIT} bytes`);
    if (start + length > this.bytes.length) throw new EndOfBytes();
    this.at += length;
    return start;
  }
  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }
  /** A length, a count or an offset. */
  count(what: string): number {
    const n = this.#view.getBigUint64(this.#take(8), true);
    if (n > Number.MAX_SAFE_INTEGER) throw this.bad(`${what} is ${n}`);
    return Number(n);
  }
  text(what: string): string {
    const length = this.count(`the length of ${what}`);
    const start = this.#take(length);
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(this.bytes.subarray(start, this.at));
    } catch {
      throw this.bad(`${what} is not UTF-8`);
    }
  }
  type(what: string): ValueType {
    const id = this.u32();
    const type = VALUE_TYPES[id];
    if (!type)
      throw this.bad(`${what} has a value of the unknown type ${id}: types are 0 to ${VALUE_TYPES.length - 1}`);
    return type;
  }
  value(what: string): GgufValue {
    const type = this.type(what);
    return type === 'array' ? this.array(what, 1) : ({ type, value: this.scalar(type, what) } as GgufValue);
  }
  array(what: string, depth: number): Extract<GgufValue, { type: 'array' }> {
    if (depth > DEPTH) throw this.bad(`${what} has arrays more than ${DEPTH} deep`);
    const of = this.type(what);
    const length = this.count(`the length of ${what}`);
    const least = of === 'string' ? 8 : of === 'array' ? 12 : WIDTH[of];
    if (length * least > this.size - this.at) throw this.bad(`${what} would have ${length} values`);
    const value: GgufItem[] = [];
    for (let i = 0; i < length; i++) value.push(of === 'array' ? this.array(what, depth + 1) : this.scalar(of, what));
    return { type: 'array', of, value };
  }
  scalar(type: Exclude<ValueType, 'array'>, what: string): number | bigint | boolean | string {
    if (type === 'string') return this.text(what);
    const at = this.#take(WIDTH[type]);
    const view = this.#view;
    switch (type) {
      case 'u8':
        return view.getUint8(at);
      case 'i8':
        return view.getInt8(at);
      case 'u16':
        return view.getUint16(at, true);
      case 'i16':
        return view.getInt16(at, true);
      case 'u32':
        return view.getUint32(at, true);
      case 'i32':
        return view.getInt32(at, true);
      case 'f32':
        return view.getFloat32(at, true);
      case 'f64':
        return view.getFloat64(at, true);
      case 'u64':
        return view.getBigUint64(at, true);
      case 'i64':
        return view.getBigInt64(at, true);
      case 'bool': {
        const byte = view.getUint8(at);
        if (byte > 1) throw this.bad(`${what} is a boolean with byte ${byte} instead of 0 or 1`);
        return byte === 1;
      }
    }
  }
}

const FIRST = 2 ** 20; // bytes that are read at first
/** The header's length is known only after it is parsed: more bytes are read until it is complete. */
async function readHeader(file: OpenFile) {
  const bad: Bad = (what) => new FileError(`${file.path} is not a whole GGUF file: ${what}`);
  for (let length = Math.min(FIRST, file.size); ; length = Math.min(4 * length, file.size)) {
    const bytes = new Uint8Array(length);
    await file.read(bytes, 0);
    try {
      return parseHeader(bytes, file.size, bad);
    } catch (e) {
      if (!(e instanceof EndOfBytes)) throw e;
    }
  }
}

function parseHeader(bytes: Uint8Array, size: number, bad: Bad) {
  const cursor = new Cursor(bytes, size, bad);
  const magic = Buffer.from(bytes.subarray(0, 4)).toString('latin1');
  if (magic !== MAGIC) throw bad(`it does not begin with '${MAGIC}'`);
  cursor.u32();
  const version = cursor.u32();
  if (version >>> 16 && !(version & 0xffff)) throw bad('it is big endian: convert it with gguf-convert-endian');
  if (version < 2 || version > VERSION) throw bad(`its version is ${version}: supported are 2 and 3`);
  const tensors = cursor.count('the count of tensors');
  const pairs = cursor.count('the count of metadata');
  const metadata = new Map<string, GgufValue>();
  for (let i = 0; i < pairs; i++) {
    const key = cursor.text('a key of its metadata');
    if (metadata.has(key)) throw bad(`its metadata has ${brief(key)} twice`);
    metadata.set(key, cursor.value(brief(key)));
  }
  const alignment = alignmentOf(metadata, bad);
  const places = new Map<string, Place>();
  let offset = 0;
  for (let i = 0; i < tensors; i++) {
    const name = cursor.text('the name of a tensor');
    if (places.has(name)) throw bad(`it has the tensor ${brief(name)} twice`);
    const entry = readEntry(cursor, brief(name), bad);
    if (entry.position !== offset)
      throw bad(`${brief(name)} begins at byte ${entry.position} of the data, expected is ${offset}`);
    offset = padded(offset + entry.byteLength, alignment);
    places.set(name, entry);
  }
  const start = padded(cursor.at, alignment);
  let end = tensors ? start : cursor.at;
  for (const [name, place] of places) {
    end = start + place.position + place.byteLength;
    if (end > size) throw bad(`${brief(name)} ends at byte ${end} of ${size}`);
    places.set(name, { ...place, position: start + place.position });
  }
  if (size > padded(end, alignment)) throw bad(`bytes ${end} to ${size}, at its end, belong to no tensor`);
  return { metadata, places };
}

function alignmentOf(metadata: GgufMetadata, bad: Bad): number {
  const given = metadata.get(ALIGNMENT_KEY);
  if (!given) return ALIGNMENT;
  if (given.type !== 'u32' || !isAlignment(given.value))
    throw bad(`its ${ALIGNMENT_KEY} is ${brief(String(given.value))} (${given.type}): expected a power of two (u32)`);
  return given.value;
}
const isAlignment = (n: number): boolean => n > 0 && n <= 2 ** 30 && Number.isInteger(Math.log2(n));

/** Its position is relative to the data's beginning. */
function readEntry(cursor: Cursor, name: string, bad: Bad): Place {
  const dims = cursor.u32();
  if (dims > DIMS) throw bad(`${name} has ${dims} dimensions, at most ${DIMS} are possible`);
  const shape: number[] = [];
  for (let d = 0; d < dims; d++) shape.unshift(cursor.count(`a size of ${name}`));
  const id = cursor.u32();
  const type = ggmlTypeOf(id);
  if (!type) throw bad(`${name} has the type ${id}, which is not supported: convert it with llama-quantize`);
  const { block, dtype } = GGML[type];
  const elements = sizeOf(shape);
  const row = shape.at(-1) ?? 1;
  if (!Number.isSafeInteger(elements * GGML[type].bytes)) throw bad(`${name} has the shape [${shape}]`);
  if (row % block) throw bad(`${name} is ${type} with rows of ${row}, which are not whole blocks of ${block}`);
  const position = cursor.count(`the offset of ${name}`);
  const isFloat = !dtype || dtype === 'f16' || dtype === 'bf16';
  return { dtype: isFloat ? 'f32' : dtype, shape, type, byteLength: ggmlBytes(type, elements), position };
}
const brief = (text: string): string => (text.length > 100 ? `${text.slice(0, 100)}...` : text);

// ---- writing

/** A tensor that is written: its type in the file, and its rows, which come one part after the other. */
export interface GgufTensor {
  readonly shape: Shape;
  readonly type: GgmlType;
  parts(): AsyncIterable<HostArray>;
}

export interface GgufOptions {
  readonly metadata?: GgufMetadata | Readonly<Record<string, GgufValue>>;
  /** By names of tensors. Default: F32, F16, BF16, F64 or an integer type, as the array has it. */
  readonly types?: Readonly<Record<string, GgmlType>>;
}

/** Writes arrays and tensors under a temporary name, flushed, then renamed. */
export async function writeGguf(
  path: string,
  given: NamedArrays | Readonly<Record<string, HostArray | Tensor>>,
  options: GgufOptions = {},
): Promise<void> {
  checkOptions('writeGguf', ['metadata', 'types'], options);
  const arrays = namedArrays('writeGguf', given);
  const { metadata = {}, types = {} } = options;
  const unknown = Object.keys(types).find((name) => !arrays.has(name));
  if (unknown !== undefined)
    throw new ArgumentError(`writeGguf: types names ${unknown}, which is not among the arrays`);
  const tensors = [...arrays].map(
    ([name, array]) => [name, tensorOf(name, array, types[name] ?? plainType(name, array.dtype))] as const,
  );
  const file = ggufFile(new Map(tensors), metadata instanceof Map ? metadata : new Map(Object.entries(metadata)));
  await compute(arrays);
  await replaceFiles(new Map([[path, file]]));
}

function tensorOf(name: string, array: HostArray | ReadLater, type: GgmlType): GgufTensor {
  const { dtype, shape } = checkArray(name, array);
  return {
    shape,
    type,
    async *parts() {
      yield { dtype, shape, data: typeof array.data === 'function' ? await array.data() : array.data };
    },
  };
}

const PLAIN: ReadonlyMap<DType, GgmlType> = new Map(
  GGML_TYPES.flatMap((type) => (GGML[type].dtype ? [[GGML[type].dtype, type] as const] : [])),
);
function plainType(name: string, dtype: DType): GgmlType {
  const type = PLAIN.get(dtype);
  if (!type)
    throw new DTypeError(`${name}: GGUF has no ${dtype}: convert it to one of ${[...PLAIN.keys()].join(', ')}`);
  return type;
}

/** The function that writes these tensors to a file. */
export function ggufFile(tensors: ReadonlyMap<string, GgufTensor>, metadata: GgufMetadata): WriteFile {
  const alignment = alignmentOf(metadata, (what) => new ArgumentError(`writeGguf: ${what}`) as FileError);
  const out = new Builder();
  out.bytes(Buffer.from(MAGIC));
  out.scalar('u32', VERSION);
  out.scalar('u64', BigInt(tensors.size));
  out.scalar('u64', BigInt(metadata.size));
  for (const [key, value] of metadata) {
    out.text(key);
    out.value(key, value);
  }
  let offset = 0;
  for (const [name, { shape, type }] of tensors) {
    checkShape(name, shape, type);
    out.text(name);
    out.scalar('u32', shape.length);
    for (const size of shape.toReversed()) out.scalar('u64', BigInt(size));
    out.scalar('u32', GGML[type].id);
    out.scalar('u64', BigInt(offset));
    offset = padded(offset + ggmlBytes(type, sizeOf(shape)), alignment);
  }
  return async (write) => {
    await write(out.all(alignment));
    for (const [name, tensor] of tensors) await writeTensor(write, name, tensor, alignment);
  };
}

function checkShape(name: string, shape: Shape, type: GgmlType): void {
  const format = GGML[type];
  if (!format) throw new ArgumentError(`${name}: '${type}' is not a ggml type: use one of ${GGML_TYPES.join(', ')}`);
  if (!format.dtype && !format.quantize) throw new ArgumentError(`${name}: writing ${type} is not supported`);
  if (shape.length > DIMS) throw new ArgumentError(`${name} has ${shape.length} dimensions: GGUF has at most ${DIMS}`);
  const row = shape.at(-1) ?? 1;
  if (row % format.block)
    throw new ArgumentError(`${name}: rows of ${row} are not whole blocks of ${format.block}: ${type} cannot hold it`);
}

async function writeTensor(write: Write, name: string, tensor: GgufTensor, alignment: number): Promise<void> {
  const { shape, type } = tensor;
  const wanted = ggmlBytes(type, sizeOf(shape));
  let done = 0;
  for await (const part of tensor.parts())
    for (const bytes of encoded(name, part, type)) {
      await write(bytes);
      done += bytes.length;
    }
  if (done !== wanted) throw new ArgumentError(`${name}: ${done} bytes were given, ${type} [${shape}] has ${wanted}`);
  await write(new Uint8Array(padded(done, alignment) - done));
}

const AT_ONCE = 2 ** 20; // elements that are converted at a time; whole blocks of every type

/** The bytes of an array in a type of ggml. */
function* encoded(name: string, { dtype, data }: HostArray, type: GgmlType): Generator<Uint8Array> {
  const format = GGML[type];
  const bad = (what: string, i: number) => new ArgumentError(`${name}: element ${i} ${what}`);
  if (format.dtype === dtype) return yield* piecesOf(data);
  for (let at = 0; at < data.length; at += AT_ONCE) {
    const part = data.subarray(at, at + AT_ONCE);
    const finite = indexOfNonfinite(dtype, part);
    if (finite >= 0 && !format.dtype) throw bad(`is not finite: ${type} cannot hold it`, at + finite);
    if (format.dtype) {
      const made = converted({ dtype, shape: [part.length], data: part }, format.dtype);
      const over = finite < 0 ? indexOfNonfinite(format.dtype, made) : -1;
      if (over >= 0) throw bad(`is too large for ${type}: choose BF16 or F32`, at + over);
      yield* piecesOf(made);
    } else {
      const numbers = converted({ dtype, shape: [part.length], data: part }, 'f32') as Float32Array;
      const large = numbers.findIndex((x) => Math.abs(x) > LARGEST);
      if (large >= 0)
        throw bad(`is ${numbers[large]}, too large for the scales of ${type}: choose BF16 or F32`, at + large);
      yield quantizeBlocks(type, numbers);
    }
  }
}
const LARGEST = 65504 * 8; // what the f16 scales of all block formats can hold

/** Bytes that grow. */
class Builder {
  #bytes = Buffer.alloc(2 ** 16);
  #at = 0;

  #room(length: number): number {
    if (this.#at + length > this.#bytes.length) {
      const grown = Buffer.alloc(2 * (this.#at + length));
      this.#bytes.copy(grown);
      this.#bytes = grown;
    }
    this.#at += length;
    return this.#at - length;
  }
  bytes(given: Uint8Array): void {
    const at = this.#room(given.length);
    this.#bytes.set(given, at);
  }
  text(given: string): void {
    const text = Buffer.from(given);
    this.scalar('u64', BigInt(text.length));
    this.bytes(text);
  }
  value(key: string, given: GgufValue): void {
    const id = VALUE_TYPES.indexOf(given.type);
    if (id < 0)
      throw new ArgumentError(`${key}: '${given.type}' is not a GGUF type: use one of ${VALUE_TYPES.join(', ')}`);
    this.scalar('u32', id);
    if (given.type === 'array') this.#array(key, given);
    else this.#checked(key, given.type, given.value);
  }
  #array(key: string, { of, value }: Extract<GgufValue, { type: 'array' }>): void {
    const id = VALUE_TYPES.indexOf(of);
    if (id < 0) throw new ArgumentError(`${key}: '${of}' is not a GGUF type: use one of ${VALUE_TYPES.join(', ')}`);
    this.scalar('u32', id);
    this.scalar('u64', BigInt(value.length));
    for (const item of value) {
      if (of === 'array') this.#array(key, item as Extract<GgufValue, { type: 'array' }>);
      else this.#checked(key, of, item);
    }
  }
  #checked(key: string, type: Exclude<ValueType, 'array'>, value: unknown): void {
    try {
      if (type !== 'string') this.scalar(type, value as number);
      else if (typeof value === 'string') this.text(value);
      else throw new TypeError('not a text');
    } catch (e) {
      throw new ArgumentError(`${key}: ${String(value)} is not a valid ${type}`, { cause: e });
    }
  }
  /** Node checks types and ranges. */
  scalar(type: keyof typeof WIDTH, value: number | bigint | boolean): void {
    const at = this.#room(WIDTH[type]);
    const b = this.#bytes;
    const n = value as number;
    if (type === 'bool') b.writeUInt8(value === true ? 1 : value === false ? 0 : 2 ** 8, at);
    else if (type === 'u64') b.writeBigUInt64LE(value as bigint, at);
    else if (type === 'i64') b.writeBigInt64LE(value as bigint, at);
    else if (typeof value !== 'number') throw new TypeError('not a number');
    else if (type === 'f32') b.writeFloatLE(n, at);
    else if (type === 'f64') b.writeDoubleLE(n, at);
    else if (!Number.isInteger(n)) throw new RangeError('not a whole number');
    else if (type.startsWith('u')) b.writeUIntLE(n, at, WIDTH[type]);
    else b.writeIntLE(n, at, WIDTH[type]);
  }
  /** All of it, with zeros up to a multiple of the alignment. */
  all(alignment: number): Uint8Array {
    this.bytes(new Uint8Array(padded(this.#at, alignment) - this.#at));
    return this.#bytes.subarray(0, this.#at);
  }
}
