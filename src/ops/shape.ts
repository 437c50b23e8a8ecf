// Reshaping, reordering, converting and joining. There are no strides: a view is a new value, and XLA decides whether
// anything is copied. Several sizes are given as one array or as separate arguments.
import { DTYPES, type DType } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isComplex, isFloat, promote } from '../base/promote.js';
import {
  broadcastShapes,
  checkShape,
  inferShape,
  normalizeDim,
  normalizeDims,
  range,
  type Shape,
  showShape,
} from '../base/shape.js';
import { isPlain } from '../base/tree.js';
import { Expr } from '../ir/expr.js';
import { insideBody } from '../ir/scope.js';
import { sameValue } from './prim/body.js';
import { broadcastTo as broadcast, broadcastInDim } from './prim/broadcast.js';
import { conjugate } from './prim/complex.js';
import { takeFixed } from './prim/gather.js';
import * as move from './prim/move.js';
import { concat, sliceDim } from './prim/slice.js';
import { shapeByValues } from './spec.js';

/** Sizes or dimensions: as one array, or one by one. */
type Sizes = number[] | [Shape];
const listOf = (sizes: Sizes): Shape => (typeof sizes[0] === 'number' ? (sizes as Shape) : ((sizes[0] as Shape) ?? []));
/** One dimension, plain or by its name. */
type Dim = number | { readonly dim?: number };
const dimOf = (op: string, option: Dim, rank: number): number =>
  normalizeDim(op, typeof option === 'number' ? option : (option.dim ?? 0), rank);
const replaced = (shape: Shape, dim: number, ...sizes: readonly number[]): number[] =>
  shape.toSpliced(dim, 1, ...sizes);

// ---- dtype

/** The devices that `to` takes: a process computes on one of them. */
export type Device = 'cpu' | 'cuda' | 'tpu' | 'mps' | 'xla';
/**
 * Converts to another dtype, or to that of another tensor. Floats are truncated towards zero for integers. Unlike torch: a
 * device must be the one that the process computes on; a float out of range of an integer dtype becomes the nearest
 * integer.
 */
export function to(
  x: Expr,
  target: DType | Device | Expr | { readonly dtype?: DType; readonly device?: Device },
  dtype?: DType,
): Expr {
  // A device is checked where it is known (tensor/to.ts), and not given here.
  const wanted = dtype ?? (typeof target === 'object' ? target.dtype : (target as DType));
  return wanted ? move.convert(x, wanted) : x;
}
export const typeAs = (x: Expr, other: Expr): Expr => move.convert(x, other.dtype);
const converter =
  (dtype: DType) =>
  (x: Expr): Expr =>
    move.convert(x, dtype);
export const float = converter('f32');
export const double = converter('f64');
export const half = converter('f16');
export const bfloat16 = converter('bf16');
export const int = converter('i32');
export const long = converter('i64');
export const short = converter('i16');
export const char = converter('i8');
/** Negative numbers wrap around, as in torch. */
export const byte = (x: Expr): Expr => move.convert(isFloat(x.dtype) ? move.convert(x, 'i64') : x, 'u8');
/** Whether elements are not zero. */
export const bool = converter('bool');

/** The same bits as another dtype: torch's view(dtype). The last dimension grows or shrinks where sizes differ. */
export function viewDtype(x: Expr, dtype: DType): Expr {
  const [from, into] = [DTYPES[x.dtype].bytes, DTYPES[dtype].bytes];
  if (x.dtype === dtype) return x;
  if (x.dtype === 'bool' || dtype === 'bool')
    throw new DTypeError(`viewDtype: booleans cannot be viewed as bits, got ${x.aval} and ${dtype}: use to()`);
  if (isComplex(x.dtype) || isComplex(dtype))
    throw new DTypeError(`viewDtype: got ${x.aval} and ${dtype}: use viewAsReal() and viewAsComplex()`);
  if (from === into) return move.bitcast(x, dtype);
  const [lead, last] = [x.shape.slice(0, -1), x.shape.at(-1)];
  const ratio = into / from;
  if (last === undefined || (ratio > 1 && last % ratio))
    throw new ShapeError(
      `viewDtype: ${x.aval} as ${dtype}: the last dimension must be a multiple of ${Math.max(ratio, 1)}`,
    );
  if (ratio > 1) return move.bitcast(move.reshape(x, [...lead, last / ratio, ratio]), dtype, [...lead, last / ratio]);
  return move.reshape(move.bitcast(x, dtype, [...x.shape, 1 / ratio]), [...lead, last / ratio]);
}

// ---- shape

const reshaped =
  (op: string) =>
  (x: Expr, ...shape: Sizes): Expr => {
    const sizes = listOf(shape);
    try {
      return move.reshape(x, inferShape(op, sizes, x.aval.size));
    } catch (e) {
      if (!(e instanceof ShapeError)) throw e;
      throw new ShapeError(`${e.message} (from ${x.aval})`);
    }
  };
/** The same elements in row-major order; one size may be -1. */
export const reshape = reshaped('reshape');
/** Unlike torch: the same as reshape, as there are no strides; does not share memory. */
export const view = reshaped('view');
export const reshapeAs = (x: Expr, other: Expr): Expr => reshaped('reshapeAs')(x, other.shape);
export const viewAs = (x: Expr, other: Expr): Expr => reshaped('viewAs')(x, other.shape);
export const ravel = (x: Expr): Expr => move.reshape(x, [x.aval.size]);

/** Merges the dimensions startDim to endDim into one. */
export function flatten(
  x: Expr,
  { startDim = 0, endDim = -1 }: { readonly startDim?: number; readonly endDim?: number } = {},
): Expr {
  const rank = x.shape.length;
  const [start, end] = [normalizeDim('flatten', startDim, rank), normalizeDim('flatten', endDim, rank)];
  if (start > end)
    throw new ShapeError(`flatten: startDim ${startDim} comes after endDim ${endDim} in ${x.aval}: swap them`);
  const merged = x.shape.slice(start, end + 1).reduce((n, d) => n * d, 1);
  return move.reshape(x, [...x.shape.slice(0, start), merged, ...x.shape.slice(end + 1)]);
}

/** Splits one dimension into several; one of their sizes may be -1. */
export function unflatten(x: Expr, dim: number, sizes: Shape): Expr {
  const at = normalizeDim('unflatten', dim, x.shape.length);
  if (!x.shape.length) throw new ShapeError(`unflatten: ${x.aval} has no dimension to split`);
  return move.reshape(x, replaced(x.shape, at, ...inferShape('unflatten', sizes, x.shape[at]!)));
}

/** Removes the dimensions of size 1: all of them, or those given (of other sizes they are kept). */
export function squeeze(x: Expr, { dim }: { readonly dim?: number | Shape } = {}): Expr {
  const dims = normalizeDims('squeeze', dim, x.shape.length);
  return move.reshape(
    x,
    x.shape.filter((n, d) => n !== 1 || !dims.includes(d)),
  );
}
export function unsqueeze(x: Expr, dim: number | { readonly dim: number }): Expr {
  const at = dimOf('unsqueeze', dim, x.shape.length + 1);
  return move.reshape(x, x.shape.toSpliced(at, 0, 1));
}
const atLeast = (x: Expr, rank: number): Expr =>
  // torch's order: dimensions come before a vector's, and a matrix gets its third at the end.
  x.shape.length >= rank ? x : rank === 3 ? unsqueeze(atLeast(x, 2), -1) : unsqueeze(atLeast(x, rank - 1), 0);
const atLeastOf = (rank: number) => {
  function atleast(x: readonly Expr[]): Expr[];
  function atleast(x: Expr): Expr;
  function atleast(x: Expr | readonly Expr[]): Expr | Expr[] {
    return Array.isArray(x) ? x.map((e: Expr) => atLeast(e, rank)) : atLeast(x as Expr, rank);
  }
  return atleast;
};
/** Adds dimensions of size 1 up to this number, to a tensor or each in a list. */
export const atleast1d = atLeastOf(1);
export const atleast2d = atLeastOf(2);
export const atleast3d = atLeastOf(3);

/** The same value with its own gradient. The body of a loop may change it in place, as it is made inside. */
export const clone = (x: Expr): Expr => (insideBody() ? sameValue(x) : x);
/** The same value: there are no strides. */
export const contiguous = (x: Expr): Expr => x;

// ---- order

export function permute(x: Expr, ...dims: Sizes): Expr {
  const rank = x.shape.length;
  const perm = normalizeDims('permute', listOf(dims), rank);
  if (perm.length !== rank)
    throw new ShapeError(
      `permute: ${x.aval} has ${rank} dimensions, got ${showShape(listOf(dims))}: give each dimension once`,
    );
  return move.permute(x, perm);
}
/** Swaps two dimensions. */
export function transpose(x: Expr, dim0: number, dim1: number): Expr {
  const [a, b] = [normalizeDim('transpose', dim0, x.shape.length), normalizeDim('transpose', dim1, x.shape.length)];
  return move.permute(
    x,
    range(x.shape.length).map((d) => (d === a ? b : d === b ? a : d)),
  );
}
/** Transposes a matrix; vectors and scalars are returned unchanged. */
export function t(x: Expr): Expr {
  if (x.shape.length > 2)
    throw new ShapeError(`t: takes at most 2 dimensions, got ${x.aval}: use mT or transpose(dim0, dim1)`);
  return x.shape.length < 2 ? x : move.permute(x, [1, 0]);
}
/** Every matrix of a batch transposed and conjugated: x.mH. */
export function adjoint(x: Expr): Expr {
  if (x.shape.length < 2) throw new ShapeError(`adjoint, mT and mH: take 2 dimensions or more, got ${x.aval}`);
  return conjugate(transpose(x, -2, -1));
}
/** Moves dimensions to other positions; the others keep their order. */
export function movedim(x: Expr, source: number | Shape, destination: number | Shape): Expr {
  const rank = x.shape.length;
  const [from, into] = [normalizeDims('movedim', source, rank), normalizeDims('movedim', destination, rank)];
  if (from.length !== into.length)
    throw new ShapeError(
      `movedim: cannot move ${from.length} dimensions to ${into.length} positions: give as many of each`,
    );
  const rest = range(rank).filter((d) => !from.includes(d));
  return move.permute(
    x,
    range(rank).map((d) => (into.includes(d) ? from[into.indexOf(d)]! : rest.shift()!)),
  );
}

export const flip = (x: Expr, ...dims: Sizes): Expr =>
  move.reverse(x, normalizeDims('flip', listOf(dims), x.shape.length));
const atLeastRank = (op: string, x: Expr, rank: number): Expr => {
  if (x.shape.length >= rank) return x;
  throw new ShapeError(`${op}: takes ${rank} dimension${rank > 1 ? 's' : ''} or more, got ${x.aval}`);
};
export const fliplr = (x: Expr): Expr => flip(atLeastRank('fliplr', x, 2), 1);
export const flipud = (x: Expr): Expr => flip(atLeastRank('flipud', x, 1), 0);
/** Rotates by 90 degrees k times, from the first of two dimensions towards the second. */
export function rot90(x: Expr, { k = 1, dims = [0, 1] }: { readonly k?: number; readonly dims?: Shape } = {}): Expr {
  const plane = normalizeDims('rot90', dims, x.shape.length);
  if (plane.length !== 2 || !Number.isInteger(k))
    throw new ShapeError(`rot90: takes a whole number of turns and two dimensions, got ${k} and ${showShape(dims)}`);
  const [a, b] = plane as [number, number];
  const turns = ((k % 4) + 4) % 4;
  if (turns === 2) return move.reverse(x, plane);
  return turns === 1 ? transpose(flip(x, b), a, b) : turns === 3 ? flip(transpose(x, a, b), b) : x;
}
/** Shifts elements along dimensions; those shifted out re-enter at the other end. Without dims: of the flattened tensor. */
export function roll(x: Expr, shifts: number | Shape, dims?: number | Shape): Expr {
  if (dims === undefined) {
    if (typeof shifts !== 'number') throw new ArgumentError(`roll: ${shifts.length} shifts need as many dims`);
    return move.reshape(roll(ravel(x), shifts, 0), x.shape);
  }
  if (!x.shape.length) throw new ShapeError(`roll: ${x.aval} has no dimensions to roll along`);
  const by = [shifts].flat() as number[];
  const along = [dims].flat() as number[];
  if (by.length !== along.length)
    throw new ArgumentError(`roll: ${by.length} shifts for ${along.length} dims: give one for each`);
  return along.reduce((y, dim, i) => {
    const d = normalizeDim('roll', dim, x.shape.length);
    const n = x.shape[d] ?? 1;
    const cut = n ? ((-by[i]! % n) + n) % n : 0; // what is before it goes to the end
    return cut ? concat([sliceDim(y, d, cut, n), sliceDim(y, d, 0, cut)], d) : y;
  }, x);
}

// ---- larger

const expanded =
  (op: string) =>
  (x: Expr, ...sizes: Sizes): Expr => {
    const shape = listOf(sizes);
    const lead = shape.length - x.shape.length;
    if (lead < 0 || x.shape.some((n, d) => n !== 1 && shape[d + lead] !== n && shape[d + lead] !== -1))
      throw new ShapeError(`${op}: ${x.aval} does not expand to ${showShape(shape)}: only sizes of 1 can be stretched`);
    const known = shape.map((n, d) => (n === -1 ? (x.shape[d - lead] ?? -1) : n));
    return broadcast(x, checkShape(op, known));
  };
/** Dimensions of size 1 are stretched, and leading ones added; -1 keeps a size. */
export const expand = expanded('expand');
export const expandAs = (x: Expr, other: Expr): Expr => expanded('expandAs')(x, other.shape);
export const broadcastTo = expanded('broadcastTo');
export function broadcastTensors(xs: readonly Expr[]): Expr[] {
  const shape = broadcastShapes('broadcastTensors', ...tensors('broadcastTensors', xs).map((x) => x.shape));
  return xs.map((x) => broadcast(x, shape));
}
export interface Meshgrid {
  (xs: readonly Expr[], options?: GridOptions): Expr[];
  (...given: Expr[] | [...xs: Expr[], options: GridOptions]): Expr[];
}
interface GridOptions {
  readonly indexing?: 'ij' | 'xy';
}
/** Coordinates of a grid, one array for each of some vectors. 'xy' swaps the first two dimensions, for pictures. */
export const meshgrid: Meshgrid = (...given: readonly unknown[]): Expr[] => {
  const options = given.at(-1);
  const [xs, how] = isPlain(options) ? [given.slice(0, -1), options] : [given, {}];
  return gridOf((Array.isArray(xs[0]) ? xs[0] : xs) as readonly Expr[], how);
};
function gridOf(xs: readonly Expr[], { indexing = 'ij' }: GridOptions): Expr[] {
  const bad = tensors('meshgrid', xs).find((x) => x.shape.length > 1);
  if (bad) throw new ShapeError(`meshgrid: takes vectors, got ${bad.aval}`);
  const places = range(xs.length); // the dimension that each vector runs along
  if (indexing === 'xy' && xs.length > 1) places.splice(0, 2, 1, 0);
  const shape = places.map((d) => xs[d]!.aval.size);
  return xs.map((x, i) => broadcastInDim(ravel(x), shape, [places[i]!]));
}

const repeated = (op: string, x: Expr, times: Shape): Expr => {
  checkShape(op, times);
  const shape = [...times.slice(x.shape.length).map(() => 1), ...x.shape];
  const pairs = shape.flatMap((n, d) => [times[d]!, n]);
  const apart = broadcastInDim(
    move.reshape(x, shape),
    pairs,
    shape.map((_, d) => 2 * d + 1),
  );
  return move.reshape(
    apart,
    shape.map((n, d) => n * times[d]!),
  );
};
/** Repeats x the given number of times in each dimension; more numbers than dimensions add leading ones. */
export function repeat(x: Expr, ...times: Sizes): Expr {
  const list = listOf(times);
  if (list.length < x.shape.length)
    throw new ShapeError(`repeat: ${x.aval} needs ${x.shape.length} numbers or more, got ${showShape(list)}: use tile`);
  return repeated('repeat', x, list);
}
/** Like repeat, with 1 for leading dimensions that have no number. */
export function tile(x: Expr, ...times: Sizes): Expr {
  const list = listOf(times);
  return repeated('tile', x, [...x.shape.slice(list.length).map(() => 1), ...list]);
}
/**
 * Repeats each element in a row: a fixed number of times, or by a list of counts. Without dim: flattened. Unlike torch: the host
 * must have the values of a tensor of counts, outside of compiled functions: shapes cannot depend on values.
 */
export function repeatInterleave(
  x: Expr,
  repeats: number | Shape | Expr,
  { dim, outputSize }: { readonly dim?: number; readonly outputSize?: number } = {},
): Expr {
  if (repeats instanceof Expr) throw shapeByValues('repeatInterleave', repeats);
  if (dim === undefined)
    return repeatInterleave(ravel(x), repeats, { dim: 0, ...(outputSize !== undefined && { outputSize }) });
  const y = atLeast(x, 1);
  const d = normalizeDim('repeatInterleave', dim, x.shape.length);
  const n = y.shape[d]!;
  const counts = checkShape('repeatInterleave', [repeats].flat() as number[]);
  if (counts.length !== 1 && counts.length !== n)
    throw new ShapeError(`repeatInterleave: ${counts.length} counts for size ${n} of dim ${dim} in ${x.aval}`);
  const total = counts.length === 1 ? n * counts[0]! : counts.reduce((a, b) => a + b, 0);
  if (outputSize !== undefined && outputSize !== total)
    throw new ShapeError(`repeatInterleave: outputSize is ${outputSize}, but the counts add up to ${total}`);
  if (counts.length === 1) {
    const apart = replaced(y.shape, d, n, counts[0]!);
    const dims = range(apart.length).filter((k) => k !== d + 1);
    return move.reshape(broadcastInDim(y, apart, dims), replaced(y.shape, d, n * counts[0]!));
  }
  const rows = counts.flatMap((count, i) => Array<number>(count).fill(i));
  return takeFixed(y, d, rows);
}

// ---- joined

function tensors(op: string, xs: readonly Expr[]): readonly Expr[] {
  if (Array.isArray(xs) && xs.length) return xs;
  throw new ArgumentError(`${op}: takes a list of at least one tensor: ${op}([a, b])`);
}
const joined =
  (op: string) =>
  (xs: readonly Expr[], dim: Dim = 0): Expr => {
    const dtype = tensors(op, xs)
      .map((x) => x.dtype)
      .reduce(promote);
    const rank = xs.reduce((most, x) => Math.max(most, x.shape.length), 0); // there may be more than a call takes
    if (!rank)
      throw new ShapeError(`${op}: scalars have no dimension to join along: use stack, or unsqueeze(0) them first`);
    const d = dimOf(op, dim, rank);
    // An empty vector joins anything, as in torch: where a list starts empty.
    const like = xs.find((x) => x.shape.length === rank)!.shape.with(d, 0);
    const fitting = xs.map((x) => (x.shape.length === 1 && x.shape[0] === 0 ? move.reshape(x, like) : x));
    return concat(
      fitting.map((x) => move.convert(x, dtype)),
      d,
    );
  };
/** Joins tensors along an existing dimension. */
export const cat = joined('cat');
/** Joins tensors along a new dimension. */
export function stack(xs: readonly Expr[], dim: Dim = 0): Expr {
  const [first] = tensors('stack', xs) as [Expr];
  const odd = xs.find((x) => String(x.shape) !== String(first.shape));
  if (odd) throw new ShapeError(`stack: shapes of ${first.aval} and ${odd.aval} differ: use cat, or pad them first`);
  const at = dimOf('stack', dim, first.shape.length + 1);
  return joined('stack')(
    xs.map((x) => unsqueeze(x, at)),
    at,
  );
}
export const hstack = (xs: readonly Expr[]): Expr => {
  const all = tensors('hstack', xs).map((x) => atLeast(x, 1));
  return joined('hstack')(all, all[0]!.shape.length === 1 ? 0 : 1);
};
export const vstack = (xs: readonly Expr[]): Expr =>
  joined('vstack')(
    tensors('vstack', xs).map((x) => atLeast(x, 2)),
    0,
  );
export const dstack = (xs: readonly Expr[]): Expr =>
  joined('dstack')(
    tensors('dstack', xs).map((x) => atLeast(x, 3)),
    2,
  );
