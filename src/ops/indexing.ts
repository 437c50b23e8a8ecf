// Elements by their indices, and written at them; nothing is changed in its place: each returns a new value.
//
// Indices in a tensor are known only when the program runs, so they cannot be checked as torch does. Indices given as
// numbers are checked. Several writes to one element: which one wins is not defined, as in torch.
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { highest, lowest } from '../base/literal.js';
import { isFloat, isInteger } from '../base/promote.js';
import { normalizeDim, range, sameShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { isExpr, type Operand } from './prim/align.js';
import { broadcastTo } from './prim/broadcast.js';
import { full, iota, onesLike } from './prim/constant.js';
import { dynamicUpdateSlice } from './prim/dynamic.js';
import { type Combine, gatherAlong, putAt, scatterAlong, takeAt } from './prim/gather.js';
import { convert, flat, reshape } from './prim/move.js';
import { div, eq, lt, mul, sub, where } from './prim/pointwise.js';
import { concat, padDim, slice } from './prim/slice.js';
import { detach } from './prim/variable.js';
import { sort } from './sorting.js';
import { type Index, maskError, read, wrap, write } from './spec.js';

// ---- by a specification: x[1, 2:5, ..., idx]. Unlike torch: no boolean masks; an index out of range in a tensor
// is no error: the nearest element is read, and what would be written there is left out.

/**
 * x[...]: numbers take one element and drop the dimension; 'a:b:c' or slice(a, b, c) a range; '...' as many whole
 * dimensions as fit; null a new one; integer tensors and arrays of numbers pick elements, broadcast together: their
 * dimensions take the place of those indexed if these are neighbours, else they come first.
 */
export const index = (x: Expr, ...spec: Index[]): Expr => read('index', x, spec);

/** x with x[spec] replaced by values, which broadcast; or added to, with `accumulate`. */
export const indexPut = (
  x: Expr,
  spec: readonly Index[],
  values: Operand,
  { accumulate = false }: { readonly accumulate?: boolean } = {},
): Expr => write('indexPut', x, spec, values, accumulate ? 'add' : 'set');

// ---- along a dimension. Unlike torch: negative indices are always taken, from the end; one out of range is no
// error: the nearest element is read, and what would be written there is left out.

/** The index along a dimension, checked against x, with negative numbers counted from the end. */
function indexFor(op: string, x: Expr, dim: number, index: Expr, rank = x.shape.length): Expr {
  if (!isInteger(index.dtype))
    throw new DTypeError(`${op}: the index must be integers, got ${index.aval} for ${x.aval}: use long()`);
  if (index.shape.length !== rank && x.shape.length)
    throw new ShapeError(
      `${op}: ${x.aval} takes an index with ${rank} dimension${rank === 1 ? '' : 's'}, got ${index.aval}`,
    );
  const size = x.shape[dim] ?? 1;
  if (!size && index.aval.size) throw new ShapeError(`${op}: dim ${dim} of ${x.aval} has no elements to index`);
  return wrap(index, size);
}
function checkSmaller(op: string, x: Expr, dim: number, index: Expr): void {
  if (x.shape.some((n, d) => d !== dim && index.shape[d]! > n))
    throw new ShapeError(`${op}: the index ${index.aval} is larger than ${x.aval} in another dimension than ${dim}`);
}

/** y[i, j] = x[index[i, j], j] for dim 0, and so on. */
export function gather(x: Expr, dim: number, index: Expr): Expr {
  const d = normalizeDim('gather', dim, x.shape.length);
  if (!index.aval.size) return reshape(slice(flat(x), [0], [0]), index.shape); // nothing, but of x
  const at = indexFor('gather', x, d, index);
  checkSmaller('gather', x, d, index);
  return x.shape.length ? gatherAlong(x, at, d) : reshape(gatherAlong(flat(x), flat(at), 0), index.shape);
}

/** Like gather, where the index and x broadcast in the other dimensions; without dim: of flat x, by a flat index. */
export function takeAlongDim(x: Expr, indices: Expr, dim?: number | { readonly dim?: number }): Expr {
  const at = typeof dim === 'object' ? dim.dim : dim;
  if (at === undefined) return gather(flat(x), 0, flat(indices));
  const d = normalizeDim('takeAlongDim', at, x.shape.length);
  if (!x.shape.length) throw new ShapeError(`takeAlongDim: ${x.aval} has no dimensions`);
  if (indices.shape.length !== x.shape.length)
    throw new ShapeError(`takeAlongDim: ${x.aval} and ${indices.aval} have different numbers of dimensions`);
  const shape = x.shape.map((n, k) => (n === 1 ? indices.shape[k]! : n));
  const bad = shape.findIndex((n, k) => k !== d && indices.shape[k] !== n && indices.shape[k] !== 1);
  if (bad >= 0) throw new ShapeError(`takeAlongDim: ${x.aval} and ${indices.aval} do not broadcast at dim ${bad}`);
  return gather(broadcastTo(x, shape.with(d, x.shape[d]!)), d, broadcastTo(indices, shape.with(d, indices.shape[d]!)));
}

/** x combined with src at the index: the index may be smaller than either, and says which part of them takes part. */
function scatterWith(op: string, x: Expr, dim: number, index: Expr, src: Operand, combine: Combine): Expr {
  const d = normalizeDim(op, dim, x.shape.length);
  if (!x.shape.length)
    return reshape(scatterWith(op, flat(x), 0, flat(index), isExpr(src) ? flat(src) : src, combine), []);
  const at = indexFor(op, x, d, index);
  checkSmaller(op, x, d, index);
  if (isExpr(src)) {
    if (src.dtype !== x.dtype)
      throw new DTypeError(`${op}: dtypes of ${x.aval} and the source ${src.aval} differ: use to('${x.dtype}')`);
    if (src.shape.length !== x.shape.length || index.shape.some((n, k) => n > src.shape[k]!))
      throw new ShapeError(`${op}: the index ${index.aval} does not fit into the source ${src.aval}`);
  }
  const zeros = index.shape.map(() => 0);
  const updates = isExpr(src) ? slice(src, zeros, index.shape) : full(index.shape, src, x.dtype);
  const part = slice(x, zeros, index.shape.with(d, x.shape[d]!));
  const done = scatterAlong(part, at, updates, d, combine);
  if (sameShape(part.shape, x.shape)) return done;
  return dynamicUpdateSlice(
    x,
    done,
    zeros.map(() => full([], 0, 'i32')),
  );
}

const REDUCE = { add: 'add', multiply: 'mul' } as const;
/** y[index[i, j], j] = src[i, j] for dim 0, and so on; src is a tensor or a number; `reduce`: combined instead. */
export function scatter(
  x: Expr,
  dim: number,
  index: Expr,
  src: Operand,
  { reduce }: { readonly reduce?: keyof typeof REDUCE } = {},
): Expr {
  return scatterWith('scatter', x, dim, index, src, reduce ? REDUCE[reduce] : 'set');
}
export const scatterAdd = (x: Expr, dim: number, index: Expr, src: Expr): Expr =>
  scatterWith('scatterAdd', x, dim, index, src, 'add');

const REDUCTIONS = {
  sum: ['add', () => 0],
  mean: ['add', () => 0],
  prod: ['mul', () => 1],
  amax: ['max', lowest],
  amin: ['min', highest],
} as const;
/** y[index[i, j], j] = the reduction of all src[i, j] that go there; with x's own element, unless `includeSelf` is false. */
export function scatterReduce(
  x: Expr,
  dim: number,
  index: Expr,
  src: Expr,
  reduce: keyof typeof REDUCTIONS,
  { includeSelf = true }: { readonly includeSelf?: boolean } = {},
): Expr {
  const op = 'scatterReduce';
  const [combine, identity] = REDUCTIONS[reduce];
  const start = includeSelf ? x : scatterWith(op, x, dim, index, identity(x.dtype), 'set');
  const total = scatterWith(op, start, dim, index, src, combine);
  if (reduce !== 'mean') return total;
  const ones = includeSelf ? onesLike(x) : scatterWith(op, onesLike(x), dim, index, 0, 'set');
  const count = scatterWith(op, ones, dim, index, onesLike(src), 'add');
  return isFloat(x.dtype) ? div(total, count) : floorDiv(total, count);
}
/** Rounded down, as torch does; the divisor is positive. */
function floorDiv(a: Expr, n: Expr): Expr {
  const exact = div(convert(a, 'f64'), convert(n, 'f64'));
  const near = convert(exact, a.dtype);
  return sub(near, convert(lt(a, mul(near, n)), a.dtype)); // the conversion goes towards zero
}

// ---- whole rows. Unlike torch: negative indices are always taken, from the end; one out of range is no error: the
// nearest row is read, and what would be written there is left out.

const rowsFor = (op: string, x: Expr, dim: number, index: Expr): [d: number, at: Expr] => {
  const d = normalizeDim(op, dim, x.shape.length);
  if (index.shape.length > 1)
    throw new ShapeError(`${op}: the index must be a vector, got ${index.aval} for ${x.aval}`);
  return [d, indexFor(op, x, d, flat(index), 1)];
};
/** y[:, i] = x[:, index[i]] for dim 1, and so on. */
export function indexSelect(x: Expr, dim: number, index: Expr): Expr {
  const [d, at] = rowsFor('indexSelect', x, dim, index);
  if (!x.shape.length) return x;
  return takeAt(x, [d], [at]);
}
function putRows(op: string, x: Expr, dim: number, index: Expr, source: Operand, combine: Combine): Expr {
  const [d, at] = rowsFor(op, x, dim, index);
  const shape = x.shape.length ? x.shape.with(d, at.aval.size) : [];
  if (isExpr(source)) {
    if (source.dtype !== x.dtype)
      throw new DTypeError(`${op}: dtypes of ${x.aval} and the source ${source.aval} differ: use to('${x.dtype}')`);
    if (!sameShape(source.shape, shape) && !(source.aval.size === 1 && at.aval.size === 1 && x.aval.size === 1))
      throw new ShapeError(
        `${op}: the source is ${source.aval}, ${x.aval} at ${index.aval} takes ${x.aval.withShape(shape)}`,
      );
  }
  const y = x.shape.length ? x : flat(x);
  const values = isExpr(source)
    ? reshape(source, shape.length ? shape : [1])
    : full(shape.length ? shape : [1], source, x.dtype);
  return reshape(putAt(y, [d], [at], values, combine), x.shape);
}
/** x with alpha times source[:, i] added to x[:, index[i]] for dim 1, and so on. */
export const indexAdd = (
  x: Expr,
  dim: number,
  index: Expr,
  source: Expr,
  { alpha = 1 }: { readonly alpha?: number } = {},
): Expr => putRows('indexAdd', x, dim, index, alpha === 1 ? source : convert(mul(source, alpha), source.dtype), 'add');
export const indexCopy = (x: Expr, dim: number, index: Expr, source: Expr): Expr =>
  putRows('indexCopy', x, dim, index, source, 'set');
/** x with x[:, index[i]] filled with one value, for dim 1. */
export function indexFill(x: Expr, dim: number, index: Expr, value: Operand): Expr {
  if (!isExpr(value)) return putRows('indexFill', x, dim, index, value, 'set');
  if (value.shape.length) throw new ShapeError(`indexFill: the value must be a scalar, got ${value.aval}`);
  const d = normalizeDim('indexFill', dim, x.shape.length);
  const shape = x.shape.length ? x.shape.with(d, index.aval.size) : [];
  return putRows('indexFill', x, dim, index, broadcastTo(convert(value, x.dtype), shape), 'set');
}

/** Elements of flat x. */
export function take(x: Expr, index: Expr): Expr {
  const at = indexFor('take', flat(x), 0, flat(index));
  return takeAt(flat(x), [0], [reshape(at, index.shape)]);
}
/** x with elements of flat x replaced by those of source, or added to. */
export const put = (
  x: Expr,
  index: Expr,
  source: Expr,
  { accumulate = false }: { readonly accumulate?: boolean } = {},
): Expr => reshape(putRows('put', flat(x), 0, flat(index), flat(source), accumulate ? 'add' : 'set'), x.shape);

/** The row of `weight` for each id. No gradient reaches the row `paddingIdx`. */
export function embedding(ids: Expr, weight: Expr, { paddingIdx }: { readonly paddingIdx?: number } = {}): Expr {
  if (isInteger(weight.dtype) && isFloat(ids.dtype))
    throw new DTypeError(`embedding: ids ${ids.aval} and weight ${weight.aval}: swap them: embedding(ids, weight)`);
  if (weight.shape.length !== 2)
    throw new ShapeError(`embedding: the weight must be [rows, features], got ${weight.aval} for ids ${ids.aval}`);
  const [rows] = weight.shape as [number, number];
  if (paddingIdx !== undefined && (!Number.isInteger(paddingIdx) || paddingIdx < -rows || paddingIdx >= rows))
    throw new ArgumentError(`embedding: paddingIdx ${paddingIdx} is no row of ${weight.aval}`);
  const at = indexFor('embedding', weight, 0, ids, ids.shape.length);
  const y = takeAt(weight, [0], [at]);
  if (paddingIdx === undefined) return y;
  const isPadding = eq(at, paddingIdx < 0 ? paddingIdx + rows : paddingIdx);
  return where(broadcastTo(reshape(isPadding, [...ids.shape, 1]), y.shape), detach(y), y);
}

/**
 * A new last dimension with 1 at the class and 0 elsewhere, as i64. Unlike torch: numClasses must be given, and a class
 * out of range is no error: it has no 1.
 */
export function oneHot(x: Expr, { numClasses }: { readonly numClasses: number }): Expr {
  if (!isInteger(x.dtype)) throw new DTypeError(`oneHot: takes integers, got ${x.aval}: use long()`);
  if (!Number.isInteger(numClasses) || numClasses < 1)
    throw new ArgumentError(
      `oneHot: numClasses must be given, as a whole number (got ${numClasses}): shapes cannot depend on the values in ${x.aval}`,
    );
  const shape = [...x.shape, numClasses];
  const classes = broadcastTo(reshape(convert(x, 'i64'), [...x.shape, 1]), shape);
  return convert(eq(classes, iota(shape, x.shape.length, 'i64')), 'i64');
}

// ---- what depends on values. Unlike torch: shapes cannot depend on values. It takes { size, fill }: as many rows, the
// first in row-major order; if there are fewer, the rest is `fill` (torch.nonzero_static).

/** The indices of elements that are not zero, [size, rank]. */
export function nonzero(x: Expr, { size, fill = -1 }: { readonly size?: number; readonly fill?: number } = {}): Expr {
  if (size === undefined)
    throw new ArgumentError(
      `nonzero: how many elements of ${x.aval} are not zero depends on its values, and shapes cannot: pass the most there can be, nonzero({ size: n }), or use where(mask, a, b)`,
    );
  if (!Number.isInteger(size) || size < 0) throw new ArgumentError(`nonzero: size must be a whole number, got ${size}`);
  const n = x.aval.size;
  const rank = x.shape.length;
  if (!rank) return full([size, 0], 0, 'i64');
  if (!n || !size) return full([size, rank], fill, 'i64');
  const places = where(eq(flat(x), full([n], 0, x.dtype)), n, iota([n], 0, 'i64')); // n: nowhere
  const taken = Math.min(size, n);
  const first = slice(sort(places, { stable: false }).values, [0], [taken]);
  const columns = range(rank).map((d) => {
    const column = takeAt(flat(iota(x.shape, d, 'i64')), [0], [first]);
    return reshape(column, [taken, 1]);
  });
  return padDim(where(reshape(lt(first, n), [taken, 1]), concat(columns, 1), fill), 0, 0, size - taken, fill);
}

/** The same as nonzero. */
export const argwhere = nonzero;

/** Unlike torch: an error that shows what to write instead, as shapes cannot depend on values. */
export function maskedSelect(x: Expr, mask: Expr): Expr {
  throw maskError('maskedSelect', x, mask);
}
/** Unlike torch: an error that shows what to write instead, as which element goes where depends on values. */
export function maskedScatter(x: Expr, mask: Expr, _source: Expr): Expr {
  throw maskError('maskedScatter', x, mask);
}
