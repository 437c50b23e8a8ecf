// Element by element.
import type { DType } from '../base/dtype.js';
import { isFloat, isInteger, kindOf } from '../base/promote.js';
import { broadcastShapes } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { align, floating, floatingType, isExpr, type Operand, resultType, shapeOf } from './align.js';
import { full, zerosLike } from './constant.js';
import { checkDType, checkSame, define, type Each } from './define.js';
import { broadcastTo, convert } from './move.js';

type Unary = (x: Expr) => Expr;
type Binary = (a: Operand, b: Operand) => Expr;
type Accepts = readonly [accepts: (d: DType) => boolean, what: string];
const anything: Accepts = [() => true, 'anything'];
const numbers: Accepts = [(d) => kindOf(d) > 0, 'numbers'];
const floats: Accepts = [isFloat, 'floating point numbers'];
const bitwise: Accepts = [(d) => !isFloat(d), 'integers or booleans'];
const integers: Accepts = [isInteger, 'integers'];

/** A primitive whose operands and result have one type. `hlo` names StableHLO's op, or CHLO's with its prefix. */
function pointwise<X extends readonly Expr[]>(
  name: string,
  hlo: string,
  accepts: Accepts,
  vjp?: (g: Expr, xs: NoInfer<X>, y: Expr) => NoInfer<Each<X, Expr | null>>,
): (...xs: X) => Expr {
  const op = define<X, null>({
    name,
    infer: (xs) => {
      const avals = Object.values(xs) as never[];
      checkDType(name, avals, ...accepts);
      return checkSame(name, avals);
    },
    lower: (e, xs, _, out) => e.op(hlo, Object.values(xs) as string[], [out])[0]!,
    ...(vjp && { vjp: (g, xs, _, y) => vjp(g, xs, y) }),
  });
  return (...xs) => op(xs, null);
}

/** One operand. Integers are taken as floats where the function needs them. */
const float1 = (name: string, hlo: string, vjp?: (g: Expr, x: Expr, y: Expr) => Expr): Unary => {
  const op = pointwise<[Expr]>(name, hlo, floats, vjp && ((g, [x], y) => [vjp(g, x, y)]));
  return (x) => op(floating(x));
};
const unary = (name: string, hlo: string, accepts: Accepts, vjp?: (g: Expr, x: Expr, y: Expr) => Expr | null): Unary =>
  pointwise<[Expr]>(name, hlo, accepts, vjp && ((g, [x], y) => [vjp(g, x, y)]));

/** Two operands, which meet in one dtype and shape first. */
const binary = (
  name: string,
  hlo: string,
  accepts: Accepts,
  vjp?: (g: Expr, a: Expr, b: Expr, y: Expr) => [Expr, Expr],
): Binary => {
  const op = pointwise<[Expr, Expr]>(name, hlo, accepts, vjp && ((g, [a, b], y) => vjp(g, a, b, y)));
  return (a, b) => op(...(align(name, [a, b]) as [Expr, Expr]));
};

// ---- arithmetic

export const neg = unary('neg', 'negate', numbers, (g) => neg(g));
export const add = binary('add', 'add', anything, (g) => [g, g]);
export const sub = binary('sub', 'subtract', numbers, (g) => [g, neg(g)]);
export const mul = binary('mul', 'multiply', anything, (g, a, b) => [mul(g, b), mul(g, a)]);
const divide = binary('div', 'divide', numbers, (g, a, b) => [div(g, b), neg(div(mul(g, a), mul(b, b)))]);
/** True division: integers give floats. */
export const div: Binary = (a, b) => {
  const dtype = floatingType(resultType(a, b));
  return divide(...(align('div', [a, b], dtype) as [Expr, Expr]));
};
/** The remainder with the sign of the dividend, as C and torch.fmod have it. */
export const fmod = binary('fmod', 'remainder', numbers, (g, a, b) => [g, neg(mul(g, trunc(div(a, b))))]);
export const pow = binary('pow', 'power', numbers, (g, a, b, y) => [
  where(eq(b, 0), zerosLike(g), mul(g, mul(b, pow(a, sub(b, 1))))),
  where(logicalAnd(eq(a, 0), ge(b, 0)), zerosLike(g), mul(g, mul(y, log(a)))),
]);
export const atan2 = binary('atan2', 'atan2', floats, (g, a, b) => {
  const scaled = div(g, add(mul(a, a), mul(b, b)));
  return [mul(scaled, b), neg(mul(scaled, a))];
});
/** Of equal operands each gets half the gradient, as in torch. */
const toGreater = (g: Expr, a: Expr, b: Expr): Expr => mul(g, where(eq(a, b), half(g), convert(gt(a, b), g.dtype)));
const half = (x: Expr): Expr => full(x.shape, 0.5, x.dtype);
export const maximum = binary('maximum', 'maximum', anything, (g, a, b) => [toGreater(g, a, b), toGreater(g, b, a)]);
export const minimum = binary('minimum', 'minimum', anything, (g, a, b) => [toGreater(g, b, a), toGreater(g, a, b)]);

export const abs = unary('abs', 'abs', numbers, (g, x) => mul(g, sign(x)));
export const sign = unary('sign', 'sign', numbers, zerosLike);
export const floor = unary('floor', 'floor', floats, zerosLike);
export const ceil = unary('ceil', 'ceil', floats, zerosLike);
/** To the nearest whole number, ties to even. */
export const round = unary('round', 'round_nearest_even', floats, zerosLike);
export const trunc = (x: Expr): Expr => (isFloat(x.dtype) ? mul(sign(x), floor(abs(x))) : x);

// ---- exponential, trigonometric, special

export const exp = float1('exp', 'exponential', (g, _, y) => mul(g, y));
export const expm1 = float1('expm1', 'exponential_minus_one', (g, _, y) => mul(g, add(y, 1)));
export const log = float1('log', 'log', (g, x) => div(g, x));
export const log1p = float1('log1p', 'log_plus_one', (g, x) => div(g, add(x, 1)));
export const sqrt = float1('sqrt', 'sqrt', (g, _, y) => div(g, mul(2, y)));
export const rsqrt = float1('rsqrt', 'rsqrt', (g, x, y) => mul(g, mul(-0.5, div(y, x))));
export const cbrt = float1('cbrt', 'cbrt', (g, _, y) => div(g, mul(3, mul(y, y))));
export const sigmoid = float1('sigmoid', 'logistic', (g, _, y) => mul(g, mul(y, sub(1, y))));
export const sin = float1('sin', 'sine', (g, x) => mul(g, cos(x)));
export const cos = float1('cos', 'cosine', (g, x) => neg(mul(g, sin(x))));
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
export const erf = float1('erf', 'chlo.erf', (g, x) => mul(g, mul(2 / Math.sqrt(Math.PI), exp(neg(mul(x, x))))));
export const erfc = float1('erfc', 'chlo.erfc', (g, x) => mul(g, mul(-2 / Math.sqrt(Math.PI), exp(neg(mul(x, x))))));
export const erfinv = float1('erfinv', 'chlo.erf_inv', (g, _, y) =>
  mul(g, mul(Math.sqrt(Math.PI) / 2, exp(mul(y, y)))),
);
export const lgamma = float1('lgamma', 'chlo.lgamma', (g, x) => mul(g, digamma(x)));
export const digamma = float1('digamma', 'chlo.digamma', (g, x) => mul(g, polygamma(1, x)));
/** The n-th derivative of digamma. */
export const polygamma: Binary = (n, x) =>
  polygammaOp(...(align('polygamma', [n, x], floatingType(resultType(x))) as [Expr, Expr]));
const polygammaOp = pointwise<[Expr, Expr]>('polygamma', 'chlo.polygamma', floats, (g, [n, x]) => [
  null,
  mul(g, polygamma(add(n, 1), x)),
]);

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
  (resultType(a, b).startsWith('u') ? shiftLogical : shiftArithmetic)(a, b);
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
  lower: (e, xs, { direction }, out) =>
    e.op('compare', xs, [out], { comparison_direction: `#stablehlo<comparison_direction ${direction}>` })[0]!,
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
export const isinf: Unary = (x) =>
  isFloat(x.dtype) ? eq(abs(x), full([], Number.POSITIVE_INFINITY, x.dtype)) : full(x.shape, false, 'bool');

const selectOp = define<[Expr, Expr, Expr]>({
  name: 'select',
  infer: ([c, a, b]) => {
    checkDType('where', [c], (d) => d === 'bool', 'a boolean condition');
    return checkSame('where', [a, b]);
  },
  lower: (e, xs, _, out) => e.op('select', xs, [out])[0]!,
  vjp: (g, [c]) => [null, where(c, g, zerosLike(g)), where(c, zerosLike(g), g)],
});
/** a where the condition holds, else b. */
export function where(condition: Expr, a: Operand, b: Operand): Expr {
  const shape = broadcastShapes('where', condition.shape, shapeOf(a), shapeOf(b));
  const [x, y] = align('where', [a, b], resultType(a, b), shape) as [Expr, Expr];
  return selectOp([broadcastTo(condition, shape), x, y], null);
}
