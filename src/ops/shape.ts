// Other shapes, orders and types of the same elements. There are no strides: a view is a new value, and XLA decides whether
// anything is copied. Where torch takes several sizes, they are given as one array or one by one.
import { DTYPES, type DType } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { promote } from '../base/promote.js';
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
import type { Expr } from '../ir/expr.js';
import { broadcastTo as broadcast, broadcastInDim } from './prim/broadcast.js';
import { takeFixed } from './prim/gather.js';
import * as move from './prim/move.js';
import { concat, sliceDim } from './prim/slice.js';

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

/**
 * The same numbers in another dtype. Floats become integers towards zero. Unlike torch: takes a dtype only; a float out
 * of range of an integer dtype becomes the nearest there is.
 */
export const to = (x: Expr, dtype: DType | { readonly dtype: DType }): Expr =>
  move.convert(x, typeof dtype === 'string' ? dtype : dtype.dtype);
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
/** Whether elements are not zero. */
export const bool = converter('bool');

/** The same bits as another dtype: torch's view(dtype). The last dimension grows or shrinks where sizes differ. */
export function viewDtype(x: Expr, dtype: DType): Expr {
  const [from, into] = [DTYPES[x.dtype].bytes, DTYPES[dtype].bytes];
  if (x.dtype === dtype) return x;
  if (x.dtype === 'bool' || dtype === 'bool')
    throw new DTypeError(`viewDtype: booleans have no bits of their own to view, got ${x.aval} and ${dtype}: use to()`);
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
/** Unlike torch: the same as reshape, as there are no strides; a value of its own. */
export const view = reshaped('view');
export const reshapeAs = (x: Expr, other: Expr): Expr => reshaped('reshapeAs')(x, other.shape);
export const viewAs = (x: Expr, other: Expr): Expr => reshaped('viewAs')(x, other.shape);
export const ravel = (x: Expr): Expr => move.reshape(x, [x.aval.size]);

/** Dimensions startDim to endDim as one. */
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

/** One dimension as several; one of their sizes may be -1. */
export function unflatten(x: Expr, dim: number, sizes: Shape): Expr {
  const at = normalizeDim('unflatten', dim, x.shape.length);
  if (!x.shape.length) throw new ShapeError(`unflatten: ${x.aval} has no dimension to split`);
  return move.reshape(x, replaced(x.shape, at, ...inferShape('unflatten', sizes, x.shape[at]!)));
}

/** Without the dimensions of size 1: all of them, or those given (others stay as they are). */
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
export const atleast1d = (x: Expr): Expr => atLeast(x, 1);
export const atleast2d = (x: Expr): Expr => atLeast(x, 2);
export const atleast3d = (x: Expr): Expr => atLeast(x, 3);

/** The same value, for a gradient of its own. */
export const clone = (x: Expr): Expr => x;
/** The same value: there are no strides. */
export const contiguous = (x: Expr): Expr => x;

// ---- order

export function permute(x: Expr, ...dims: Sizes): Expr {
  const rank = x.shape.length;
  const perm = normalizeDims('permute', listOf(dims), rank);
  if (perm.length !== rank)
    throw new ShapeError(`permute: ${x.aval} has ${rank} dimensions, got ${showShape(listOf(dims))}: name each once`);
  return move.permute(x, perm);
}
/** Two dimensions change places. */
export function transpose(x: Expr, dim0: number, dim1: number): Expr {
  const [a, b] = [normalizeDim('transpose', dim0, x.shape.length), normalizeDim('transpose', dim1, x.shape.length)];
  return move.permute(
    x,
    range(x.shape.length).map((d) => (d === a ? b : d === b ? a : d)),
  );
}
/** Rows become columns: of a matrix; vectors and scalars stay. */
export function t(x: Expr): Expr {
  if (x.shape.length > 2)
    throw new ShapeError(`t: takes at most 2 dimensions, got ${x.aval}: use mT or transpose(dim0, dim1)`);
  return x.shape.length < 2 ? x : move.permute(x, [1, 0]);
}
/** Every matrix of a batch transposed: x.mT and x.mH, as there are no complex numbers. */
export function adjoint(x: Expr): Expr {
  if (x.shape.length < 2) throw new ShapeError(`adjoint, mT and mH: take 2 dimensions or more, got ${x.aval}`);
  return transpose(x, -2, -1);
}
/** Dimensions go to other places; the others keep their order. */
export function movedim(x: Expr, source: number | Shape, destination: number | Shape): Expr {
  const rank = x.shape.length;
  const [from, into] = [normalizeDims('movedim', source, rank), normalizeDims('movedim', destination, rank)];
  if (from.length !== into.length)
    throw new ShapeError(`movedim: ${from.length} dimensions cannot go to ${into.length} places`);
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
/** Turned k times by 90 degrees, from the first of two dimensions towards the second. */
export function rot90(x: Expr, { k = 1, dims = [0, 1] }: { readonly k?: number; readonly dims?: Shape } = {}): Expr {
  const plane = normalizeDims('rot90', dims, x.shape.length);
  if (plane.length !== 2 || !Number.isInteger(k))
    throw new ShapeError(`rot90: takes a whole number of turns and two dimensions, got ${k} and ${showShape(dims)}`);
  const [a, b] = plane as [number, number];
  const turns = ((k % 4) + 4) % 4;
  if (turns === 2) return move.reverse(x, plane);
  return turns === 1 ? transpose(flip(x, b), a, b) : turns === 3 ? flip(transpose(x, a, b), b) : x;
}
/** Elements shifted along dimensions; those that leave at one end come back at the other. Without dims: of the flat array. */
export function roll(x: Expr, shifts: number | Shape, dims?: number | Shape): Expr {
  if (dims === undefined) {
    if (typeof shifts !== 'number') throw new ArgumentError(`roll: ${shifts.length} shifts need as many dims`);
    return move.reshape(roll(ravel(x), shifts, 0), x.shape);
  }
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
/** Coordinates of a grid, one array for each of some vectors. 'xy' swaps the first two dimensions, for pictures. */
export function meshgrid(xs: readonly Expr[], { indexing = 'ij' }: { readonly indexing?: 'ij' | 'xy' } = {}): Expr[] {
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
/** Copies side by side: as many in each dimension as its number says; more numbers than dimensions add leading ones. */
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
 * Each element several times in a row: the same number of times, or as often as its number says. Without dim: flat.
 * Unlike torch: counts are numbers, not a tensor, as shapes cannot depend on values.
 */
export function repeatInterleave(x: Expr, repeats: number | Shape, { dim }: { readonly dim?: number } = {}): Expr {
  if (dim === undefined) return repeatInterleave(ravel(x), repeats, { dim: 0 });
  const y = atLeast(x, 1);
  const d = normalizeDim('repeatInterleave', dim, x.shape.length);
  const n = y.shape[d]!;
  const counts = checkShape('repeatInterleave', [repeats].flat() as number[]);
  if (counts.length !== 1 && counts.length !== n)
    throw new ShapeError(`repeatInterleave: ${counts.length} counts for size ${n} of dim ${dim} in ${x.aval}`);
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
  throw new ArgumentError(`${op}: takes a list of one tensor or more: ${op}([a, b])`);
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
/** One after the other, along a dimension they have. */
export const cat = joined('cat');
/** Side by side, along a new dimension. */
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
  const all = tensors('hstack', xs).map(atleast1d);
  return joined('hstack')(all, all[0]!.shape.length === 1 ? 0 : 1);
};
export const vstack = (xs: readonly Expr[]): Expr => joined('vstack')(tensors('vstack', xs).map(atleast2d), 0);
export const dstack = (xs: readonly Expr[]): Expr => joined('dstack')(tensors('dstack', xs).map(atleast3d), 2);
