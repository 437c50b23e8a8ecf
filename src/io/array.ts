// Host arrays of files: read into their own memory without a second copy, and checked before they are written.

import { setImmediate } from 'node:timers/promises';
import { rangesOf } from '../base/blocks.js';
import {
  type ArrayType,
  byteLength,
  DTYPES,
  dtypeMistake,
  type HostArray,
  hostArray,
  numbersIn,
  show,
  sizeOf,
  type TypedArray,
} from '../base/dtype.js';
import { ArgumentError, DTypeError, FileError } from '../base/errors.js';
import { partType } from '../base/promote.js';
import { range, type Shape, showShape } from '../base/shape.js';
import { messageOf } from '../base/thrown.js';
import { describe, isPlain } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import type { Tensor } from '../tensor/index.js';
import type { OpenFile, ReadAt } from './file.js';

export type { HostArray };
/** An array on the device: a tensor, or a part of one (`expr` is the whole). */
export interface ReadLater extends ArrayType {
  readonly expr: Expr;
  data(): Promise<TypedArray>;
}
/** What can be written to a file: host arrays, and tensors, which are read one at a time while writing. */
export type NamedArrays = ReadonlyMap<string, HostArray | ReadLater>;

/** Named arrays that are read on request, from a file or another source whose types are known in advance. */
export interface ArraySource {
  /** The file's path, for errors. */
  readonly path?: string;
  readonly entries: ReadonlyMap<string, ArrayType>;
  read(name: string): Promise<HostArray>;
  /** Reads a block, given its start and size in each dimension. Present if blocks can be read without the rest. */
  readBlock?(name: string, start: Shape, block: Shape): Promise<HostArray>;
}

/** Arrays by name, also of an object. */
export function namedArrays(
  what: string,
  given: NamedArrays | Readonly<Record<string, HostArray | Tensor>>,
): NamedArrays {
  if (given instanceof Map) return given;
  if (isPlain(given)) return new Map(Object.entries(given));
  throw new ArgumentError(`${what}: takes a Map or an object of arrays and tensors, got ${describe(given)}`);
}

const PIECE = 2 ** 30;
/** The bytes of an array, in order. In pieces, as typed arrays of Node 20 have at most 2^32 elements. */
export const piecesOf = ({ buffer, byteOffset, byteLength: length }: ArrayBufferView): Uint8Array[] =>
  range(Math.ceil(length / PIECE)).map(
    (i) => new Uint8Array(buffer, byteOffset + i * PIECE, Math.min(PIECE, length - i * PIECE)),
  );

/** Checks an array before it is written, as JavaScript callers may pass anything. */
export function checkArray(name: string, array: HostArray | ReadLater): ArrayType {
  const { dtype, shape, data } = array;
  const mistake = dtypeMistake(String(dtype));
  if (mistake) throw new DTypeError(`${name}: ${mistake}`);
  if (typeof data === 'function') return array; // a tensor
  if (!(data instanceof DTYPES[dtype].array) || data.byteLength !== byteLength({ dtype, shape })) {
    throw new ArgumentError(
      `${name}: ${show({ dtype, shape })} has ${data.byteLength} bytes of data in a ${data.constructor.name}`,
    );
  }
  return array;
}

/** Computes all pending tensors in one program instead of one program each. */
export async function compute(arrays: NamedArrays): Promise<void> {
  const pending = [...arrays.values()].filter((a) => 'expr' in a && !a.expr.isComputed) as ReadLater[];
  if (!pending.length) return;
  const { evaluate } = await import('../runtime/evaluate.js'); // reading files needs no device
  await evaluate([...new Set(pending.map((t) => t.expr))], { cause: 'read', name: 'save' });
}

/** The bytes of an array to be written. */
export const dataOf = async (array: HostArray | ReadLater): Promise<Uint8Array[]> =>
  piecesOf(typeof array.data === 'function' ? await array.data() : array.data);

export const rowMajor = (shape: Shape): number[] => shape.map((_, i) => sizeOf(shape.slice(i + 1)));
export const columnMajor = (shape: Shape): number[] => shape.map((_, i) => sizeOf(shape.slice(0, i)));
/** Whether elements with these strides are contiguous. */
export const isRowMajor = (shape: Shape, strides: Shape): boolean =>
  sizeOf(shape) === 0 || rowMajor(shape).every((s, i) => s === strides[i] || shape[i] === 1);
/** The number of elements from an array's first to its last, in memory. */
export const spanOf = (shape: Shape, strides: Shape): number =>
  sizeOf(shape) && shape.reduce((n, d, i) => n + (d - 1) * strides[i]!, 1);

export interface ArrayOrder {
  /** In elements. Default: row-major. */
  readonly strides?: Shape;
  readonly bigEndian?: boolean;
}

/** Reads the array at a position of a file; the result is row-major for any order in the file. */
export async function readArray(
  read: ReadAt,
  { dtype, shape }: ArrayType,
  position: number,
  { strides = rowMajor(shape), bigEndian = false }: ArrayOrder = {},
): Promise<HostArray> {
  const data = allocate({ dtype, shape });
  const readSwapped: ReadAt = async (into, at) => {
    await read(into, at);
    if (bigEndian) swapBytes(into, DTYPES[dtype].bytes / numbersIn(dtype));
  };
  if (isRowMajor(shape, strides)) await readInto(readSwapped, data, position);
  else if (numbersIn(dtype) === 1) await scatter(readSwapped, { dtype, shape, data }, strides, position);
  else {
    // The parts of a complex number are a dimension more.
    const parts = { dtype: partType(dtype), shape: [...shape, 2], data };
    await scatter(readSwapped, parts, [...strides.map((s) => 2 * s), 1], position);
  }
  return { dtype, shape, data };
}

const SHORT = 2 ** 16; // bytes: a block of columns has a short range in every row
const AT_ONCE = 2 ** 22; // bytes of short ranges: then others have their turn

/** Reads a block of the array at a position of a file: only its bytes are read. */
export async function readBlock(
  file: OpenFile,
  { dtype, shape }: ArrayType,
  position: number,
  start: Shape,
  block: Shape,
): Promise<HostArray> {
  const fits = [start, block].every((list) => list.length === shape.length && list.every(isCount));
  if (!fits || shape.some((n, d) => start[d]! + block[d]! > n))
    throw new ArgumentError(
      `readBlock: a block ${showShape(block)} at ${showShape(start)} is out of range for ${show({ dtype, shape })}`,
    );
  const data = allocate({ dtype, shape: block });
  const numbers = numbersIn(dtype);
  const size = data.BYTES_PER_ELEMENT * numbers;
  let [done, waiting] = [0, 0];
  for (const [from, to] of rangesOf(shape, start, block)) {
    const into = data.subarray(done, (done += (to - from) * numbers));
    if (into.byteLength > SHORT) await readInto(file.read, into, position + from * size);
    else {
      file.readNow(new Uint8Array(into.buffer, into.byteOffset, into.byteLength), position + from * size);
      waiting += into.byteLength;
      if (waiting > AT_ONCE) waiting = await setImmediate(0);
    }
  }
  return { dtype, shape: block, data };
}
const isCount = (n: number): boolean => Number.isSafeInteger(n) && n >= 0;

function allocate(type: ArrayType): TypedArray {
  try {
    return hostArray(type);
  } catch (e) {
    throw new FileError(`${show(type)} does not fit into one array (${messageOf(e)}): read it in parts`, {
      cause: e,
    });
  }
}

/** Fills memory with the bytes at a position of a file. */
export async function readInto(read: ReadAt, memory: ArrayBufferView, position: number): Promise<void> {
  for (const piece of piecesOf(memory)) await read(piece, position + piece.byteOffset - memory.byteOffset);
}

export function swapBytes(bytes: Uint8Array, size: number): void {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (size === 2) buffer.swap16();
  else if (size === 4) buffer.swap32();
  else if (size === 8) buffer.swap64();
}

const WINDOW = 4 * 2 ** 20; // bytes of the file in memory beside the array that is made of them

/**
 * Reads strided elements. The dimension with the widest stride is outermost, so the file is read once, from front to
 * back, through a window. Only for views with overlapping elements (expanded, unfolded) all of it is in memory.
 */
async function scatter(
  read: ReadAt,
  { dtype, shape, data }: HostArray,
  strides: Shape,
  position: number,
): Promise<void> {
  const rows = rowMajor(shape);
  const outer = range(shape.length).sort((a, b) => strides[b]! - strides[a]!);
  const of = (dims: Shape, of: Shape) => dims.map((d) => of[d]!);
  const ascending = outer.every((d, i) => {
    const inside = outer.slice(i + 1);
    return shape[d] === 1 || strides[d]! >= spanOf(of(inside, shape), of(inside, strides));
  });
  const span = spanOf(shape, strides);
  const cells = hostArray({ dtype, shape: [ascending ? Math.min(span, WINDOW / data.BYTES_PER_ELEMENT) : span] });
  let [start, end] = [0, 0];
  const load = async (at: number) => {
    start = at;
    end = Math.min(at + cells.length, span);
    await readInto(read, cells.subarray(0, end - start), position + at * data.BYTES_PER_ELEMENT);
  };
  const inner = outer.pop()!;
  const [n, stride, step] = [shape[inner]!, strides[inner]!, rows[inner]!];
  const index = outer.map(() => 0);
  for (let from = 0, to = 0; ; ) {
    for (let k = 0; k < n; ) {
      const at = from + k * stride;
      if (at < start || at >= end) await load(at);
      const fit = stride ? Math.min(n, k + Math.ceil((end - at) / stride)) : n;
      for (; k < fit; k++) (data as Float64Array)[to + k * step] = cells[from + k * stride - start] as number;
    }
    let i = outer.length - 1;
    for (; i >= 0; i--) {
      const d = outer[i]!;
      index[i]!++;
      from += strides[d]!;
      to += rows[d]!;
      if (index[i]! < shape[d]!) break;
      from -= shape[d]! * strides[d]!;
      to -= shape[d]! * rows[d]!;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}
