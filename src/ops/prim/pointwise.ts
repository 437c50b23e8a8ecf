import { ArgumentError, DTypeError } from '../../base/errors.js';
import { isComplex, isFloat, isInexact, isInteger, isUnsigned, partType } from '../../base/promote.js';
import { broadcastShapes } from '../../base/shape.js';
import type { Expr } from '../../ir/expr.js';
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
} from './align.js';
import { broadcastTo } from './broadcast.js';
import { imagPart, realPart } from './complex.js';
import { full, zerosLike } from './constant.js';
import { custom } from './custom.js';
import { type Accepts, checkSame, comparing, define, same, typesOf } from './define.js';
import {
  analytic,
  anything,
  type Binary,
  binary,
  bitwise,
  float1,
  float2,
  floats,
  integers,
  numbers,
  ordered,
  pointwise,
  realNumbers,
  type Unary,
  unary,
  withExact,
} from './define-pointwise.js';
import { convert } from './move.js';

// ---- arithmetic

export interface Scaled {
  /** A boolean where the result is one. */
  readonly alpha?: number | boolean;
}
const plus = binary('add', 'add', anything, (g) => [g, g]);
const minus = binary('sub', 'subtract', numbers, (g) => [g, neg(g)]);
const withAlpha =
  (name: string, op: Binary) =>
  (a: Operand, b: Operand, { alpha = 1 }: Scaled = {}): Expr => {
    if (alpha === 1) return op(a, b);
    if (typeof alpha === 'boolean') {
      const dtype = resultTypeOf(name, [a, b]);
      if (dtype !== 'bool')
        throw new ArgumentError(`${name}: alpha is ${alpha}, but the result ${dtype}: use a number, 1 or 0`);
      return op(a, alpha ? b : isExpr(b) ? mul(b, false) : false);
    }
    if (!isExpr(b)) return op(a, Number(b) * alpha);
    const dtype = resultTypeOf(name, [a, b]);
    if (!isInexact(dtype) && !Number.isInteger(alpha)) {
      throw new ArgumentError(
        `${name}: alpha is ${alpha}, but the result ${dtype}: use a whole number, or convert first`,
      );
    }
    return op(a, mul(convert(b, dtype), dtype === 'bool' ? alpha !== 0 : alpha)); // they meet before it could wrap
  };
/** a + alpha * b. */
export const add = withAlpha('add', plus);
/** a - alpha * b. */
export const sub = withAlpha('sub', minus);
export const neg = unary('neg', 'negate', numbers, (g) => neg(g));
export const mul: Binary = withExact(binary('mul', 'multiply', anything, (g, a, b) => [mul(g, b), mul(g, a)]));

const divide = binary('div', 'divide', numbers, (g, _, b, y) => [divide(g, b), neg(mul(divide(g, b), y))]);
export interface Division {
  readonly roundingMode?: 'trunc' | 'floor' | null;
}
/** True division: integers give floats; rounded, they stay integers. Unlike torch: integers by 0 are no error then. */
export function div(a: Operand, b: Operand, { roundingMode = null }: Division = {}): Expr {
  if (roundingMode === 'floor') return floorDivide(a, b);
  if (roundingMode === 'trunc') return truncDivide(a, b);
  return withExact((x, y) => divide(...(alignFloats('div', [x, y]) as [Expr, Expr])))(a, b);
}
/** The remainder with the sign of the dividend, as C has it. Unlike torch: integers by 0 are no error. */
export const fmod = binary('fmod', 'remainder', realNumbers, (g, a, b) => [g, neg(mul(g, trunc(div(a, b))))]);
/** Whether a remainder and its divisor have different signs. */
const across = (rest: Expr, b: Expr): Expr => logicalAnd(ne(rest, 0), ne(lt(rest, 0), lt(b, 0)));
/** The remainder with the sign of the divisor, as Python has it. Unlike torch: integers by 0 are no error. */
export const remainder: Binary = (a, b) => {
  const [x, y] = align('remainder', [a, b]) as [Expr, Expr];
  const rest = fmod(x, y);
  return where(across(rest, y), add(rest, y), rest);
};
/** A quotient that is rounded has slope 0. */
const wholeDivide = (name: string, of: (a: Expr, b: Expr) => Expr): Binary => {
  const op = custom<[Expr, Expr]>(
    name,
    ([a, b]) => of(a, b),
    (g) => [zerosLike(g), zerosLike(g)],
  );
  return withExact((a, b) => op(align(name, [a, b]) as [Expr, Expr], null));
};
const truncDivide = wholeDivide('truncDivide', (a, b) => trunc(divide(a, b)));
/** Rounded down, not towards zero. Unlike torch: integers by 0 are no error. */
export const floorDivide = wholeDivide('floorDivide', (a, b) => {
  const rest = fmod(a, b);
  // x - remainder is divisible, up to rounding.
  const even = isFloat(a.dtype) ? round(divide(sub(a, rest), b)) : divide(a, b);
  const down = sub(even, convert(across(rest, b), a.dtype));
  return isFloat(a.dtype) ? where(eq(b, 0), divide(a, b), down) : down;
});

/** Of equal operands each gets half the gradient, as in torch; of one that is not a number, all. */
const toGreater = (g: Expr, a: Expr, b: Expr): Expr => where(lt(a, b), 0, where(eq(a, b), mul(g, 0.5), g));
export const maximum = binary('maximum', 'maximum', ordered, (g, a, b) => [toGreater(g, a, b), toGreater(g, b, a)]);
export const minimum = binary('minimum', 'minimum', ordered, (g, a, b) => [toGreater(g, b, a), toGreater(g, a, b)]);

// ---- rounding and sign

const absOp = unary('abs', 'abs', numbers, (g, x) => mul(g, sign(x)));
const magnitudeOp = define<[Expr]>({
  name: 'magnitude',
  infer: ([x]) => x.withDType(partType(x.dtype)),
  lower: (e, xs, _, out) => e.op('abs', xs, [out])[0]!,
  vjp: (g, [z]) => [mul(g, direction(z))],
  batch: same,
});
/** Of complex numbers the distance from 0, a float. */
export const abs = (x: Expr): Expr => {
  if (isComplex(x.dtype)) return magnitudeOp([x], null);
  return isUnsigned(x.dtype) ? x : absOp(x);
};
/** z / |z|, and 0 for 0. */
const direction = (z: Expr): Expr => {
  const isZero = eq(z, 0);
  return where(isZero, 0, div(z, abs(where(isZero, 1, z))));
};
const signOp = custom<[Expr]>(
  'sign',
  ([x]) => sub(convert(gt(x, 0), x.dtype), convert(lt(x, 0), x.dtype)), // 0 for NaN, as in torch
  (g) => [zerosLike(g)],
);
/** -1, 0 or 1. */
export const sign = (x: Expr): Expr => {
  if (isComplex(x.dtype)) throw new DTypeError(`sign: ${x.aval} has none: sgn() gives z / |z|`);
  return x.dtype === 'bool' ? x : signOp([x], null);
};
/** The sign; of complex numbers z / |z|, and 0 for 0. */
export const sgn = (x: Expr): Expr => (isComplex(x.dtype) ? direction(x) : sign(x));

/** Integers are whole already. */
const rounding = (name: string, hlo: string): Unary => {
  const op = unary(name, hlo, realNumbers, zerosLike);
  return (x) => (isInteger(x.dtype) ? x : op(x));
};
export const floor = rounding('floor', 'floor');
export const ceil = rounding('ceil', 'ceil');
export const trunc = (x: Expr): Expr => (isInteger(x.dtype) ? x : where(lt(x, 0), ceil(x), floor(x)));
const roundEven = rounding('round', 'round_nearest_even');
/** To the nearest number with this number of decimals (negative: tens, hundreds), ties to even. */
export function round(x: Expr, { decimals = 0 }: { readonly decimals?: number } = {}): Expr {
  const scale = 10 ** Math.abs(decimals);
  if (!decimals) return roundEven(x);
  return decimals > 0 ? div(roundEven(mul(x, scale)), scale) : mul(roundEven(div(x, scale)), scale);
}

// ---- exponential, trigonometric, special

export const exp = analytic('exp', 'exponential', (g, _, y) => mul(g, y));
export const expm1 = analytic('expm1', 'exponential_minus_one', (g, x) => mul(g, exp(x)));
export const log = analytic('log', 'log', (g, x) => div(g, x));
export const log1p = analytic('log1p', 'log_plus_one', (g, x) => div(g, add(x, 1)));
export const sqrt = analytic('sqrt', 'sqrt', (g, _, y) => div(g, mul(2, y)));
export const rsqrt = analytic('rsqrt', 'rsqrt', (g, _, y) => mul(g, mul(-0.5, mul(y, mul(y, y)))));
export const cbrt = float1('cbrt', 'cbrt', (g, _, y) => div(g, mul(3, mul(y, y))));
const logistic = analytic('sigmoid', 'logistic', (g, _, y) => mul(g, mul(y, sub(1, y))));
export const sigmoid = (x: Expr): Expr => inWide(floating(x), logistic); // exp(12) is too large for f16
export const sin = analytic('sin', 'sine', (g, x) => mul(g, cos(x)));
export const cos = analytic('cos', 'cosine', (g, x) => neg(mul(g, sin(x))));
/** The angle of the point (b, a), whose gradient at the origin is 0. */
export const atan2 = float2('atan2', 'atan2', (g, a, b) => {
  const square = add(mul(a, a), mul(b, b));
  const scaled = where(eq(square, 0), 0, div(g, where(eq(square, 0), 1, square)));
  return [mul(scaled, b), neg(mul(scaled, a))];
});
/** The next number after a on the way to b. */
export const nextafter = float2('nextafter', 'chlo.next_after', (g, a, b) => [where(eq(a, b), 0, g), zerosLike(g)]);
export const tan = analytic('tan', 'chlo.tan', (g, _, y) => mul(g, add(mul(y, y), 1)));
export const asin = analytic('asin', 'chlo.asin', (g, x) => mul(g, rsqrt(sub(1, mul(x, x)))));
export const acos = analytic('acos', 'chlo.acos', (g, x) => neg(mul(g, rsqrt(sub(1, mul(x, x))))));
export const atan = analytic('atan', 'chlo.atan', (g, x) => div(g, add(mul(x, x), 1)));
export const sinh = analytic('sinh', 'chlo.sinh', (g, x) => mul(g, cosh(x)));
export const cosh = analytic('cosh', 'chlo.cosh', (g, x) => mul(g, sinh(x)));
export const tanh = analytic('tanh', 'tanh', (g, _, y) => mul(g, sub(1, mul(y, y))));
export const asinh = analytic('asinh', 'chlo.asinh', (g, x) => mul(g, rsqrt(add(mul(x, x), 1))));
export const acosh = analytic('acosh', 'chlo.acosh', (g, x) =>
  mul(g, isComplex(x.dtype) ? mul(rsqrt(sub(x, 1)), rsqrt(add(x, 1))) : rsqrt(sub(mul(x, x), 1))),
);
export const atanh = analytic('atanh', 'chlo.atanh', (g, x) => div(g, sub(1, mul(x, x))));
const erfNear = float1('erfNear', 'chlo.erf'); // it stops at 0.99999982 in f32
const erfOp = custom<[Expr]>(
  'erf',
  ([x]) => where(lt(abs(x), 1), erfNear(x), mul(sign(x), sub(1, erfc(abs(x))))),
  (g, [x]) => [mul(g, mul(2 / Math.sqrt(Math.PI), exp(neg(mul(x, x)))))],
);
export const erf = (x: Expr): Expr => erfOp([floating(x)], null);
export const erfc = float1('erfc', 'chlo.erfc', (g, x) => mul(g, mul(-2 / Math.sqrt(Math.PI), exp(neg(mul(x, x))))));
export const erfinv = float1('erfinv', 'chlo.erf_inv', (g, _, y) =>
  mul(g, mul(Math.sqrt(Math.PI) / 2, exp(mul(y, y)))),
);
// In f32 within 1.3e-6 of torch's near its roots, 1 and 2; f64 would take XLA 5 s to compile for a TPU.
export const lgamma = float1('lgamma', 'chlo.lgamma', (g, x) => mul(g, digamma(x)));
const digammaAway = float1('digammaAway', 'chlo.digamma'); // from 0, where XLA has NaN
const digammaOp = custom<[Expr]>(
  'digamma',
  ([x]) => where(eq(x, 0), div(-1, x), digammaAway(x)),
  (g, [x]) => [mul(g, polygamma(1, x))],
);
export const digamma = (x: Expr): Expr => digammaOp([floating(x)], null);
/** The n-th derivative of digamma: polygamma(n, x), or x.polygamma(n). */
export const polygamma: Binary = (a, b) => {
  const [n, x] = isExpr(b) ? [a, b] : [b, a];
  if (isExpr(n) || !isExpr(x) || !Number.isInteger(Number(n)) || Number(n) < 0) {
    const order = isExpr(n) ? n.aval : n;
    throw new ArgumentError(`polygamma: takes a whole number and a tensor, got ${order}: write polygamma(1, x)`);
  }
  const y = floating(x);
  return n === 0 ? digamma(y) : inWide(y, (wide) => polygammaOf(Number(n), wide));
};
/**
 * Below 0 by reflection: XLA's series is for positive numbers. psi_n(x) = (-1)^n psi_n(1 - x) - pi d^n/dx^n cot(pi x),
 * whose derivatives are polynomials of the cotangent: of p(c) it is -pi (1 + c^2) p'(c).
 */
function polygammaOf(n: number, x: Expr): Expr {
  const below = lt(x, 0);
  const away = where(below, sub(1, x), where(logicalOr(isposinf(x), eq(x, 0)), 1, x));
  const series = polygammaOp(full(x.shape, n, x.dtype), away);
  let derivative = [0, 1]; // coefficients, of the cotangent itself
  for (let k = 0; k < n; k++) {
    const slope = derivative.slice(1).map((c, i) => -c * (i + 1));
    derivative = [...slope, 0, 0].map((c, i) => c + (slope[i - 2] ?? 0));
  }
  const fraction = where(below, sub(x, round(x)), 0.25); // near the pole, whose multiples of pi a float does not hold
  const pole = logicalOr(eq(x, 0), logicalAnd(below, eq(fraction, 0)));
  const angle = mul(where(pole, 0.25, fraction), Math.PI);
  const cot = div(cos(angle), sin(angle));
  const waves = derivative.reduceRight((sum, c) => add(mul(sum, cot), c), zerosLike(cot));
  const reflected = sub(n % 2 ? neg(series) : series, mul(waves, Math.PI ** (n + 1)));
  const sided = where(below, reflected, where(isposinf(x), n === 1 ? 0 : Number.NaN, series)); // torch's, too
  const end = full([], n % 2 ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY, x.dtype);
  return where(n === 1 ? pole : logicalOr(pole, isneginf(x)), end, sided);
}
const polygammaOp: (n: Expr, x: Expr) => Expr = pointwise<[Expr, Expr]>(
  'polygamma',
  'chlo.polygamma',
  floats,
  (g, [n, x]) => [null, mul(g, polygammaOp(add(n, 1), x))],
);

// ---- bits and truth

const bits = (name: string, hlo: string, accepts: Accepts = bitwise): Binary => binary(name, hlo, accepts);
export const bitwiseAnd = bits('bitwiseAnd', 'and');
export const bitwiseOr = bits('bitwiseOr', 'or');
export const bitwiseXor = bits('bitwiseXor', 'xor');
export const bitwiseNot = unary('bitwiseNot', 'not', bitwise);
export const bitwiseLeftShift = bits('bitwiseLeftShift', 'shift_left', integers);
const shiftArithmetic = bits('shiftRightArithmetic', 'shift_right_arithmetic', integers);
const shiftLogical = bits('shiftRightLogical', 'shift_right_logical', integers);
/** Keeps the sign of signed integers. */
export const bitwiseRightShift: Binary = (a, b) =>
  (isUnsigned(resultTypeOf('bitwiseRightShift', [a, b])) ? shiftLogical : shiftArithmetic)(a, b);
export const popcount = unary('popcount', 'popcnt', integers);

/** Not zero. */
export const truth = (x: Expr): Expr => (x.dtype === 'bool' ? x : ne(x, 0));
const onTruth =
  (op: Binary): Binary =>
  (a, b) =>
    op(isExpr(a) ? truth(a) : Boolean(a), isExpr(b) ? truth(b) : Boolean(b));
export const logicalAnd = onTruth(bitwiseAnd);
export const logicalOr = onTruth(bitwiseOr);
export const logicalXor = onTruth(bitwiseXor);
export const logicalNot: Unary = (x) => bitwiseNot(truth(x));

const compareOp = define<[Expr, Expr], { direction: string }>({
  name: 'compare',
  infer: (xs) => checkSame('compare', xs).withDType('bool'),
  lower: (e, xs, { direction }, out) => e.op('compare', xs, [out], comparing(direction, e.typeOf(xs[0]).dtype))[0]!,
  batch: same,
});
const comparison =
  (direction: string): Binary =>
  (a, b) => {
    const [x, y] = align(direction.toLowerCase(), [a, b]) as [Expr, Expr];
    if (isComplex(x.dtype) && direction !== 'EQ' && direction !== 'NE')
      throw new DTypeError(
        `${direction.toLowerCase()}: complex numbers have no order, got ${typesOf([x, y])}: compare abs() or real()`,
      );
    return compareOp([x, y], { direction });
  };
export const eq = comparison('EQ');
export const ne = comparison('NE');
export const lt = comparison('LT');
export const le = comparison('LE');
export const gt = comparison('GT');
export const ge = comparison('GE');

const isFiniteOp = define<[Expr]>({
  name: 'isFinite',
  infer: ([x]) => x.withDType('bool'),
  lower: (e, xs, _, out) => e.op('is_finite', xs, [out])[0]!,
  batch: same,
});
export const isfinite: Unary = (x) => {
  if (isComplex(x.dtype)) return logicalAnd(isfinite(realPart(x)), isfinite(imagPart(x)));
  return isFloat(x.dtype) ? isFiniteOp([x], null) : full(x.shape, true, 'bool');
};
export const isnan: Unary = (x) => ne(x, x);
const equals =
  (name: string, value: number): Unary =>
  (x) => {
    if (isComplex(x.dtype))
      throw new DTypeError(`${name}: complex numbers have no sign, got ${x.aval}: use isinf(), or real()`);
    return isFloat(x.dtype) ? eq(x, value) : full(x.shape, false, 'bool');
  };
export const isposinf = equals('isposinf', Number.POSITIVE_INFINITY);
export const isneginf = equals('isneginf', Number.NEGATIVE_INFINITY);
export const isinf: Unary = (x) =>
  isComplex(x.dtype) ? logicalOr(isinf(realPart(x)), isinf(imagPart(x))) : logicalOr(isposinf(x), isneginf(x));

const selectOp = define<[Expr, Expr, Expr]>({
  name: 'select',
  infer: ([, a, b]) => checkSame('where', [a, b]),
  lower: (e, xs, _, out) => e.op('select', xs, [out])[0]!,
  vjp: (g, [c]) => [null, where(c, g, zerosLike(g)), where(c, zerosLike(g), g)],
  batch: same,
});
/**
 * a where the condition holds, else b. As a method: x.where(condition, other), or condition.where(a, b) where a is no
 * condition. Unlike torch: without a and b there is nonzero(condition, { asTuple: true }).
 */
export function where(condition: Expr, a: Operand, b: Operand): Expr {
  if (condition.dtype !== 'bool') {
    throw new DTypeError(
      `where: the condition is ${condition.aval}, not booleans: compare first, and put it first: where(x.gt(0), a, b)`,
    );
  }
  const shape = broadcastShapes('where', condition.shape, shapeOf(a), shapeOf(b));
  const dtype = resultTypeOf('where', [a, b]);
  checkFits('where', [a, b], dtype);
  const [x, y] = align('where', [a, b], dtype, shape) as [Expr, Expr];
  return selectOp([broadcastTo(condition, shape), x, y], null);
}
