// Functions whose plain form overflows, in the form that does not, with the gradient that loses no digits. Strict, not public.
import { sizeOf } from '../base/dtype.js';
import type { Expr } from '../ir/expr.js';
import { broadcastTo, reduceSum } from './prim/broadcast.js';
import { iota } from './prim/constant.js';
import { custom } from './prim/custom.js';
import { next, shifted } from './prim/define.js';
import { gatherAlong } from './prim/gather.js';
import { convert, reshape } from './prim/move.js';
import { abs, add, div, eq, exp, log, log1p, maximum, mul, neg, sigmoid, sqrt, sub, where } from './prim/pointwise.js';
import { reduceTop } from './prim/reduce.js';

const softplusOp = custom<[Expr]>(
  'log1pExp',
  ([x]) => add(maximum(x, 0), log1p(exp(neg(abs(x))))),
  (g, [x]) => [mul(g, sigmoid(x))],
);
/** log(1 + exp(x)). */
export const log1pExp = (x: Expr): Expr => softplusOp([x], null);

interface Along {
  /** None for a scalar, which is all of its only dimension. */
  readonly dims: readonly number[];
}
const FURTHER = shifted<Along>(({ dims }) => ({ dims: next(dims) }));
/** A reduction that keeps its dimensions, to meet its operand again. */
const kept = (reduce: (x: Expr, dims: readonly number[]) => Expr, x: Expr, { dims }: Along): Expr =>
  reshape(
    reduce(x, dims),
    x.shape.map((n, d) => (dims.includes(d) ? 1 : n)),
  );
const belowTop = (x: Expr, along: Along) => sub(x, kept(reduceTop, x, along));

/** exp(x) over its sum along some dimensions. */
export const softmaxOver = custom<[Expr], Along>(
  'softmax',
  ([x], along) => {
    const e = exp(belowTop(x, along));
    return div(e, kept(reduceSum, e, along));
  },
  (g, _, along, y) => [mul(y, sub(g, kept(reduceSum, mul(g, y), along)))],
  FURTHER,
);
/** Its logarithm. */
export const logSoftmaxOver = custom<[Expr], Along>(
  'logSoftmax',
  ([x], along) => {
    const z = belowTop(x, along);
    return sub(z, log(kept(reduceSum, exp(z), along)));
  },
  (g, _, along, y) => [sub(g, mul(exp(y), kept(reduceSum, g, along)))],
  FURTHER,
);

/** What an index [..., 1, ...] picks of a dimension. */
interface At {
  readonly dim: number;
}
const AFTER = shifted<At>(({ dim }) => ({ dim: dim + 1 }));
const hit = (x: Expr, index: Expr, { dim }: At): Expr =>
  convert(eq(broadcastTo(index, x.shape), iota(x.shape, dim, index.dtype)), x.dtype);
/** The element at the index. Its gradient is written as a comparison, which fuses with what follows; a scatter does not. */
export const elementAt = custom<[Expr, Expr], At>(
  'elementAt',
  ([x, index], { dim }) => gatherAlong(x, index, dim),
  (g, [x, index], at) => [mul(g, hit(x, index, at)), null],
  AFTER,
);
/** logSoftmax at the index: neither it nor its gradient makes the other logarithms. */
export const logSoftmaxAt = custom<[Expr, Expr], At>(
  'logSoftmaxAt',
  ([x, index], { dim }) => {
    const along = { dims: [dim] };
    const top = kept(reduceTop, x, along);
    return sub(sub(gatherAlong(x, index, dim), top), log(kept(reduceSum, exp(sub(x, top)), along)));
  },
  (g, [x, index], at) => [mul(g, sub(hit(x, index, at), softmaxOver([x], { dims: [at.dim] }))), null],
  AFTER,
);

const rootOp = custom<[Expr]>(
  'root',
  ([x]) => sqrt(x),
  (g, _, __, y) => [where(eq(y, 0), 0, div(g, mul(2, y)))],
);
/** The square root. At 0, where its slope is infinite, nothing flows back, as in torch. */
export const root = (x: Expr): Expr => rootOp([x], null);

const asKept = (y: Expr, x: Expr, along: Along): Expr => kept(() => y, x, along);
/** The length of vectors along some dimensions. At 0 it has no direction, and no second derivative. */
export const lengthOver = custom<[Expr], Along>(
  'length',
  ([x], { dims }) => sqrt(reduceSum(mul(x, x), dims)),
  (g, [x], along, y) => {
    const length = asKept(y, x, along);
    return [mul(asKept(g, x, along), where(eq(length, 0), 0, div(x, length)))];
  },
  FURTHER,
);

const countOf = (x: Expr, { dims }: Along): number => sizeOf(dims.map((d) => x.shape[d]!));
const centered = (x: Expr, along: Along): Expr => sub(x, div(kept(reduceSum, x, along), countOf(x, along)));
/** The mean square of distances from the mean; the correction is taken from the count. */
export const varianceOver = custom<[Expr], Along & { readonly correction: number }>(
  'variance',
  ([x], along) => {
    const off = centered(x, along);
    return div(reduceSum(mul(off, off), along.dims), Math.max(0, countOf(x, along) - along.correction));
  },
  // torch's rule, whatever is left of the count.
  (g, [x], along) => {
    const slope = mul(asKept(g, x, along), 2 / (countOf(x, along) - along.correction));
    return [mul(slope, centered(x, along))];
  },
  shifted(({ dims, correction }) => ({ dims: next(dims), correction })),
);
