// Activation functions of torch.nn.functional.
import type { DType } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { normalizeDim } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { alignFloats, floating, inWide } from './prim/align.js';
import { convert, reshape } from './prim/move.js';
import {
  abs,
  add,
  div,
  erfc,
  expm1,
  ge,
  gt,
  isnan,
  le,
  logicalAnd,
  logicalNot,
  logicalOr,
  lt,
  mul,
  neg,
  sigmoid,
  sub,
  tanh,
  where,
} from './prim/pointwise.js';
import { sliceDim } from './prim/slice.js';
import { detach } from './prim/variable.js';
import { log1pExp, logSoftmaxOver, softmaxOver } from './stable.js';

// ---- piecewise linear. These use where instead of maximum to have torch's gradient at the corners.

/** max(x, 0). */
export const relu = (x: Expr): Expr => threshold(x, 0, 0);
/** x where it is above the threshold, otherwise `value`. */
export const threshold = (x: Expr, threshold: number, value: number): Expr => where(le(x, threshold), value, x);
/** x clamped between two limits. */
export function hardtanh(
  x: Expr,
  { minVal = -1, maxVal = 1 }: { readonly minVal?: number; readonly maxVal?: number } = {},
): Expr {
  if (minVal > maxVal) throw new ArgumentError(`hardtanh: minVal ${minVal} is greater than maxVal ${maxVal}`);
  const [low, high] = isFloat(x.dtype) ? [minVal, maxVal] : [Math.trunc(minVal), Math.trunc(maxVal)];
  return where(le(x, low), low, where(ge(x, high), high, x));
}
export const relu6 = (x: Expr): Expr => hardtanh(x, { minVal: 0, maxVal: 6 });
export const leakyRelu = (x: Expr, { negativeSlope = 0.01 }: { readonly negativeSlope?: number } = {}): Expr => {
  const y = floating(x);
  return where(gt(y, 0), y, mul(y, negativeSlope));
};
/** Leaky relu with a learned slope: one for all, or one for each channel (dim 1). */
export function prelu(x: Expr, weight: Expr): Expr {
  const channels = x.shape[1] ?? 1;
  const { size } = weight.aval;
  if (weight.shape.length > 1 || (size !== 1 && size !== channels)) {
    throw new ShapeError(
      `prelu: ${weight.aval} does not fit ${x.aval}: give 1 slope, or ${channels} (one per channel)`,
    );
  }
  const slopes = size === 1 ? reshape(weight, []) : reshape(weight, [size, ...x.shape.slice(2).map(() => 1)]);
  const [y, w] = alignFloats('prelu', [x, slopes]) as [Expr, Expr];
  const up = gt(y, 0);
  return where(up, y, mul(w, where(up, 0, y)));
}
export interface Lambda {
  readonly lambd?: number;
}
export const hardshrink = (x: Expr, { lambd = 0.5 }: Lambda = {}): Expr =>
  where(logicalAnd(ge(x, -lambd), le(x, lambd)), 0, x);
export function softshrink(x: Expr, { lambd = 0.5 }: Lambda = {}): Expr {
  if (lambd < 0) throw new ArgumentError(`softshrink: lambd is ${lambd}: it must be 0 or more`);
  return where(gt(x, lambd), sub(x, lambd), where(lt(x, -lambd), add(x, lambd), mul(x, 0)));
}
export const hardsigmoid = (x: Expr): Expr => {
  const y = floating(x);
  const level = where(isnan(y), detach(y), convert(ge(y, 3), y.dtype)); // NaN has no gradient, as in torch
  return where(logicalAnd(gt(y, -3), lt(y, 3)), div(add(y, 3), 6), level);
};
export const hardswish = (x: Expr): Expr => {
  const y = floating(x);
  const [low, high] = [le(y, -3), logicalNot(lt(y, 3))];
  const inner = where(logicalOr(low, high), 0, y); // an infinite x must not reach the gradient
  return where(low, mul(detach(y), 0), where(high, y, div(mul(inner, add(inner, 3)), 6)));
};

// ---- smooth ones

/** The base of elu, celu and selu: x above zero, below it an exponential with the limit -alpha. */
function exponentialBelow(x: Expr, alpha: number, inner = 1): Expr {
  const y = floating(x);
  const down = le(y, 0); // NaN is not: its gradient is that of x, as in torch
  const below = where(down, y, 0); // exp of a large x must not reach the gradient
  return where(down, mul(expm1(inner === 1 ? below : mul(below, inner)), alpha), y);
}
export interface Alpha {
  readonly alpha?: number;
}
export const elu = (x: Expr, { alpha = 1 }: Alpha = {}): Expr => exponentialBelow(x, alpha);
export function celu(x: Expr, { alpha = 1 }: Alpha = {}): Expr {
  if (alpha === 0) throw new ArgumentError('celu: alpha is 0: it must not be 0, as x / alpha is computed');
  return exponentialBelow(x, alpha, 1 / alpha);
}
/** elu, scaled to preserve mean 0 and variance 1 (Klambauer et al., 2017). */
export const selu = (x: Expr): Expr => mul(exponentialBelow(x, 1.6732632423543772), 1.0507009873554805);

const GATES = {
  none: (x: Expr) => erfc(mul(x, -Math.SQRT1_2)), // XLA's erf stops short of 1, its erfc does not stop short of 0
  // 1 + tanh(y), written as 2 sigmoid(2 y), which does not stop short of 0.
  tanh: (x: Expr) => mul(2, sigmoid(mul(2 * Math.sqrt(2 / Math.PI), add(x, mul(0.044715, mul(x, mul(x, x))))))),
};
/** x times the normal cumulative distribution function, or its tanh approximation. */
export function gelu(x: Expr, { approximate = 'none' }: { readonly approximate?: 'none' | 'tanh' } = {}): Expr {
  const gate = GATES[approximate];
  return inWide(floating(x), (y) => mul(mul(y, 0.5), gate(y)));
}
export const silu = (x: Expr): Expr => inWide(floating(x), (y) => mul(y, sigmoid(y)));
export const mish = (x: Expr): Expr => inWide(floating(x), (y) => mul(y, tanh(log1pExp(y))));
/** log(1 + exp(beta x)) / beta; x where beta x is above the threshold. */
export function softplus(
  x: Expr,
  { beta = 1, threshold = 20 }: { readonly beta?: number; readonly threshold?: number } = {},
): Expr {
  const y = floating(x);
  const scaled = mul(y, beta);
  return where(gt(scaled, threshold), y, div(log1pExp(scaled), beta));
}
export const logsigmoid = (x: Expr): Expr => neg(log1pExp(neg(floating(x))));
export const softsign = (x: Expr): Expr => div(x, add(abs(floating(x)), 1));
export const tanhshrink = (x: Expr): Expr => sub(x, tanh(x));

// ---- along a dimension

/** A dimension, plain or as an option. `dtype`: the input is converted to it first. */
export type AlongDim = number | { readonly dim: number; readonly dtype?: DType };

/** The first half times the sigmoid of the second. */
export function glu(x: Expr, option: number | { readonly dim?: number } = {}): Expr {
  const dim = normalizeDim('glu', typeof option === 'number' ? option : (option.dim ?? -1), x.shape.length);
  const size = x.shape[dim];
  if (size === undefined || size % 2)
    throw new ShapeError(`glu: ${x.aval} cannot be split in half along dim ${dim}: its size must be even`);
  return mul(sliceDim(x, dim, 0, size / 2), sigmoid(sliceDim(x, dim, size / 2, size)));
}

const along =
  (name: string, over: (xs: [Expr], along: { readonly dims: readonly number[] }) => Expr) =>
  (x: Expr, option: AlongDim): Expr => {
    const { dim, dtype = x.dtype } = typeof option === 'number' ? { dim: option } : option;
    const y = convert(x, dtype);
    if (!isFloat(dtype)) {
      throw new DTypeError(`${name}: takes floating point numbers, got ${y.aval}: ${name}(x, { dim, dtype: 'f32' })`);
    }
    const d = normalizeDim(name, dim, x.shape.length);
    const dims = x.shape.length ? [d] : [];
    return inWide(y, (z) => over([z], { dims }));
  };
export const softmax = along('softmax', softmaxOver);
export const logSoftmax = along('logSoftmax', logSoftmaxOver);
export const softmin = along('softmin', ([x], option) => softmaxOver([neg(x)], option));
