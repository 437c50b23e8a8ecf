// Reading and writing elements by index. Nothing is changed in place: each function returns a new value.
//
// Indices in a tensor are known only when the program runs, so they cannot be checked as in torch. Indices given as
// numbers are checked. If an element is written several times, the result is undefined, as in torch.
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { highest, lowest } from '../base/literal.js';
import { isFloat, isInteger } from '../base/promote.js';
import { broadcastShapes, normalizeDim, normalizeDims, sameShape } from '../base/shape.js';
import { Expr } from '../ir/expr.js';
import { maskedFill } from './math.js';
import { type Diagonal, diagonal } from './parts.js';
import { isExpr, type Operand } from './prim/align.js';
import { broadcastTo } from './prim/broadcast.js';
import { constants, full, iota, onesLike } from './prim/constant.js';
import { dynamicUpdateSlice } from './prim/dynamic.js';
import { type Combine, gatherAlong, putAt, scatterAlong, takeAt } from './prim/gather.js';
import { convert, flat, permute, reshape } from './prim/move.js';
import { add, div, eq, gt, lt, mul, sub, where } from './prim/pointwise.js';
import { slice } from './prim/slice.js';
import { detach } from './prim/variable.js';
import { vectorNorm } from './reduction.js';
import { type Index, placeAmong, readAt, wrap, write } from './spec.js';

// ---- by a specification: x[1, 2:5, ..., idx]. Unlike torch: boolean masks only for writing (indexPut) or if the host has their
// values, as the number of selected elements depends on values: otherwise read x.index(...(await mask.nonzero({ asTuple: true })));
// an index out of range in a tensor is an error only if the host has its values: otherwise the nearest element is read, and
// writes are dropped.

/**
 * x[...]: a number selects one element and drops the dimension; 'a:b:c' or slice(a, b, c) a range; '...' all remaining
 * dimensions; null inserts one; integer tensors and arrays of numbers are broadcast together and select elements: their
 * dimensions replace the indexed ones if these are adjacent, otherwise they come first.
 */
export const index = (x: Expr, ...spec: Index[]): Expr => readAt('index', x, spec);

/**
 * x with x[spec] replaced by values, which broadcast; with `accumulate` they are added. The spec may have one boolean mask
 * besides numbers and slices: indexPut([mask], 0), indexPut([mask, 1], values).
 */
export const indexPut = (
  x: Expr,
  spec: readonly Index[],
  values: Operand,
  { accumulate = false }: { readonly accumulate?: boolean } = {},
): Expr => write('indexPut', x, spec, values, accumulate ? 'add' : 'set');

// ---- along a dimension. Unlike torch: negative indices are always accepted and count from the end; one out of range is an
// error only if the host has the indices: otherwise the nearest element is read, and writes are dropped.

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

/** Like gather, but the index and x broadcast in the other dimensions. Without dim: flat x by a flat index. */
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

/** x combined with src at the index. The index may be smaller than both and determines the part that is used. */
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
      throw new ShapeError(`${op}: the index ${index.aval} is larger than the source ${src.aval}`);
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
/** y[index[i, j], j] = src[i, j] for dim 0, and so on; src is a tensor, a number or { value }. `reduce` combines values instead. */
export function scatter(
  x: Expr,
  dim: number,
  index: Expr,
  src: Operand | { readonly value: Operand; readonly reduce?: keyof typeof REDUCE },
  options: { readonly reduce?: keyof typeof REDUCE } = {},
): Expr {
  const [values, { reduce }] = isOperand(src) ? [src, options] : [src.value, { ...options, ...src }];
  return scatterWith('scatter', x, dim, index, values, reduce ? REDUCE[reduce] : 'set');
}
const isOperand = (x: Operand | object): x is Operand => typeof x !== 'object' || x instanceof Expr;
export const scatterAdd = (x: Expr, dim: number, index: Expr, src: Expr): Expr =>
  scatterWith('scatterAdd', x, dim, index, src, 'add');

const REDUCTIONS = {
  sum: ['add', () => 0],
  mean: ['add', () => 0],
  prod: ['mul', () => 1],
  amax: ['max', lowest],
  amin: ['min', highest],
} as const;
/** y[index[i, j], j] = the reduction of all src[i, j] with that index, and of x's element unless `includeSelf` is false. */
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

/**
 * x with the rows of source reduced into the rows of x given by the index; x's rows count unless `includeSelf` is false.
 * Unlike torch: negative indices are always accepted and count from the end; one out of range is ignored.
 */
export function indexReduce(
  x: Expr,
  dim: number,
  index: Expr,
  source: Expr,
  reduce: 'prod' | 'mean' | 'amax' | 'amin',
  options: { readonly includeSelf?: boolean } = {},
): Expr {
  const d = normalizeDim('indexReduce', dim, x.shape.length);
  if (index.shape.length > 1)
    throw new ShapeError(`indexReduce: the index must be a vector, got ${index.aval} for ${x.aval}`);
  if (!x.shape.length) return reshape(indexReduce(flat(x), 0, index, flat(source), reduce, options), []);
  if (source.shape.length !== x.shape.length || source.shape[d] !== index.aval.size)
    throw new ShapeError(`indexReduce: the source is ${source.aval}, for ${index.aval} rows of ${x.aval}`);
  const row = source.shape.map((n, k) => (k === d ? n : 1));
  return scatterReduce(x, d, broadcastTo(reshape(index, row), source.shape), source, reduce, options);
}

// ---- whole rows. Unlike torch: negative indices are always accepted and count from the end; one out of range is not an error:
// the nearest row is read, and writes are dropped.

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
  const filled = putRows('indexFill', full(x.shape, false, 'bool'), dim, index, true, 'set');
  return where(filled, convert(value, x.dtype), x); // an index that is named twice counts once in the value's gradient
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
    throw new ArgumentError(`embedding: paddingIdx ${paddingIdx} is out of range for the rows of ${weight.aval}`);
  const at = indexFor('embedding', weight, 0, ids, ids.shape.length);
  const y = takeAt(weight, [0], [at]);
  if (paddingIdx === undefined) return y;
  const isPadding = eq(at, paddingIdx < 0 ? paddingIdx + rows : paddingIdx);
  return where(broadcastTo(reshape(isPadding, [...ids.shape, 1]), y.shape), detach(y), y);
}

/**
 * A new last dimension with 1 at the class and 0 elsewhere, as i64. Unlike torch: numClasses must be given, and the row of a
 * class out of range is all 0 instead of an error.
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

// ---- by masks

/**
 * x with elements of source, in row-major order, where the mask is true. x and mask broadcast. Unlike torch: a source with
 * too few elements is not an error; its last one is repeated.
 */
export function maskedScatter(x: Expr, mask: Expr, source: Expr): Expr {
  if (mask.dtype !== 'bool')
    throw new DTypeError(`maskedScatter: the mask must be bool, got ${mask.aval}: compare first, x.gt(0)`);
  if (source.dtype !== x.dtype)
    throw new DTypeError(
      `maskedScatter: dtypes of ${x.aval} and the source ${source.aval} differ: use to('${x.dtype}')`,
    );
  const shape = broadcastShapes('maskedScatter', x.shape, mask.shape);
  if (!source.aval.size) return broadcastTo(x, shape);
  const held = broadcastTo(mask, shape);
  return where(held, takeAt(flat(source), [0], [placeAmong(held)]), broadcastTo(x, shape));
}

// ---- parts replaced

/** x with one element of a dimension replaced by src, which lacks the dimension. */
export function selectScatter(x: Expr, src: Expr, dim: number, index: number | Expr): Expr {
  const d = normalizeDim('selectScatter', dim, x.shape.length);
  const rest = x.shape.toSpliced(d, 1);
  if (!sameShape(src.shape, rest))
    throw new ShapeError(
      `selectScatter: the source is ${src.aval}, but ${x.aval} without dim ${d} is ${x.aval.withShape(rest)}`,
    );
  return write('selectScatter', x, [...x.shape.slice(0, d).map(() => ':'), index], src, 'set');
}
/** x with the diagonal of two dimensions replaced by src. */
export function diagonalScatter(x: Expr, src: Expr, { offset = 0, dim1 = 0, dim2 = 1 }: Diagonal = {}): Expr {
  const wanted = diagonal(x, { offset, dim1, dim2 });
  if (!sameShape(src.shape, wanted.shape))
    throw new ShapeError(`diagonalScatter: the source is ${src.aval}, but the diagonal is ${wanted.aval}`);
  const [a, b] = normalizeDims('diagonalScatter', [dim1, dim2], x.shape.length) as [number, number];
  const order = [...x.shape.keys()].filter((d) => d !== a && d !== b).concat(a, b);
  const turned = permute(x, order);
  const [rows, columns] = turned.shape.slice(-2) as [number, number];
  const lead = turned.shape.slice(0, -2);
  const places = Array.from(
    { length: wanted.shape.at(-1)! },
    (_, i) => (i + Math.max(0, -offset)) * columns + i + Math.max(0, offset),
  );
  const lines = reshape(turned, [...lead, rows * columns]);
  const put = putAt(lines, [lead.length], [constants(places, 'i64')], convert(src, x.dtype), 'set');
  return permute(
    reshape(put, turned.shape),
    order.map((_, d) => order.indexOf(d)),
  );
}
/**
 * x with the elements whose indices are all equal replaced by one number. `wrap`: in a matrix with more rows than columns, the
 * diagonal begins again after a row without one.
 */
export function fillDiagonal(x: Expr, value: Operand, { wrap = false }: { readonly wrap?: boolean } = {}): Expr {
  const { shape } = x;
  if (shape.length < 2 || (shape.length > 2 && shape.some((n) => n !== shape[0])))
    throw new ShapeError(`fillDiagonal: ${x.aval}: takes a matrix, or more dimensions of one size`);
  const [rows, columns] = shape as [number, number];
  const places = Array.from({ length: wrap ? rows : Math.min(rows, columns) }, (_, i) => i);
  const held = places.map((i) => i % (columns + 1)).flatMap((c, i) => (c < columns ? [[i, c] as const] : []));
  const strides = shape.map((_, d) => shape.slice(d + 1).reduce((a, b) => a * b, 1));
  const all = held.map(([r, c]) => strides.reduce((sum, s, d) => sum + s * (d === 0 ? r : c), 0));
  const on = putAt(
    full([x.aval.size], false, 'bool'),
    [0],
    [constants(all, 'i64')],
    full([all.length], true, 'bool'),
    'set',
  );
  return maskedFill(x, reshape(on, shape), value);
}
/** x with slices along `dim` scaled down to the p-norm maxnorm if theirs is larger. */
export function renorm(x: Expr, p: number, dim: number, maxnorm: number): Expr {
  const d = normalizeDim('renorm', dim, x.shape.length);
  if (x.shape.length < 2) throw new ShapeError(`renorm: takes two dimensions or more, got ${x.aval}`);
  const others = [...x.shape.keys()].filter((k) => k !== d);
  const size = vectorNorm(x, { p, dim: others, keepdim: true });
  return mul(x, where(gt(size, maxnorm), div(maxnorm, add(size, 1e-7)), 1));
}
