// Results whose size would depend on values, in arrays of a size that is given: the first in order, then a filling. The
// public functions, which also read and need no size then, are in tensor/selection.ts.
import { checkWhole } from '../base/check.js';
import { DTypeError, ShapeError } from '../base/errors.js';
import { isInteger } from '../base/promote.js';
import { broadcastShapes, normalizeDim, range, sameShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { broadcastInDim, broadcastTo } from './prim/broadcast.js';
import { full, iota, onesLike } from './prim/constant.js';
import { scatterAlong, takeAt } from './prim/gather.js';
import { convert, flat, permute, reshape } from './prim/move.js';
import { eq, ge, lt, ne, sub, where } from './prim/pointwise.js';
import { reduceOr } from './prim/reduce.js';
import { runningSum } from './prim/scanning.js';
import { concat, padDim, slice, sliceDim } from './prim/slice.js';
import { detach } from './prim/variable.js';
import { argsort, sort } from './sorting.js';

/** The flat places of elements that are not zero, in order; `n`, how many there are, stands for none. */
function placesOf(x: Expr, size: number): Expr {
  const n = x.aval.size;
  const places = where(eq(flat(x), full([n], 0, x.dtype)), n, iota([n], 0, 'i64'));
  const taken = Math.min(size, n);
  const first = slice(sort(places, { stable: false }).values, [0], [taken]);
  return padDim(first, 0, 0, size - taken, n);
}

export interface NonzeroSize {
  readonly size: number;
  readonly fill?: number | undefined;
}
/** The indices of elements that are not zero, [size, rank]. */
export function nonzero(op: string, x: Expr, { size, fill = -1 }: NonzeroSize): Expr {
  checkWhole(`${op}: size`, size);
  const [n, rank] = [x.aval.size, x.shape.length];
  if (!rank) return full([size, 0], 0, 'i64');
  if (!n || !size) return full([size, rank], fill, 'i64');
  const first = placesOf(x, size);
  const columns = range(rank).map((d) => reshape(takeAt(flat(iota(x.shape, d, 'i64')), [0], [first]), [size, 1]));
  return where(reshape(lt(first, n), [size, 1]), concat(columns, 1), fill);
}

export function checkMask(op: string, mask: Expr): void {
  if (mask.dtype !== 'bool')
    throw new DTypeError(`${op}: the mask is ${mask.aval}, not booleans: compare first, x.gt(0)`);
}
/** The elements where the mask holds, after broadcasting. */
export function maskedSelect(x: Expr, mask: Expr, { size, fill = 0 }: NonzeroSize): Expr {
  checkWhole('maskedSelect: size', size);
  checkMask('maskedSelect', mask);
  const shape = broadcastShapes('maskedSelect', x.shape, mask.shape);
  const [y, held] = [flat(broadcastTo(x, shape)), broadcastTo(mask, shape)];
  if (!held.aval.size || !size) return full([size], fill, x.dtype);
  const places = placesOf(held, size);
  return where(lt(places, held.aval.size), takeAt(y, [0], [places]), full([], fill, x.dtype));
}

export interface UniqueSize {
  readonly size: number;
  readonly fill?: number | undefined;
  readonly dim?: number | undefined;
}
export interface Unique {
  readonly values: Expr;
  /** For each element, or row, the place of its value. */
  readonly inverse: Expr;
  readonly counts: Expr;
}
/** Different values, or rows along a dimension: sorted, or those of neighbours that differ. */
export function unique(op: string, x: Expr, { size, fill = 0, dim }: UniqueSize, sorted: boolean): Unique {
  checkWhole(`${op}: size`, size);
  const whole = detach(x);
  const d = dim === undefined ? 0 : normalizeDim(op, dim, x.shape.length);
  const given = dim === undefined ? flat(whole) : whole;
  const front = [d, ...range(given.shape.length).filter((k) => k !== d)];
  const turned = permute(given, front);
  const [n = 0, ...rest] = turned.shape;
  const width = rest.reduce((a, b) => a * b, 1);
  const rows = reshape(turned, [n, width]);
  const back = (y: Expr) =>
    permute(
      reshape(y, [size, ...rest]),
      front.map((_, k) => front.indexOf(k)),
    );
  const shape = dim === undefined ? x.shape : [n];
  if (!n)
    return {
      values: back(full([size, width], fill, x.dtype)),
      inverse: full(shape, 0, 'i64'),
      counts: full([size], 0, 'i64'),
    };
  // Rows by their last column first: equal ones keep the order of the columns behind.
  const order = sorted
    ? range(width).reduceRight<Expr>(
        (at, c) => takeAt(at, [0], [argsort(reshape(takeAt(sliceDim(rows, 1, c, c + 1), [0], [at]), [n]))]),
        iota([n], 0, 'i64'),
      )
    : iota([n], 0, 'i64');
  const ordered = takeAt(rows, [0], [order]);
  const differs = reduceOr(ne(slice(ordered, [1, 0], [n, width]), slice(ordered, [0, 0], [n - 1, width])), [1]);
  const isNew = concat([full([1], true, 'bool'), differs], 0);
  const rank = sub(runningSum(convert(isNew, 'i64'), 0), 1);
  // A scatter drops what is beyond its end.
  const first = scatterAlong(full([size], 0, 'i64'), where(isNew, rank, size), iota([n], 0, 'i64'), 0, 'add');
  const room = lt(iota([size], 0, 'i64'), sub(broadcastTo(slice(rank, [n - 1], [n]), [size]), -1));
  const values = size ? takeAt(ordered, [0], [first]) : full([0, width], 0, x.dtype);
  return {
    values: back(where(broadcastInDim(room, [size, width], [0]), values, full([], fill, x.dtype))),
    inverse: reshape(scatterAlong(full([n], 0, 'i64'), order, rank, 0, 'set', 'unique'), shape),
    counts: scatterAlong(full([size], 0, 'i64'), rank, onesLike(rank), 0, 'add'),
  };
}

/** How often each of 0 to size - 1 occurs, or the sum of their weights; other numbers are left out. */
export function bincount(x: Expr, size: number, weights?: Expr): Expr {
  checkWhole('bincount: minlength', size);
  checkCounts(x, weights);
  const each = !weights ? onesLike(convert(x, 'i64')) : weights.dtype === 'f32' ? weights : convert(weights, 'f64'); // as in torch
  const places = where(ge(x, 0), x, size); // a scatter drops what is beyond its end
  return scatterAlong(full([size], 0, each.dtype), places, each, 0, 'add');
}
export function checkCounts(x: Expr, weights?: Expr): void {
  if (!isInteger(x.dtype) || x.shape.length !== 1)
    throw new DTypeError(`bincount: takes integers in one dimension, got ${x.aval}`);
  if (weights && !sameShape(weights.shape, x.shape))
    throw new ShapeError(`bincount: weights ${weights.aval} do not match ${x.aval}: one weight for each element`);
}
