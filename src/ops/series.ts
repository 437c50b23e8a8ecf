// Series that functions are computed by.
import type { Expr } from '../ir/expr.js';
import { zerosLike } from './prim/constant.js';
import { add, mul, sub } from './prim/pointwise.js';

/** The sum of c[k] T_k(t), by Clenshaw's recurrence. */
export function chebyshev(all: readonly number[], t: Expr): Expr {
  const c = t.dtype === 'f64' ? all : all.filter((x) => Math.abs(x) > 1e-9);
  let [b1, b2] = [zerosLike(t), zerosLike(t)];
  for (const x of c.slice(1).toReversed()) [b1, b2] = [add(sub(mul(mul(t, 2), b1), b2), x), b1];
  return add(sub(mul(t, b1), b2), c[0]!);
}
