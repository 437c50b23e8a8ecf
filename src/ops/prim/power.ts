// Powers. Above the other pointwise primitives, as those of integers are a loop.
import { ArgumentError } from '../../base/errors.js';
import { isComplex, isInteger } from '../../base/promote.js';
import type { Expr } from '../../ir/expr.js';
import { align, isExpr, resultTypeOf } from './align.js';
import { realPart } from './complex.js';
import { full } from './constant.js';
import { type Binary, binary, numbers } from './define-pointwise.js';
import {
  abs,
  bitwiseAnd,
  bitwiseRightShift,
  eq,
  ge,
  log,
  logicalAnd,
  maximum,
  mul,
  ne,
  sub,
  where,
} from './pointwise.js';
import { reduceOr } from './reduce.js';
import { whileLoop } from './while.js';

const power = binary('pow', 'power', numbers, (g, a, b, y) => {
  const exponent = realPart(b);
  // Where a rule has a pole that the function has not, the pole is stepped around before it can become 0 * infinity.
  const constant = eq(b, 0);
  const atZero = logicalAnd(eq(a, 0), ge(exponent, 0));
  return [
    where(constant, 0, mul(g, mul(b, power(a, where(constant, 1, sub(b, 1)))))),
    mul(g, mul(y, log(where(atZero, 1, a)))),
  ];
});
/** Of integers, by squaring: XLA's own looks at six bits of the exponent. Negative powers are 0, but for 1 and -1. */
function wholePower(a: Expr, b: Expr): Expr {
  const isOdd = (n: Expr) => ne(bitwiseAnd(n, 1), 0);
  const [, , y] = whileLoop(
    [a, maximum(b, 0), full(a.shape, 1, a.dtype)],
    ([, rest]) => reduceOr(ne(rest!, 0)),
    ([base, rest, product]) => [
      mul(base!, base!),
      bitwiseRightShift(rest!, 1),
      where(isOdd(rest!), mul(product!, base!), product!),
    ],
  ) as [Expr, Expr, Expr];
  return where(ge(b, 0), y, where(eq(abs(a), 1), where(isOdd(b), a, 1), 0));
}
/** a to the power b; either may be a number. */
export const pow: Binary = (a, b) => {
  const dtype = resultTypeOf('pow', [a, b]);
  // XLA's power of complex numbers goes by logarithms: products are exact.
  if (isComplex(dtype) && isExpr(a) && (b === 2 || b === 3)) return b === 2 ? mul(a, a) : mul(mul(a, a), a);
  if (!isInteger(dtype)) return power(a, b);
  if (isExpr(b)) return wholePower(...(align('pow', [a, b]) as [Expr, Expr]));
  if (Number(b) >= 0) return Number(b) < 64 ? power(a, b) : wholePower(...(align('pow', [a, b]) as [Expr, Expr]));
  throw new ArgumentError(
    `pow: ${isExpr(a) ? a.aval : a} to the power ${b}: integers have no negative powers: convert to floats first`,
  );
};
