// Functions whose plain form overflows, in the form that does not, with the gradient that loses no digits. Strict, not public.
import type { Expr } from '../ir/expr.js';
import { custom } from './custom.js';
import { reshape } from './move.js';
import { abs, add, div, exp, log, log1p, maximum, mul, neg, sigmoid, sub } from './pointwise.js';
import { reduceMax, reduceSum } from './reduce.js';

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
/** A reduction that keeps its dimensions, to meet its operand again. */
const kept = (reduce: (x: Expr, dims: readonly number[]) => Expr, x: Expr, { dims }: Along): Expr =>
  reshape(
    reduce(x, dims),
    x.shape.map((n, d) => (dims.includes(d) ? 1 : n)),
  );
const shifted = (x: Expr, along: Along) => sub(x, kept(reduceMax, x, along));

/** exp(x) over its sum along some dimensions. */
export const softmaxOver = custom<[Expr], Along>(
  'softmax',
  ([x], along) => {
    const e = exp(shifted(x, along));
    return div(e, kept(reduceSum, e, along));
  },
  (g, _, along, y) => [mul(y, sub(g, kept(reduceSum, mul(g, y), along)))],
);
/** Its logarithm. */
export const logSoftmaxOver = custom<[Expr], Along>(
  'logSoftmax',
  ([x], along) => {
    const z = shifted(x, along);
    return sub(z, log(kept(reduceSum, exp(z), along)));
  },
  (g, _, along, y) => [sub(g, mul(exp(y), kept(reduceSum, g, along)))],
);
