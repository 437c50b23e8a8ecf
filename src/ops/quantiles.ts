// Quantiles at places that are known only when the program runs.
import { DTypeError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { normalizeDim, range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { broadcastTo, reduceSum } from './prim/broadcast.js';
import { constants, full } from './prim/constant.js';
import { gatherAlong } from './prim/gather.js';
import { convert, flat, permute, reshape } from './prim/move.js';
import { add, ceil, eq, floor, isnan, maximum, mul, round, sub, where } from './prim/pointwise.js';
import { sliceDim } from './prim/slice.js';
import { detach } from './prim/variable.js';
import { sort } from './sorting.js';

export interface QuantileOption {
  readonly dim?: number;
  readonly keepdim?: boolean;
  readonly interpolation?: keyof typeof WEIGHTS;
}
const WEIGHTS = {
  linear: (at: Expr) => sub(at, floor(at)),
  lower: (at: Expr) => mul(at, 0),
  higher: (at: Expr) => sub(ceil(at), floor(at)),
  midpoint: (at: Expr) => mul(sub(ceil(at), floor(at)), 0.5),
  nearest: (at: Expr) => sub(round(at), floor(at)),
};
/** Quantiles of which places are computed: q is a tensor, or NaN does not count. */
export function quantiles(
  op: string,
  x: Expr,
  q: number | readonly number[] | Expr,
  { dim, keepdim = false, interpolation = 'linear' }: QuantileOption,
  ignoresNaN: boolean,
): Expr {
  if (!isFloat(x.dtype)) throw new DTypeError(`${op}: takes floating point numbers, got ${x.aval}: convert it first`);
  const one = typeof q === 'number' || (!Array.isArray(q) && !(q as Expr).shape.length);
  const shares =
    typeof q === 'number' || Array.isArray(q)
      ? constants([q].flat() as number[], x.dtype)
      : flat(convert(q as Expr, x.dtype));
  if (shares.shape.length !== 1) throw new ShapeError(`${op}: q must be one number or a vector, got ${shares.aval}`);
  const whole = dim === undefined || !x.shape.length;
  const y = whole ? flat(x) : x;
  const d = whole ? 0 : normalizeDim(op, dim, x.shape.length);
  const last = y.shape.length - 1;
  const turned = permute(y, [...range(last + 1).filter((k) => k !== d), d]);
  const n = turned.shape[last]!;
  if (!n) throw new ShapeError(`${op}: ${x.aval} has no elements along dim ${dim ?? 0}`);
  const rest = turned.shape.slice(0, -1);
  const nans = reduceSum(convert(isnan(turned), x.dtype), [last]);
  const count = ignoresNaN ? sub(n, nans) : full(rest, n, x.dtype);
  const k = shares.aval.size;
  const shape = [...rest, k];
  const most = maximum(sub(count, 1), 0);
  const at = mul(broadcastTo(shares, shape), broadcastTo(reshape(detach(most), [...rest, 1]), shape));
  const sorted = sort(turned, { dim: last }).values;
  const read = (place: Expr) => gatherAlong(sorted, convert(place, 'i64'), last);
  const [a, b] = [read(floor(at)), read(ceil(at))];
  const weight = WEIGHTS[interpolation](at);
  const value = where(eq(weight, 0), a, add(a, mul(weight, sub(b, a))));
  // NaN comes last: all there is of a row without others, which is read then.
  const largest = broadcastTo(sliceDim(sorted, last, n - 1, n), shape);
  const found = ignoresNaN ? value : where(isnan(largest), largest, value);
  const front = permute(found, [last, ...range(last)]);
  const kept = !keepdim ? rest : whole ? x.shape.map(() => 1) : rest.toSpliced(d, 0, 1);
  return reshape(front, one ? kept : [k, ...kept]);
}
