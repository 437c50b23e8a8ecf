// How pointwise primitives are declared: operands and result have one type, to which `align` converts the arguments.
import { DTYPES, type DType } from '../../base/dtype.js';
import { decodeFloats, encodeNumbers } from '../../base/float.js';
import { isComplex, isFloat, isInexact, isInteger, kindOf } from '../../base/promote.js';
import type { Expr } from '../../ir/expr.js';
import { align, alignFloats, floating, isExpr, type Operand } from './align.js';
import { conjugate } from './complex.js';
import { type Accepts, checkDType, checkSame, define, type Each, keepingNaN, same } from './define.js';
import { convert } from './move.js';

export type Unary = (x: Expr) => Expr;
export type Binary = (a: Operand, b: Operand) => Expr;
export const anything: Accepts = [() => true, 'anything'];
export const ordered: Accepts = [
  (d) => !isComplex(d),
  'numbers that have an order, not complex ones (use abs() or real())',
];
export const realNumbers: Accepts = [(d) => kindOf(d) === 1 || isFloat(d), 'real numbers'];
export const inexact: Accepts = [isInexact, 'floating point or complex numbers'];
export const numbers: Accepts = [
  (d) => kindOf(d) > 0,
  'numbers (for booleans: logicalNot, logicalXor, or convert them)',
];
export const floats: Accepts = [isFloat, 'floating point numbers'];
export const bitwise: Accepts = [(d) => !isInexact(d), 'integers or booleans'];
export const integers: Accepts = [isInteger, 'integers'];

/** A primitive whose operands and result have one type. `hlo` names StableHLO's op, or CHLO's with its prefix. */
export function pointwise<X extends readonly Expr[]>(
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
    lower: (e, xs, _, out) => {
      const given = Object.values(xs) as string[];
      return given.length === 2 ? keepingNaN(e, hlo, given, out) : e.op(hlo, given, [out])[0]!;
    },
    // Of a holomorphic function the gradient is g * conj(f'(z)), and conj(f'(z)) is f'(conj(z)): its rule for real numbers serves.
    ...(vjp && {
      vjp: (g, xs, _, y) =>
        isComplex(y.dtype) ? vjp(g, xs.map(conjugate) as unknown as X, conjugate(y)) : vjp(g, xs, y),
    }),
    batch: same,
  });
  return (...xs) => op(xs, null);
}

/** One operand. Integers are taken as floats where the function needs them. */
export const float1 = (
  name: string,
  hlo: string,
  vjp?: (g: Expr, x: Expr, y: Expr) => Expr,
  accepts: Accepts = floats,
): Unary => {
  const op = pointwise<[Expr]>(name, hlo, accepts, vjp && ((g, [x], y) => [vjp(g, x, y)]));
  return (x) => op(floating(x));
};
/** A function that complex numbers have, too. */
export const analytic = (name: string, hlo: string, vjp: (g: Expr, x: Expr, y: Expr) => Expr): Unary =>
  float1(name, hlo, vjp, inexact);
export const unary = (
  name: string,
  hlo: string,
  accepts: Accepts,
  vjp?: (g: Expr, x: Expr, y: Expr) => Expr | null,
): Unary => pointwise<[Expr]>(name, hlo, accepts, vjp && ((g, [x], y) => [vjp(g, x, y)]));

/** Two operands, which meet in one dtype and shape first. */
export const binary = (
  name: string,
  hlo: string,
  accepts: Accepts,
  vjp?: (g: Expr, a: Expr, b: Expr, y: Expr) => [Expr, Expr],
): Binary => {
  const op = pointwise<[Expr, Expr]>(name, hlo, accepts, vjp && ((g, [a, b], y) => vjp(g, a, b, y)));
  return (a, b) => op(...(align(name, [a, b]) as [Expr, Expr]));
};

/** A number that a small float would round is not rounded before the product is, as in torch. */
export const withExact =
  (op: Binary): Binary =>
  (a, b) => {
    if (isExpr(a) === isExpr(b)) return op(a, b);
    const [{ dtype }, n] = isExpr(a) ? [a, Number(b)] : [b as Expr, Number(a)];
    if (!isFloat(dtype) || DTYPES[dtype].bytes > 2 || rounded(n, dtype) === n) return op(a, b);
    const wide = (x: Operand) => (isExpr(x) ? convert(x, 'f32') : x);
    return convert(op(wide(a), wide(b)), dtype);
  };
const rounded = (x: number, dtype: DType): number => Number(decodeFloats(dtype, encodeNumbers(dtype, [x]))[0]);

/** The same in floating point. */
export const float2 = (
  name: string,
  hlo: string,
  vjp: (g: Expr, a: Expr, b: Expr, y: Expr) => [Expr, Expr],
): Binary => {
  const op = pointwise<[Expr, Expr]>(name, hlo, floats, (g, [a, b], y) => vjp(g, a, b, y));
  return (a, b) => op(...(alignFloats(name, [a, b]) as [Expr, Expr]));
};
