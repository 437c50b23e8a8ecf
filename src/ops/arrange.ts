// Building arrays from others and splitting them: blocks, stacks, products, strided views.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { isFloat, promote } from '../base/promote.js';
import { checkShape, normalizeDim, range, type Shape, showShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { diagEmbed, tensorSplit } from './parts.js';
import { broadcastTo, reduceSum } from './prim/broadcast.js';
import { constants, full } from './prim/constant.js';
import { putAt, takeFixed } from './prim/gather.js';
import { convert, reshape } from './prim/move.js';
import { floorDivide, remainder } from './prim/pointwise.js';
import { concat, padDim, sliceDim } from './prim/slice.js';
import { hstack, meshgrid, ravel, stack } from './shape.js';

// ---- together

/** A matrix with these arrays along its diagonal, zeros elsewhere. Scalars and vectors are rows. */
export function blockDiag(...xs: Expr[]): Expr {
  if (!xs.length) throw new ArgumentError('blockDiag: takes at least one tensor');
  const bad = xs.find((x) => x.shape.length > 2);
  if (bad) throw new ShapeError(`blockDiag: takes matrices, vectors and scalars, got ${bad.aval}`);
  const dtype = xs.map((x) => x.dtype).reduce(promote);
  const blocks = xs.map((x) => convert(reshape(x, [x.shape.at(-2) ?? 1, x.shape.at(-1) ?? 1]), dtype));
  const width = blocks.reduce((sum, b) => sum + b.shape[1]!, 0);
  let left = 0;
  const rows = blocks.map((b) => {
    const row = padDim(b, 1, left, width - left - b.shape[1]!);
    left += b.shape[1]!;
    return row;
  });
  return concat(rows, 0);
}

/** All combinations of one element from each vector, as rows. */
export function cartesianProd(...xs: Expr[]): Expr {
  const bad = xs.find((x) => x.shape.length !== 1);
  if (!xs.length || bad) throw new ShapeError(`cartesianProd: takes vectors, got ${bad ? bad.aval : 'none'}`);
  return xs.length === 1 ? xs[0]! : stack(meshgrid(xs).map(ravel), 1);
}

/** The combinations of r elements of a vector, as rows, in the order of itertools.combinations. */
export function combinations(
  x: Expr,
  { r = 2, withReplacement = false }: { readonly r?: number; readonly withReplacement?: boolean } = {},
): Expr {
  if (x.shape.length !== 1) throw new ShapeError(`combinations: takes a vector, got ${x.aval}`);
  if (!Number.isInteger(r) || r < 0)
    throw new ArgumentError(`combinations: r must be a whole number and not negative, got ${r}`);
  if (!r) return full([0], 0, x.dtype);
  let rows: number[][] = [[]];
  for (let i = 0; i < r; i++)
    rows = rows.flatMap((row) => {
      const from = row.length ? row.at(-1)! + Number(!withReplacement) : 0;
      return range(Math.max(0, x.shape[0]! - from)).map((k) => [...row, from + k]);
    });
  return reshape(rows.length ? takeFixed(x, 0, rows.flat()) : sliceDim(x, 0, 0, 0), [rows.length, r]);
}

/** Side by side as columns; vectors and scalars are columns. */
export const columnStack = (xs: readonly Expr[]): Expr =>
  hstack(Array.isArray(xs) ? xs.map((x: Expr) => (x.shape.length < 2 ? reshape(x, [x.aval.size, 1]) : x)) : xs);

/** A matrix with all elements on a diagonal. */
export const diagflat = (x: Expr, { offset = 0 }: { readonly offset?: number } = {}): Expr =>
  diagEmbed(ravel(x), { offset });

// ---- apart

const splitting = (op: string, least: number, dimOf: (rank: number) => number) => {
  return (x: Expr, sections: number | Shape): Expr[] => {
    if (x.shape.length < least)
      throw new ShapeError(`${op}: takes ${least} dimension${least > 1 ? 's' : ''} or more, got ${x.aval}`);
    const dim = dimOf(x.shape.length);
    if (typeof sections === 'number' && !(sections > 0 && x.shape[dim]! % sections === 0))
      throw new ShapeError(`${op}: dim ${dim} of ${x.aval} does not split into ${sections} equal parts`);
    return tensorSplit(x, sections, dim);
  };
};
/** Along columns (a vector: along its elements), into equal parts or before the given indices. */
export const hsplit = splitting('hsplit', 1, (rank) => (rank === 1 ? 0 : 1));
export const vsplit = splitting('vsplit', 2, () => 0);
export const dsplit = splitting('dsplit', 3, () => 2);

/** The sum over what broadcasting from these sizes to x's shape would repeat. */
export function sumToSize(x: Expr, ...sizes: number[] | [Shape]): Expr {
  const shape = checkShape('sumToSize', (typeof sizes[0] === 'number' ? sizes : (sizes[0] ?? [])) as Shape);
  const lead = x.shape.length - shape.length;
  if (lead < 0 || shape.some((n, d) => n !== 1 && n !== x.shape[d + lead]))
    throw new ShapeError(`sumToSize: ${showShape(shape)} does not broadcast to ${x.aval}`);
  const dims = range(x.shape.length).filter((d) => d < lead || (shape[d - lead] === 1 && x.shape[d] !== 1));
  const sums = dims.length || !shape.length; // then it is a sum, whose integers are i64
  const wide = sums && !isFloat(x.dtype) ? convert(x, 'i64') : x;
  return reshape(dims.length ? reduceSum(wide, dims) : wide, shape);
}

/** Coordinates, one array for each dimension of a shape, of elements counted in row-major order. */
export function unravelIndex(indices: Expr, shape: number | Shape): Expr[] {
  if (isFloat(indices.dtype) || indices.dtype === 'bool')
    throw new ArgumentError(`unravelIndex: indices must be integers, got ${indices.aval}`);
  const sizes = checkShape('unravelIndex', [shape].flat() as number[]);
  let rest = indices;
  return sizes
    .toReversed()
    .map((n) => {
      const [at, above] = [remainder(rest, n), floorDivide(rest, n)];
      rest = above;
      return at;
    })
    .reverse();
}

// ---- by strides. There are none here: they say which elements of x, flat in row-major order, the result has.

function strided(op: string, x: Expr, size: Shape, stride: Shape, offset: number): number[] {
  checkShape(op, size);
  if (size.length !== stride.length)
    throw new ShapeError(
      `${op}: ${size.length} sizes ${showShape(size)} and ${stride.length} strides ${showShape(stride)}`,
    );
  if (!stride.every((n) => Number.isInteger(n) && n >= 0) || !Number.isInteger(offset) || offset < 0)
    throw new ArgumentError(`${op}: strides ${showShape(stride)} and offset ${offset} must be whole and not negative`);
  let places = [offset];
  for (const [d, n] of size.entries()) places = places.flatMap((at) => range(n).map((i) => at + i * stride[d]!));
  const most = places.reduce((a, b) => Math.max(a, b), -1);
  if (most >= x.aval.size)
    throw new ShapeError(
      `${op}: sizes ${showShape(size)} with strides ${showShape(stride)} from ${offset} reach element ${most} of ${x.aval}, which has ${x.aval.size}`,
    );
  return places;
}
/**
 * The elements of x at offset + i0 * stride[0] + i1 * stride[1] + ... Unlike torch: offsets are always into the row-major
 * elements of x, even if x was made as a view.
 */
export function asStrided(x: Expr, size: Shape, stride: Shape, storageOffset = 0): Expr {
  const places = strided('asStrided', x, size, stride, storageOffset);
  return reshape(places.length ? takeFixed(ravel(x), 0, places) : full([0], 0, x.dtype), size);
}
/** x with `src` at those places. */
export function asStridedScatter(x: Expr, src: Expr, size: Shape, stride: Shape, storageOffset = 0): Expr {
  const places = strided('asStridedScatter', x, size, stride, storageOffset);
  if (String(src.shape) !== String(size))
    throw new ShapeError(`asStridedScatter: the source is ${src.aval}: its shape must be ${showShape(size)}`);
  if (!places.length) return x;
  const flat = putAt(ravel(x), [0], [constants(places, 'i32')], convert(ravel(src), x.dtype), 'set');
  return reshape(flat, x.shape);
}
/** x with `src` in place of the elements start to end of a dimension, `step` apart. */
export function sliceScatter(
  x: Expr,
  src: Expr,
  {
    dim = 0,
    start = 0,
    end,
    step = 1,
  }: { readonly dim?: number; readonly start?: number; readonly end?: number; readonly step?: number } = {},
): Expr {
  const d = normalizeDim('sliceScatter', dim, x.shape.length);
  const n = x.shape[d];
  if (n === undefined) throw new ShapeError(`sliceScatter: ${x.aval} has no dimensions`);
  if (!Number.isInteger(step) || step < 1)
    throw new ArgumentError(`sliceScatter: the step must be whole and positive, got ${step}`);
  const bound = (i: number) => Math.min(n, Math.max(0, i < 0 ? i + n : i));
  const [from, to] = [bound(start), bound(end ?? n)];
  const places = range(Math.max(0, Math.ceil((to - from) / step))).map((i) => from + i * step);
  const part = x.shape.with(d, places.length);
  if (String(src.shape) !== String(part))
    throw new ShapeError(`sliceScatter: ${src.aval} does not fit the slice ${showShape(part)} of ${x.aval}`);
  if (!src.aval.size) return x;
  return putAt(x, [d], [constants(places, 'i32')], convert(src, x.dtype), 'set');
}

/** A tensor filled with one value, in the shape and dtype of x. */
export const fill = (x: Expr, value: number | bigint | boolean | Expr): Expr => {
  if (typeof value !== 'object') return full(x.shape, value, x.dtype);
  if (value.shape.length) throw new ShapeError(`fill: the value must be one number, got ${value.aval}`);
  return broadcastTo(convert(value, x.dtype), x.shape);
};
