// Sums, means and maxima of bags of embeddings.
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { lowest } from '../base/literal.js';
import { isInteger } from '../base/promote.js';
import { sameShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { embedding } from './indexing.js';
import { broadcastTo } from './prim/broadcast.js';
import { full, iota } from './prim/constant.js';
import { putAt } from './prim/gather.js';
import { convert, flat, reshape } from './prim/move.js';
import { div, eq, maximum, mul, ne, sub, where } from './prim/pointwise.js';
import { searchsorted } from './sorting.js';

export interface EmbeddingBagOptions {
  /** Where each bag starts in a vector of ids. Bags in rows [bags, ids] have none. */
  readonly offsets?: Expr;
  readonly mode?: 'sum' | 'mean' | 'max';
  /** The weight of each id, for mode 'sum'. */
  readonly perSampleWeights?: Expr;
  /** Whether the last offset is the end of the last bag. Default: false. */
  readonly includeLastOffset?: boolean;
  /** An id that is ignored. */
  readonly paddingIdx?: number;
}
/** Reduces the rows of `weight` for the ids of each bag: [bags, features]. An empty bag is 0. */
export function embeddingBag(
  ids: Expr,
  weight: Expr,
  { offsets, mode = 'mean', perSampleWeights, includeLastOffset = false, paddingIdx }: EmbeddingBagOptions = {},
): Expr {
  const op = 'embeddingBag';
  if (!isInteger(ids.dtype)) throw new DTypeError(`${op}: ids must be integers, got ${ids.aval}: use long()`);
  if (weight.shape.length !== 2) throw new ShapeError(`${op}: the weight must be [rows, features], got ${weight.aval}`);
  const inRows = ids.shape.length === 2;
  if (inRows ? offsets : ids.shape.length !== 1 || !offsets)
    throw new ArgumentError(
      `${op}: give ids [bags, ids], or a vector with { offsets }, got ${ids.aval}${offsets ? ` and offsets ${offsets.aval}` : ''}`,
    );
  if (perSampleWeights && (mode !== 'sum' || !sameShape(perSampleWeights.shape, ids.shape)))
    throw new ArgumentError(
      `${op}: perSampleWeights need mode 'sum' and the shape of the ids ${ids.aval}: the mode is '${mode}', they are ${perSampleWeights.aval}`,
    );
  const [n, features] = [ids.aval.size, weight.shape[1]!];
  const bags = inRows ? ids.shape[0]! : offsets!.aval.size - Number(includeLastOffset);
  const all = flat(ids);
  const own = iota([n], 0, 'i64');
  const bag = inRows
    ? flat(iota(ids.shape, 0, 'i64'))
    : sub(searchsorted(convert(offsets!, 'i64'), own, { right: true }), 1); // beyond a last offset: in no bag
  const rows = embedding(all, weight);
  const counts =
    paddingIdx === undefined
      ? full([n], true, 'bool')
      : ne(all, paddingIdx < 0 ? paddingIdx + weight.shape[0]! : paddingIdx);
  const each = reshape(counts, [n, 1]);
  const size = putAt(full([bags], 0, weight.dtype), [0], [bag], convert(counts, weight.dtype), 'add');
  const empty = broadcastTo(reshape(eq(size, 0), [bags, 1]), [bags, features]);
  if (mode === 'max') {
    const least = full([bags, features], lowest(weight.dtype), weight.dtype);
    return where(
      empty,
      0,
      putAt(least, [0], [bag], where(each, rows, full([], lowest(weight.dtype), weight.dtype)), 'max'),
    );
  }
  const scaled = perSampleWeights ? mul(rows, reshape(perSampleWeights, [n, 1])) : rows;
  const total = putAt(full([bags, features], 0, weight.dtype), [0], [bag], where(each, scaled, 0), 'add');
  return mode === 'sum' ? total : div(total, reshape(maximum(size, 1), [bags, 1]));
}
