// Elementwise functions made of the pointwise primitives.
import { DTYPES, type DType } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { range, sameShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import {
  align,
  alignFloats,
  checkFits,
  floating,
  inWide,
  isExpr,
  type Operand,
  resultTypeOf,
  shapeOf,
} from './prim/align.js';
import { full, zerosLike } from './prim/constant.js';
import { custom } from './prim/custom.js';
import { bitcast, convert } from './prim/move.js';
import {
  abs,
  add,
  bitwiseLeftShift,
  bitwiseRightShift,
  div,
  eq,
  exp,
  ge,
  gt,
  isfinite,
  isinf,
  isnan,
  isneginf,
  isposinf,
  le,
  lgamma,
  log,
  log1p,
  logicalAnd,
  logicalOr,
  lt,
  maximum,
  minimum,
  mul,
  ne,
  neg,
  sigmoid,
  sin,
  sqrt,
  sub,
  trunc,
  where,
} from './prim/pointwise.js';
import { pow } from './prim/power.js';
import { reduceAnd } from './prim/reduce.js';
import { chebyshev } from './series.js';

const pair = (xs: readonly Expr[]) => xs as unknown as [Expr, Expr];
type Binary = (a: Operand, b: Operand) => Expr;

// ---- powers and logarithms

export const reciprocal = (x: Expr): Expr => div(1, x);
export const square = (x: Expr): Expr => (x.dtype === 'bool' ? square(convert(x, 'i64')) : mul(x, x));
export const exp2 = (x: Expr): Expr => pow(2, floating(x));
/** log10(2) in two parts: the first has so few digits that its products with exponents are exact. */
const LOG10_2 = {
  f32: [0.30102920532226562, 7.9034151667648e-7],
  f64: [0.30102999566361177, 3.6942390771589308e-13],
} as const;
/** Whole where x is a power of the base: the exponent counts by itself, and the log is that of a number near 1. */
const logTo = (base: number, ofTwo: (d: 'f32' | 'f64') => readonly [number, number]): ((x: Expr) => Expr) => {
  const op = custom<[Expr]>(
    `log${base}`,
    ([x]) => {
      const [dtype, whole, digits, bias] =
        x.dtype === 'f64' ? (['f64', 'i64', 52, 1023] as const) : (['f32', 'i32', 23, 127] as const);
      const code = bitcast(x, whole);
      const floor = sub(bitwiseRightShift(code, digits), bias);
      const exponent = add(floor, convert(lt(floor, 0), whole)); // towards zero: below 1 nothing cancels
      const rest = bitcast(sub(code, bitwiseLeftShift(exponent, digits)), dtype);
      const [high, low] = ofTwo(dtype).map((part) => mul(convert(exponent, dtype), part)) as [Expr, Expr];
      const y = add(high, add(low, div(log(rest), Math.log(base))));
      return where(logicalAnd(gt(x, 0), isfinite(x)), y, log(x));
    },
    (g, [x]) => [div(div(g, x), Math.log(base))],
  );
  return (x) => inWide(floating(x), (y) => op([y], null));
};
export const log2 = logTo(2, () => [1, 0]);
export const log10 = logTo(10, (d) => LOG10_2[d]);

/** x with `value` (a number or a scalar tensor) where the mask is true. Keeps x's dtype. */
export function maskedFill(x: Expr, mask: Expr, value: Operand): Expr {
  if (mask.dtype !== 'bool') throw new DTypeError(`maskedFill: the mask must be bool, got ${mask.aval}: compare first`);
  if (shapeOf(value).length) {
    throw new ShapeError(
      `maskedFill: the value must be one number, got ${(value as Expr).aval}: use where(mask, value, x) for several`,
    );
  }
  checkFits('maskedFill', [x, value], x.dtype);
  return where(mask, isExpr(value) ? convert(value, x.dtype) : full([], value, x.dtype), x);
}

// ---- sign and size

export function positive(x: Expr): Expr {
  if (x.dtype === 'bool') throw new DTypeError(`positive: takes numbers, got ${x.aval}: convert it first`);
  return x;
}
const BITS = { 1: 'i8', 2: 'i16', 4: 'i32', 8: 'i64' } as const;
/** Whether the sign is negative: also of -0. */
export const signbit = (x: Expr): Expr => lt(isFloat(x.dtype) ? bitcast(x, BITS[DTYPES[x.dtype].bytes as 4]) : x, 0);
const copysignOp = custom<[Expr, Expr]>(
  'copysign',
  ([x, y]) => mul(abs(x), where(signbit(y), full([], -1, x.dtype), 1)),
  (g, [x, y]) => [where(eq(x, 0), 0, where(ne(signbit(x), signbit(y)), neg(g), g)), zerosLike(g)],
);
/** The size of a with the sign of b. */
export const copysign: Binary = (a, b) => copysignOp(pair(alignFloats('copysign', [a, b])), null);
/** The fractional part. */
export const frac = (x: Expr): Expr => sub(x, trunc(x));
/** 0 below zero, 1 above, and `values` at zero. */
export const heaviside = (x: Expr, values: Operand): Expr => {
  const [a, v] = pair(align('heaviside', [x, values]));
  return where(eq(a, 0), v, convert(gt(a, 0), a.dtype));
};
/** The maximum; ignores NaN if the other operand is a number. */
export const fmax: Binary = (a, b) => {
  const [x, y] = pair(align('fmax', [a, b]));
  return where(logicalOr(ge(x, y), isnan(y)), x, y);
};
/** The minimum; ignores NaN if the other operand is a number. */
export const fmin: Binary = (a, b) => {
  const [x, y] = pair(align('fmin', [a, b]));
  return where(logicalOr(le(x, y), isnan(y)), x, y);
};

/** The limits of clamp. */
export interface Limits {
  readonly min?: Operand;
  readonly max?: Operand;
}
/** x, but no less than min and no more than max: clamp(x, { min: 0 }), or clamp(x, 0, 1). */
export function clamp(x: Expr, limits: Limits = {}): Expr {
  if (limits.min === undefined && limits.max === undefined) {
    throw new ArgumentError('clamp: neither min nor max is given: write clamp(x, { min: 0 }) or clamp(x, 0, 1)');
  }
  const given = [limits.min, limits.max].filter((l) => l !== undefined);
  const dtype = resultTypeOf('clamp', [x, ...given]);
  checkFits('clamp', [x, ...given], dtype);
  const [y, ...bounds] = align('clamp', [x, ...given], dtype) as [Expr, ...Expr[]];
  // Chosen, not min(max(x)): at a limit itself the gradient is x's, as in torch. NaN makes NaN, and has no gradient.
  const within = (z: Expr, keeps: Binary, limit: Expr) =>
    where(keeps(z, limit), z, isFloat(dtype) ? where(logicalOr(isnan(z), isnan(limit)), Number.NaN, limit) : limit);
  const low = limits.min === undefined ? y : within(y, ge, bounds.shift()!);
  return limits.max === undefined ? low : within(low, le, bounds[0]!);
}
export const clampMin = (x: Expr, min: Operand): Expr => clamp(x, { min });
export const clampMax = (x: Expr, max: Operand): Expr => clamp(x, { max });

const LARGEST: Partial<Record<DType, number>> = {
  f8e4m3fn: 448,
  f8e5m2: 57344,
  f16: 65504,
  bf16: 3.3895313892515355e38,
  f32: 3.4028234663852886e38,
  f64: Number.MAX_VALUE,
};
/** Replaces NaN by `nan` (default: 0) and infinities by `posinf` and `neginf` (default: the largest finite numbers of the dtype). */
export function nanToNum(
  x: Expr,
  { nan = 0, posinf, neginf }: { readonly nan?: number; readonly posinf?: number; readonly neginf?: number } = {},
): Expr {
  const largest = LARGEST[x.dtype];
  if (largest === undefined) return x;
  const high = where(isposinf(x), posinf ?? largest, where(isnan(x), nan, x));
  return where(isneginf(x), neginf ?? -largest, high);
}
export interface Closeness {
  readonly rtol?: number;
  readonly atol?: number;
  readonly equalNan?: boolean;
}
/** |a - b| <= atol + rtol |b|. Unlike torch: dtypes may differ and are promoted. */
export function isclose(a: Expr, b: Operand, { rtol = 1e-5, atol = 1e-8, equalNan = false }: Closeness = {}): Expr {
  if (!(rtol >= 0 && atol >= 0)) throw new ArgumentError(`isclose: rtol ${rtol} and atol ${atol} must not be negative`);
  const [x, y] = pair(align('isclose', [a, b]));
  const distance = abs(sub(floating(x), floating(y)));
  const near = logicalAnd(isfinite(distance), le(distance, add(abs(mul(floating(y), rtol)), atol)));
  const close = logicalOr(eq(x, y), near);
  return equalNan ? logicalOr(close, logicalAnd(isnan(x), isnan(y))) : close;
}
/** Whether all elements are close. Unlike torch: returns a bool[] tensor, read it with item(); dtypes may differ and are promoted. */
export const allclose = (a: Expr, b: Operand, options?: Closeness): Expr => reduceAnd(isclose(a, b, options));
/** Whether shapes and all elements are equal; NaN is not. Unlike torch: returns a bool[] tensor, read it with item(). */
export const equal = (a: Expr, b: Expr): Expr =>
  sameShape(a.shape, b.shape) ? reduceAnd(eq(a, b)) : full([], false, 'bool');

// ---- several operands at once

export interface Factor {
  readonly value?: number;
}
/** x + value * a * b. */
export const addcmul = (x: Expr, a: Operand, b: Operand, { value = 1 }: Factor = {}): Expr => {
  const [y, p, q] = align('addcmul', [x, a, b]) as [Expr, Expr, Expr]; // they meet before they could wrap
  return add(y, value === 1 ? mul(p, q) : mul(mul(p, value), q));
};
/** x + value * a / b. */
export const addcdiv = (x: Expr, a: Operand, b: Operand, { value = 1 }: Factor = {}): Expr =>
  add(x, value === 1 ? div(a, b) : mul(div(a, b), value));
/** From start (weight 0) to end (weight 1), exact at both. */
export function lerp(start: Expr, end: Operand, weight: Operand): Expr {
  const [a, b, w] = (
    isExpr(weight) ? alignFloats('lerp', [start, end, weight]) : [...alignFloats('lerp', [start, end]), weight]
  ) as [Expr, Expr, Operand];
  const fromStart = () => add(a, mul(w, sub(b, a)));
  const fromEnd = () => sub(b, mul(sub(b, a), sub(full([], 1, a.dtype), w)));
  if (!isExpr(w)) return Math.abs(Number(w)) < 0.5 ? fromStart() : fromEnd();
  return where(lt(abs(w), 0.5), fromStart(), fromEnd());
}

// ---- lengths, logarithms, powers

const hypotOp = custom<[Expr, Expr]>(
  'hypot',
  ([a, b]) => {
    const long = maximum(abs(a), abs(b));
    const ratio = div(minimum(abs(a), abs(b)), where(eq(long, 0), 1, long)); // at most 1: its square does not overflow
    return where(logicalOr(isinf(a), isinf(b)), Number.POSITIVE_INFINITY, mul(long, sqrt(add(mul(ratio, ratio), 1))));
  },
  (g, [a, b], _, y) => [mul(g, div(a, y)), mul(g, div(b, y))],
);
/** The length of the vector (a, b). */
export const hypot: Binary = (a, b) => hypotOp(pair(alignFloats('hypot', [a, b])), null);

/** log(base^a + base^b), of which neither power need be finite; `scale` is log(base). */
const logAdd = (name: string, scale: number): Binary => {
  const op = custom<[Expr, Expr]>(
    name,
    ([a, b]) => {
      const apart = where(eq(a, b), 0, neg(abs(sub(a, b)))); // equal ones may be infinite
      return add(maximum(a, b), scaled(log1p(exp(scaled(apart, scale))), 1 / scale));
    },
    (g, [a, b]) => [mul(g, sigmoid(scaled(sub(a, b), scale))), mul(g, sigmoid(scaled(sub(b, a), scale)))],
  );
  return (a, b) => op(pair(alignFloats(name, [a, b])), null);
};
const scaled = (x: Expr, by: number): Expr => (by === 1 ? x : mul(x, by));
export const logaddexp = logAdd('logaddexp', 1);
export const logaddexp2 = logAdd('logaddexp2', Math.LN2);

const xlogyOp = custom<[Expr, Expr]>(
  'xlogy',
  ([x, y]) => where(logicalAnd(eq(x, 0), eq(y, y)), 0, mul(x, log(y))),
  (g, [x, y]) => {
    const nothing = logicalAnd(eq(x, 0), le(y, 0));
    return [where(nothing, 0, mul(g, log(where(nothing, 1, y)))), mul(g, div(x, y))];
  },
);
/** x log(y), which is 0 where x is, whatever number y is. */
export const xlogy: Binary = (x, y) => xlogyOp(pair(alignFloats('xlogy', [x, y])), null);
/** x * 2^n, in two steps: 2^n may be out of range where the product is not. */
export const ldexp = (x: Expr, n: Operand): Expr => {
  const [y, power] = pair(alignFloats('ldexp', [x, n]));
  return inWide(y, (wide) => {
    const exponent = convert(power, wide.dtype);
    const half = where(isfinite(exponent), trunc(div(exponent, 2)), 0);
    return mul(mul(wide, pow(2, half)), pow(2, sub(exponent, half)));
  });
};
const logitOp = custom<[Expr]>(
  'logit',
  ([x]) => sub(log(x), log1p(neg(x))),
  (g, [x]) => {
    const slope = mul(x, sub(1, x)); // negative outside [0, 1], where there is no function
    return [div(g, where(lt(slope, 0), Number.NaN, slope))];
  },
);
/** log(x / (1 - x)); `eps` keeps x that far from 0 and 1. */
export const logit = (x: Expr, { eps }: { readonly eps?: number } = {}): Expr =>
  logitOp([eps === undefined ? floating(x) : clamp(floating(x), { min: eps, max: 1 - eps })], null);
/** The log of the multivariate gamma function of dimension p. */
export function mvlgamma(x: Expr, p: number): Expr {
  if (!Number.isInteger(p) || p < 1) throw new ArgumentError(`mvlgamma: p is ${p}: it must be a dimension, 1 or more`);
  const terms = range(p).map((i) => lgamma(sub(floating(x), i / 2)));
  return add(
    terms.reduce((a, b) => add(a, b)),
    ((p * (p - 1)) / 4) * Math.log(Math.PI),
  );
}

// ---- angles

export const deg2rad = (x: Expr): Expr => mul(floating(x), Math.PI / 180);
export const rad2deg = (x: Expr): Expr => mul(floating(x), 180 / Math.PI);
/** sin(pi x) / (pi x), and 1 at 0. */
export const sinc = (x: Expr): Expr =>
  inWide(floating(x), (y) => {
    const zero = eq(y, 0);
    const angle = where(zero, 1, mul(y, Math.PI));
    return where(zero, 1, div(sin(angle), angle));
  });

// ---- Bessel functions

// Chebyshev series of exp(-x) I0(x) on [0, 8], and of sqrt(x) exp(-x) I0(x) beyond, in 16 / x - 1. Fitted to the mean of
// exp(x (cos t - 1)) over the circle, which is the function.
// biome-ignore format: a table
const NEAR = [
  0.33839763720473803, -0.30468267234319835, 0.1716209015222087, -0.09490109704804758, 0.04930528423967062,
  -0.0237374148058994, 0.01054646039459494, -0.004324309995050499, 0.0016394756169412564, -0.0005763755745387469,
  0.00018850288509569824, -5.75419501005342e-5, 1.644844807074941e-5, -4.416738358728467e-6, 1.1173875390652066e-6,
  -2.6707938505232676e-7, 6.046994996400379e-8, -1.3000250237427124e-8, 2.6598238334063495e-9, -5.189794011206672e-10,
  9.675810153098041e-11, -1.726806198032449e-11, 2.9547440882904397e-12, -4.853860369191665e-13, 7.661579703999166e-14,
  -1.1882855810441129e-14, 2.05e-15,
];
// biome-ignore format: a table
const FAR = [
  0.4022452055070507, 0.0033691164782630803, 6.889758346183446e-5, 2.891370528116527e-6, 2.0489185169900517e-7,
  2.266669701586621e-8, 3.3962249553452784e-9, 4.940672142239588e-10, 1.1882252994033227e-11, -3.149248223310863e-11,
  -1.3222560850054133e-11, -1.7874382529647903e-12, 7.115230713644616e-13, 3.915756607852927e-13, 9.01e-15,
  -3.524958103184872e-14, -1.582067810090848e-14,
];
/** exp(-|x|) times the modified Bessel function of the first kind, of order 0. */
export const i0e = (x: Expr): Expr =>
  inWide(floating(x), (wide) => {
    const y = abs(wide);
    const isNear = le(y, 8);
    const far = where(isNear, 8, y); // neither branch leaves its own range, where its gradient might not be finite
    return where(
      isNear,
      chebyshev(NEAR, sub(div(where(isNear, y, 8), 4), 1)),
      div(chebyshev(FAR, sub(div(16, far), 1)), sqrt(far)),
    );
  });
/** The modified Bessel function of the first kind, of order 0. */
export const i0 = (x: Expr): Expr => inWide(floating(x), (y) => mul(exp(abs(y)), i0e(y)));
