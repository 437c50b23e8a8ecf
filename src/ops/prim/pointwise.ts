import { ArgumentError, DTypeError } from '../../base/errors.js';
import { isFloat, isInteger, isUnsigned } from '../../base/promote.js';
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
import { full, zerosLike } from './constant.js';
import { custom } from './custom.js';
import { type Accepts, checkSame, comparing, define } from './define.js';
import {
  anything,
  type Binary,
  binary,
  bitwise,
  float1,
  float2,
  floats,
  integers,
  numbers,
  pointwise,
  type Unary,
  unary,
  withExact,
} from './define-pointwise.js';
import { convert } from './move.js';

// ---- arithmetic

export interface Scaled {
  readonly alpha?: number;
}
const plus = binary('add', 'add', anything, (g) => [g, g]);
const minus = binary('sub', 'subtract', numbers, (g) => [g, neg(g)]);
const withAlpha =
  (name: string, op: Binary) =>
  (a: Operand, b: Operand, { alpha = 1 }: Scaled = {}): Expr => {
    if (alpha === 1) return op(a, b);
    if (!isExpr(b)) return op(a, Number(b) * alpha);
    const dtype = resultTypeOf(name, [a, b]);
    if (!isFloat(dtype) && !Number.isInteger(alpha)) {
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
export const fmod = binary('fmod', 'remainder', numbers, (g, a, b) => [g, neg(mul(g, trunc(div(a, b))))]);
/** Whether a remainder lies on the other side of zero than its divisor. */
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
  // What is left without the rest divides evenly, up to rounding.
  const even = isFloat(a.dtype) ? round(divide(sub(a, rest), b)) : divide(a, b);
  const down = sub(even, convert(across(rest, b), a.dtype));
  return isFloat(a.dtype) ? where(eq(b, 0), divide(a, b), down) : down;
});

/** Of equal operands each gets half the gradient, as in torch; of one that is not a number, all. */
const toGreater = (g: Expr, a: Expr, b: Expr): Expr => where(lt(a, b), 0, where(eq(a, b), mul(g, 0.5), g));
export const maximum = binary('maximum', 'maximum', anything, (g, a, b) => [toGreater(g, a, b), toGreater(g, b, a)]);
export const minimum = binary('minimum', 'minimum', anything, (g, a, b) => [toGreater(g, b, a), toGreater(g, a, b)]);

// ---- rounding and sign

const absOp = unary('abs', 'abs', numbers, (g, x) => mul(g, sign(x)));
export const abs = (x: Expr): Expr => (isUnsigned(x.dtype) ? x : absOp(x));
const signOp = custom<[Expr]>(
  'sign',
  ([x]) => sub(convert(gt(x, 0), x.dtype), convert(lt(x, 0), x.dtype)), // 0 for NaN, as in torch
  (g) => [zerosLike(g)],
);
/** -1, 0 or 1. */
export const sign = (x: Expr): Expr => (x.dtype === 'bool' ? x : signOp([x], null));

/** Integers are whole already. */
const rounding = (name: string, hlo: string): Unary => {
  const op = unary(name, hlo, numbers, zerosLike);
  return (x) => (isInteger(x.dtype) ? x : op(x));
};
export const floor = rounding('floor', 'floor');
export const ceil = rounding('ceil', 'ceil');
export const trunc = (x: Expr): Expr => (isInteger(x.dtype) ? x : where(lt(x, 0), ceil(x), floor(x)));
const roundEven = rounding('round', 'round_nearest_even');
/** To the nearest number with so many decimals (negative: tens, hundreds), ties to even. */
export function round(x: Expr, { decimals = 0 }: { readonly decimals?: number } = {}): Expr {
  const scale = 10 ** Math.abs(decimals);
  if (!decimals) return roundEven(x);
  return decimals > 0 ? div(roundEven(mul(x, scale)), scale) : mul(roundEven(div(x, scale)), scale);
}

// ---- exponential, trigonometric, special

export const exp = float1('exp', 'exponential', (g, _, y) => mul(g, y));
export const expm1 = float1('expm1', 'exponential_minus_one', (g, x) => mul(g, exp(x)));
export const log = float1('log', 'log', (g, x) => div(g, x));
export const log1p = float1('log1p', 'log_plus_one', (g, x) => div(g, add(x, 1)));
export const sqrt = float1('sqrt', 'sqrt', (g, _, y) => div(g, mul(2, y)));
export const rsqrt = float1('rsqrt', 'rsqrt', (g, _, y) => mul(g, mul(-0.5, mul(y, mul(y, y)))));
export const cbrt = float1('cbrt', 'cbrt', (g, _, y) => div(g, mul(3, mul(y, y))));
const logistic = float1('sigmoid', 'logistic', (g, _, y) => mul(g, mul(y, sub(1, y))));
export const sigmoid = (x: Expr): Expr => inWide(floating(x), logistic); // exp(12) is too large for f16
export const sin = float1('sin', 'sine', (g, x) => mul(g, cos(x)));
export const cos = float1('cos', 'cosine', (g, x) => neg(mul(g, sin(x))));
/** The angle of the point (b, a), whose gradient at the origin is 0. */
export const atan2 = float2('atan2', 'atan2', (g, a, b) => {
  const square = add(mul(a, a), mul(b, b));
  const scaled = where(eq(square, 0), 0, div(g, where(eq(square, 0), 1, square)));
  return [mul(scaled, b), neg(mul(scaled, a))];
});
/** The next number after a on the way to b. */
export const nextafter = float2('nextafter', 'chlo.next_after', (g, a, b) => [where(eq(a, b), 0, g), zerosLike(g)]);
export const tan = float1('tan', 'chlo.tan', (g, _, y) => mul(g, add(mul(y, y), 1)));
export const asin = float1('asin', 'chlo.asin', (g, x) => mul(g, rsqrt(sub(1, mul(x, x)))));
export const acos = float1('acos', 'chlo.acos', (g, x) => neg(mul(g, rsqrt(sub(1, mul(x, x))))));
export const atan = float1('atan', 'chlo.atan', (g, x) => div(g, add(mul(x, x), 1)));
export const sinh = float1('sinh', 'chlo.sinh', (g, x) => mul(g, cosh(x)));
export const cosh = float1('cosh', 'chlo.cosh', (g, x) => mul(g, sinh(x)));
export const tanh = float1('tanh', 'tanh', (g, _, y) => mul(g, sub(1, mul(y, y))));
export const asinh = float1('asinh', 'chlo.asinh', (g, x) => mul(g, rsqrt(add(mul(x, x), 1))));
export const acosh = float1('acosh', 'chlo.acosh', (g, x) => mul(g, rsqrt(sub(mul(x, x), 1))));
export const atanh = float1('atanh', 'chlo.atanh', (g, x) => div(g, sub(1, mul(x, x))));
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
  if (n === 0) return digamma(y);
  return where(isposinf(y), 0, polygammaOp(full(y.shape, n, y.dtype), y)); // XLA has NaN there
};
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
});
const comparison =
  (direction: string): Binary =>
  (a, b) =>
    compareOp(align(direction.toLowerCase(), [a, b]) as [Expr, Expr], { direction });
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
});
export const isfinite: Unary = (x) => (isFloat(x.dtype) ? isFiniteOp([x], null) : full(x.shape, true, 'bool'));
export const isnan: Unary = (x) => ne(x, x);
const equals =
  (value: number): Unary =>
  (x) =>
    isFloat(x.dtype) ? eq(x, value) : full(x.shape, false, 'bool');
export const isposinf = equals(Number.POSITIVE_INFINITY);
export const isneginf = equals(Number.NEGATIVE_INFINITY);
export const isinf: Unary = (x) => logicalOr(isposinf(x), isneginf(x));

const selectOp = define<[Expr, Expr, Expr]>({
  name: 'select',
  infer: ([, a, b]) => checkSame('where', [a, b]),
  lower: (e, xs, _, out) => e.op('select', xs, [out])[0]!,
  vjp: (g, [c]) => [null, where(c, g, zerosLike(g)), where(c, zerosLike(g), g)],
});
/**
 * a where the condition holds, else b. Unlike torch: as a method it is the condition's, condition.where(a, b); without
 * a and b: nonzero.
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
