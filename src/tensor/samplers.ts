// Rejection samplers: gamma, poisson, binomial, von Mises. All elements of an array are drawn in one while loop, which ends
// when each is accepted: shapes are static, and the numbers exact in distribution.
import { type DType, sizeOf } from '../base/dtype.js';
import { ArgumentError, DTypeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { broadcastShapes, normalizeDim, range, type Shape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { broadcastTo } from '../ops/prim/broadcast.js';
import { full, iota, zerosLike } from '../ops/prim/constant.js';
import { convert } from '../ops/prim/move.js';
import {
  abs,
  acos,
  add,
  ceil,
  cos,
  div,
  exp,
  floor,
  ge,
  gt,
  le,
  lgamma,
  log,
  log1p,
  logicalAnd,
  logicalNot,
  logicalOr,
  lt,
  mul,
  neg,
  sqrt,
  sub,
  where,
} from '../ops/prim/pointwise.js';
import { reduceAnd } from '../ops/prim/reduce.js';
import { concat } from '../ops/prim/slice.js';
import { advance, open, rounded, unit, words } from '../ops/prim/threefry.js';
import { detach } from '../ops/prim/variable.js';
import { whileLoop } from '../ops/prim/while.js';
import { checked, named } from './arguments.js';
import { type DrawOptions, defaultGenerator, type Generator } from './random.js';
import { Tensor } from './tensor.js';

type Words = readonly [Expr, Expr];
type Wide = 'f32' | 'f64';
const wide = (dtype: DType): Wide => (dtype === 'f64' ? 'f64' : 'f32');

/**
 * Applies a formula to numbers uniform in (0, 1); the result has `dtype`. It is computed in f32, or f64 for f64, where neither
 * the logarithm of such a number nor that of its complement is infinite: bf16 and f16 would round many numbers to 1.
 */
export function fromUniform(
  shape: Shape,
  dtype: DType,
  generator: Generator | undefined,
  formula: (u: Tensor) => Tensor,
): Tensor {
  const u = new Tensor(open(words((generator ?? defaultGenerator).take(sizeOf(shape)), shape), wide(dtype)));
  return new Tensor(rounded(formula(u).expr, dtype));
}

/** A draw from the Gumbel distribution with loc 0 and scale 1. */
export const standardGumbel = (shape: Shape, dtype: DType, generator?: Generator): Tensor =>
  fromUniform(shape, dtype, generator, (u) => u.log().neg().log().neg());

/**
 * The state of a separate stream for a loop with an unknown number of draws: its key is the generator's cipher of one
 * counter. The generator itself always advances by a known count.
 */
function substream(generator: Generator = defaultGenerator): Expr {
  const [a, b] = words(generator.take(1), [1]);
  return concat([a, b, full([2], 0, 'u32')], 0);
}

/** Repeats attempts until each element is accepted. Elements that are `settled` from the beginning keep `start`. */
function reject(
  { start, settled, counters }: { readonly start: Expr; readonly settled: Expr; readonly counters: number },
  generator: Generator | undefined,
  attempt: (bits: readonly Words[]) => { readonly value: Expr; readonly accepted: Expr },
): Expr {
  const { shape } = start;
  const by = counters * sizeOf(shape);
  return whileLoop(
    [substream(generator), start, settled],
    ([, , done]) => logicalNot(reduceAnd(done!)),
    ([state, value, done]) => {
      const bits = range(counters).map((k) => words(state!, shape, counters, k));
      const next = attempt(bits);
      return [advance(state!, by), where(done!, value!, next.value), logicalOr(done!, next.accepted)];
    },
  )[1]!;
}
const not = (condition: Expr): Expr => logicalNot(condition); // also true for NaN
const swapped = ([a, b]: Words): Words => [b, a];

/** The Box-Muller transform of two counters. */
const normalOf = (u: Words, v: Words, dtype: Wide): Expr =>
  mul(sqrt(mul(log(open(u, dtype)), -2)), cos(mul(unit(swapped(v), dtype), 2 * Math.PI)));

/**
 * Gamma numbers of rate 1 and their logarithms, which are finite even if the number is too small for its dtype.
 * Marsaglia and Tsang: A simple method for generating gamma variables (ACM TOMS 26, 2000); below 1 by their boost.
 */
export function standardGamma(alpha: Tensor, generator?: Generator): { readonly value: Tensor; readonly log: Tensor } {
  const { dtype, shape } = alpha.expr;
  const p = wide(dtype);
  const a = convert(detach(alpha.expr), p);
  const isSmall = lt(a, 1);
  const d = sub(where(isSmall, add(a, 1), a), 1 / 3);
  const c = div(1, sqrt(mul(d, 9)));
  const isWrong = not(gt(a, 0));
  const drawn = reject(
    { start: where(isWrong, full(shape, Number.NaN, p), d), settled: isWrong, counters: 3 },
    generator,
    ([u, v, w]) => {
      const x = normalOf(u!, v!, p);
      const root = add(mul(c, x), 1);
      const cube = mul(root, mul(root, root));
      const isInside = gt(cube, 0);
      const safe = where(isInside, cube, 1);
      const bound = add(mul(mul(x, x), 0.5), mul(d, add(sub(1, safe), log(safe))));
      return { value: mul(d, cube), accepted: logicalAnd(isInside, lt(log(open(w!, p)), bound)) };
    },
  );
  const u = open(words((generator ?? defaultGenerator).take(sizeOf(shape)), shape), p);
  const boost = where(isSmall, div(log(u), where(isSmall, a, 1)), zerosLike(a));
  const [value, logarithm] = [mul(drawn, exp(boost)), add(log(drawn), boost)];
  return { value: new Tensor(rounded(value, dtype)), log: new Tensor(rounded(logarithm, dtype)) };
}

/** log(k!) less Stirling's (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2. */
function stirlingTail(k: Expr): Expr {
  const n = add(k, 1);
  const square = mul(n, n);
  const series = div(sub(1 / 12, div(sub(1 / 360, div(1 / 1260, square)), square)), n);
  const exact = sub(lgamma(n), add(sub(mul(add(k, 0.5), log(n)), n), Math.log(2 * Math.PI) / 2));
  return where(lt(k, 10), exact, series);
}

/** For means below 10: the number of exponential times that fit into one of length `rate` (Knuth). */
function fewEvents(rate: Expr, skip: Expr, p: Wide, generator?: Generator): Expr {
  const zero = zerosLike(rate);
  return whileLoop(
    [substream(generator), zero, zero, skip],
    ([, , , done]) => logicalNot(reduceAnd(done!)),
    ([state, count, time, done]) => {
      const later = sub(time!, log(open(words(state!, rate.shape), p)));
      const ends = logicalOr(done!, not(lt(later, rate)));
      return [advance(state!, rate.aval.size), where(ends, count!, add(count!, 1)), later, ends];
    },
  )[1]!;
}

/** For means of 10 and more: Hörmann, The transformed rejection method for generating Poisson random variables (1993), PTRS. */
function manyEvents(rate: Expr, skip: Expr, p: Wide, generator?: Generator): Expr {
  const b = add(mul(sqrt(rate), 2.53), 0.931);
  const a = add(mul(b, 0.02483), -0.059);
  const inverse = add(div(1.1328, sub(b, 3.4)), 1.1239);
  const vr = sub(0.9277, div(3.6224, sub(b, 2)));
  return reject({ start: zerosLike(rate), settled: skip, counters: 2 }, generator, ([first, second]) => {
    const u = sub(open(first!, p), 0.5);
    const v = open(second!, p);
    const us = sub(0.5, abs(u));
    const k = floor(add(add(mul(add(div(mul(a, 2), us), b), u), rate), 0.43));
    const isQuick = logicalAnd(ge(us, 0.07), le(v, vr));
    const isOut = logicalOr(lt(k, 0), logicalAnd(lt(us, 0.013), gt(v, us)));
    // log(rate^k exp(-rate) / k!), from differences: the terms themselves are too large for f32.
    const safe = where(lt(k, 0), 0, k);
    const n = add(safe, 1);
    const off = div(sub(n, rate), rate);
    const deviance = mul(rate, sub(mul(add(off, 1), log1p(off)), off)); // n log(n / rate) - n + rate
    const scale = sub(mul(log(div(n, rate)), 0.5), add(mul(log(rate), 0.5), Math.log(2 * Math.PI) / 2));
    const target = sub(scale, add(deviance, stirlingTail(safe)));
    const offered = log(div(mul(v, inverse), add(div(a, mul(us, us)), b)));
    return { value: k, accepted: logicalOr(isQuick, logicalAnd(not(isOut), le(offered, target))) };
  });
}

function checkFloats(op: string, what: string, x: Expr): void {
  if (!isFloat(x.dtype)) throw new DTypeError(`${op}: ${what} are floats, got ${x.aval}: use float()`);
}

/** Poisson numbers with the rate of each element, in its dtype. Unlike torch: a seed gives different numbers. */
export const poisson = checked('poisson', (rates: Tensor, { generator }: DrawOptions = {}): Tensor => {
  const { expr } = rates;
  checkFloats('poisson', 'rates', expr);
  const p = wide(expr.dtype);
  const rate = convert(detach(expr), p);
  const isWrong = not(ge(rate, 0));
  const isMany = ge(rate, 10);
  const [low, high] = [where(isMany, 1, rate), where(isMany, rate, 10)];
  const few = fewEvents(low, logicalOr(isMany, isWrong), p, generator);
  const many = manyEvents(high, not(isMany), p, generator);
  return new Tensor(convert(where(isWrong, Number.NaN, where(isMany, many, few)), expr.dtype));
});

/** For means below 10: the number of geometric gaps that fit into the trials. */
function fewSuccesses(count: Expr, prob: Expr, skip: Expr, p: Wide, generator?: Generator): Expr {
  const zero = zerosLike(prob);
  const slope = log1p(neg(prob));
  return whileLoop(
    [substream(generator), zero, zero, skip],
    ([, , , done]) => logicalNot(reduceAnd(done!)),
    ([state, hits, place, done]) => {
      const next = add(place!, ceil(div(log(open(words(state!, prob.shape), p)), slope)));
      const ends = logicalOr(done!, not(le(next, count)));
      return [advance(state!, prob.aval.size), where(ends, hits!, add(hits!, 1)), next, ends];
    },
  )[1]!;
}

/** For means of 10 and more: Hörmann, The generation of binomial random variates (1993), BTRS. */
function manySuccesses(n: Expr, prob: Expr, skip: Expr, p: Wide, generator?: Generator): Expr {
  const q = sub(1, prob);
  const deviation = sqrt(mul(mul(n, prob), q));
  const b = add(mul(deviation, 2.53), 1.15);
  const a = add(add(mul(b, 0.0248), -0.0873), mul(prob, 0.01));
  const c = add(mul(n, prob), 0.5);
  const vr = sub(0.92, div(4.2, b));
  const r = div(prob, q);
  const alpha = mul(add(div(5.1, b), 2.83), deviation);
  const m = floor(mul(add(n, 1), prob));
  const atMode = add(
    mul(add(m, 0.5), log(div(add(m, 1), mul(r, add(sub(n, m), 1))))),
    add(stirlingTail(m), stirlingTail(sub(n, m))),
  );
  return reject({ start: zerosLike(prob), settled: skip, counters: 2 }, generator, ([first, second]) => {
    const u = sub(open(first!, p), 0.5);
    const v = open(second!, p);
    const us = sub(0.5, abs(u));
    const k = floor(add(mul(add(div(mul(a, 2), us), b), u), c));
    const isQuick = logicalAnd(ge(us, 0.07), le(v, vr));
    const isOut = logicalOr(lt(k, 0), gt(k, n));
    const safe = where(isOut, m, k);
    const rest = add(sub(n, safe), 1);
    const target = sub(
      add(
        add(atMode, mul(add(n, 1), log(div(add(sub(n, m), 1), rest)))),
        mul(add(safe, 0.5), log(div(mul(r, rest), add(safe, 1)))),
      ),
      add(stirlingTail(safe), stirlingTail(sub(n, safe))),
    );
    const offered = log(div(mul(v, alpha), add(div(a, mul(us, us)), b)));
    return { value: k, accepted: logicalAnd(not(isOut), logicalOr(isQuick, le(offered, target))) };
  });
}

/** Successes in `count` trials with probability `prob`, in the dtype of prob. Unlike torch: a seed gives different numbers. */
export const binomial = checked('binomial', (count: Tensor, prob: Tensor, { generator }: DrawOptions = {}): Tensor => {
  checkFloats('binomial', 'probabilities', prob.expr);
  const { dtype } = prob.expr;
  const p = wide(dtype);
  const shape = broadcastShapes('binomial', count.shape, prob.shape);
  const n = broadcastTo(convert(detach(count.expr), p), shape);
  const given = broadcastTo(convert(detach(prob.expr), p), shape);
  const isHigh = gt(given, 0.5);
  const chance = where(isHigh, sub(1, given), given); // of the rarer outcome
  const isWrong = not(logicalAnd(ge(n, 0), logicalAnd(ge(given, 0), le(given, 1))));
  const isTrivial = logicalOr(isWrong, logicalOr(le(n, 0), le(chance, 0)));
  const isMany = logicalAnd(ge(mul(n, chance), 10), not(isTrivial));
  const few = fewSuccesses(
    n,
    where(logicalOr(isMany, isTrivial), 0.5, chance),
    logicalOr(isMany, isTrivial),
    p,
    generator,
  );
  const many = manySuccesses(where(isMany, n, 40), where(isMany, chance, 0.5), not(isMany), p, generator);
  const rarer = where(isTrivial, 0, where(isMany, many, few));
  const drawn = where(isHigh, sub(n, rarer), rarer);
  return new Tensor(convert(where(isWrong, Number.NaN, drawn), dtype));
});

/** Angles around 0. Best and Fisher: Efficient simulation of the von Mises distribution (1979). */
export function standardVonMises(concentration: Tensor, generator?: Generator): Tensor {
  const { dtype } = concentration.expr;
  const p = wide(dtype);
  const kappa = convert(detach(concentration.expr), p);
  const isWrong = not(gt(kappa, 0));
  const k = where(isWrong, 1, kappa);
  // rho = (tau - sqrt(2 tau)) / (2 kappa), written so that a small kappa loses no digits.
  const root = sqrt(add(sqrt(add(mul(mul(k, k), 4), 1)), 1));
  const rho = div(mul(k, 2), mul(root, add(root, Math.SQRT2)));
  const r = div(add(mul(rho, rho), 1), mul(rho, 2));
  const drawn = reject(
    { start: where(isWrong, Number.NaN, zerosLike(k)), settled: isWrong, counters: 3 },
    generator,
    ([first, second, third]) => {
      const z = cos(mul(open(first!, p), Math.PI));
      const f = div(add(mul(r, z), 1), add(r, z));
      const c = mul(k, sub(r, f));
      const u = open(second!, p);
      const accepted = logicalOr(gt(sub(mul(c, sub(2, c)), u), 0), ge(sub(add(log(div(c, u)), 1), c), 0));
      const angle = acos(where(gt(f, 1), 1, where(lt(f, -1), -1, f)));
      return { value: where(lt(open(third!, p), 0.5), neg(angle), angle), accepted };
    },
  );
  return new Tensor(convert(drawn, dtype));
}

export interface GumbelSoftmaxOptions extends DrawOptions {
  /** The temperature: results are nearly one-hot close to 0. Default: 1. */
  readonly tau?: number;
  /** One-hot results with the gradient of the soft ones (straight-through). Default: false. */
  readonly hard?: boolean;
  readonly dim?: number;
}
/** Draws from the Gumbel-softmax distribution of these logits. Unlike torch: a seed gives different numbers. */
export const gumbelSoftmax = checked(
  'gumbelSoftmax',
  (
    logits: Tensor,
    ...given:
      | [options?: GumbelSoftmaxOptions]
      | [tau: number, options?: Omit<GumbelSoftmaxOptions, 'tau'>]
      | [tau: number, hard: boolean, options?: Omit<GumbelSoftmaxOptions, 'tau' | 'hard'>]
  ): Tensor => {
    const { tau = 1, hard = false, dim = -1, generator } = named<GumbelSoftmaxOptions>(['tau', 'hard'], given);
    checkFloats('gumbelSoftmax', 'logits', logits.expr);
    if (!(tau > 0)) throw new ArgumentError(`gumbelSoftmax: tau is ${tau}: it must be above 0`);
    const noise = standardGumbel(logits.shape, logits.dtype, generator);
    const soft = logits.add(noise).div(tau).softmax(dim);
    if (!hard) return soft;
    const places = iota(soft.shape, normalizeDim('gumbelSoftmax', dim, soft.ndim), 'i64');
    const best = soft.detach().argmax({ dim, keepdim: true });
    return new Tensor(places).eq(best).to(soft.dtype).sub(soft.detach()).add(soft);
  },
);
