// Sorting and searching. The order is torch's: NaN above everything, -0 equal to 0; equal elements keep their order.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { normalizeDim, range, sameShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { align, isExpr, type Operand, resultType } from './prim/align.js';
import { full } from './prim/constant.js';
import { gatherAlong } from './prim/gather.js';
import { atLeast1, convert, permute, reshape } from './prim/move.js';
import { add, eq, isnan, le, logicalAnd, logicalNot, logicalOr, lt, sub, where } from './prim/pointwise.js';
import { reduceOr } from './prim/reduce.js';
import { sliceDim } from './prim/slice.js';
import { sortAlong, topK } from './prim/sort.js';
import { detach } from './prim/variable.js';

type Found = { readonly values: Expr; readonly indices: Expr };

const shapedAs = ({ values, indices }: Found, { shape }: Expr): Found => ({
  values: reshape(values, shape),
  indices: reshape(indices, shape),
});

// ---- sort

export interface SortOption {
  readonly dim?: number;
  readonly descending?: boolean;
  /** Whether equal elements keep their order. Default: true. */
  readonly stable?: boolean;
}
/** Sorts, and returns values and indices. Unlike torch: stable by default. */
export function sort(x: Expr, { dim = -1, descending = false, stable = true }: SortOption = {}): Found {
  const d = normalizeDim('sort', dim, x.shape.length);
  const [values, indices] = sortAlong([atLeast1(x)], { dim: d, descending, stable }) as [Expr, Expr];
  return shapedAs({ values, indices }, x);
}
/** The indices that sort the elements. Unlike torch: stable by default. */
export const argsort = (x: Expr, option?: SortOption): Expr => sort(detach(x), option).indices;
/** Sorted along the first dimension. */
export const msort = (x: Expr): Expr => sort(x, { dim: 0 }).values;

// ---- the first few

function checkK(op: string, x: Expr, k: number, dim: number, least: number): void {
  const n = x.shape[dim]!;
  if (!Number.isInteger(k) || k < least || k > n)
    throw new ArgumentError(`${op}: k is ${k}, but dim ${dim} of ${x.aval} has ${n} elements: use ${least} to ${n}`);
}

export interface TopkOption {
  readonly dim?: number;
  readonly largest?: boolean;
  /** Accepted as in torch: the result is always sorted. */
  readonly sorted?: boolean;
}
/** The k largest or smallest elements along a dimension. Unlike torch: always sorted, the first of equals first. */
export function topk(x: Expr, k: number, { dim = -1, largest = true }: TopkOption = {}): Found {
  const d = normalizeDim('topk', dim, x.shape.length);
  const y = atLeast1(x);
  checkK('topk', y, k, d, 0);
  const last = y.shape.length - 1;
  const perm = [...range(last + 1).filter((i) => i !== d), d];
  const back = perm.map((_, i) => perm.indexOf(i));
  const [values, indices] = topLast(permute(y, perm), x.shape.length ? k : 1, largest); // a scalar has one, as in torch
  const found = { values: permute(values, back), indices: permute(indices, back) };
  return x.shape.length ? found : shapedAs(found, x);
}
function topLast(x: Expr, k: number, largest: boolean): [values: Expr, indices: Expr] {
  const shape = [...x.shape.slice(0, -1), k];
  if (shape.includes(0)) return [full(shape, 0, x.dtype), full(shape, 0, 'i64')];
  if (x.dtype === 'bool') {
    const { values, indices } = sort(x, { descending: largest });
    const cut = (y: Expr) => sliceDim(y, shape.length - 1, 0, k);
    return [cut(values), cut(indices)];
  }
  return topK([x], { k, largest }) as [Expr, Expr];
}

/** The k-th smallest, from 1, along a dimension. */
export function kthvalue(
  x: Expr,
  k: number,
  option: { readonly dim?: number; readonly keepdim?: boolean } = {},
): Found {
  const { dim = -1, keepdim = false } = option;
  const d = normalizeDim('kthvalue', dim, x.shape.length);
  const y = atLeast1(x);
  checkK('kthvalue', y, k, d, 1);
  const { values, indices } = sort(y, { dim: d });
  const pick = (z: Expr) => sliceDim(z, d, k - 1, k);
  const shape = !x.shape.length ? [] : x.shape.flatMap((n, i) => (i !== d ? [n] : keepdim ? [1] : []));
  return { values: reshape(pick(values), shape), indices: reshape(pick(indices), shape) };
}

// ---- search

export interface SearchOption {
  readonly right?: boolean;
  readonly side?: 'left' | 'right';
  readonly outInt32?: boolean;
}
export interface SorterOption extends SearchOption {
  /** The indices that sort `sorted`, if it is not sorted: argsort(sorted). */
  readonly sorter?: Expr;
}
/**
 * The insertion indices of values that keep `sorted` sorted: before equal elements, or after them (right). Searches the last
 * dimension; the others must match, or `sorted` is a vector.
 */
export function searchsorted(
  sorted: Expr,
  values: Operand,
  { right = false, side, outInt32 = false, sorter }: SorterOption = {},
): Expr {
  if (sorter) return searchsorted(inOrder(sorted, sorter), values, { right, outInt32, ...(side && { side }) });
  const after = side ? side === 'right' : right;
  const given = isExpr(values) ? values : full([], values, resultType(sorted, values));
  const dtype = resultType(sorted, given);
  const [s, v] = [convert(detach(sorted), dtype), convert(detach(given), dtype)];
  const last = s.shape.length - 1;
  if (last < 0) throw new ShapeError(`searchsorted: ${sorted.aval} has no dimension to search`);
  const rows = last > 0;
  if (rows && !sameShape(s.shape.slice(0, -1), v.shape.slice(0, -1)))
    throw new ShapeError(
      `searchsorted: ${sorted.aval} and ${given.aval} differ in more than the last dimension: give a vector, or as many rows in both`,
    );
  const wanted = rows ? v : reshape(v, [v.aval.size]);
  const n = s.shape[last]!;
  let at = full(wanted.shape, 0, 'i64'); // how many elements go before: found bit by bit, the highest first
  for (let step = 2 ** Math.floor(Math.log2(Math.max(n, 1))); step >= 1 && n; step /= 2) {
    const next = add(at, step);
    const element = gatherAlong(s, sub(next, 1), last);
    const goesBefore = logicalOr((after ? le : lt)(element, wanted), isnan(wanted));
    at = where(logicalAnd(le(next, n), goesBefore), next, at);
  }
  return convert(reshape(at, given.shape), outInt32 ? 'i32' : 'i64');
}
const inOrder = (x: Expr, sorter: Expr): Expr => {
  if (!x.shape.length || !sameShape(x.shape, sorter.shape))
    throw new ShapeError(
      `searchsorted: the sorter is ${sorter.aval}, but the sequence is ${x.aval}: give one index for each element`,
    );
  return gatherAlong(x, convert(sorter, 'i64'), x.shape.length - 1);
};
/** The number of the interval between boundaries that each element lies in. */
export const bucketize = (x: Expr, boundaries: Expr, option?: SearchOption): Expr => {
  if (boundaries.shape.length !== 1)
    throw new ShapeError(`bucketize: boundaries must have one dimension, got ${boundaries.aval} for ${x.aval}`);
  return searchsorted(boundaries, x, option);
};
/** Whether each element is among the test elements. */
export function isin(
  x: Operand,
  testElements: Operand,
  { invert = false }: { readonly invert?: boolean; readonly assumeUnique?: boolean } = {},
): Expr {
  const dtype = resultType(x, testElements);
  const [y, tests] = [x, testElements].map((z) => align('isin', [z], dtype)[0]!) as [Expr, Expr];
  const n = tests.aval.size;
  const each = eq(reshape(y, [...y.shape, 1]), reshape(tests, [n]));
  const found = reduceOr(each, [y.shape.length]);
  return invert ? logicalNot(found) : found;
}
