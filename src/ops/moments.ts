// What normalizations share: mean and variance over some dimensions.
import type { Expr } from '../ir/expr.js';
import { square } from './math.js';
import { convert } from './prim/move.js';
import { add, mul, rsqrt, sub } from './prim/pointwise.js';
import { mean } from './reduction.js';

/** Low precision is computed in f32. */
export const widened = (x: Expr): Expr => (x.dtype === 'f64' ? x : convert(x, 'f32'));

/** The mean over some dimensions, which are kept with size 1, and the mean square of the distances from it. */
export function moments(x: Expr, dims: readonly number[]): { readonly centered: Expr; mean: Expr; variance: Expr } {
  const over = { dim: dims, keepdim: true };
  const middle = mean(x, over);
  const centered = sub(x, middle);
  return { centered, mean: middle, variance: mean(square(centered), over) };
}

/** Mean 0 and variance 1 over some dimensions. */
export function standardize(x: Expr, dims: readonly number[], eps: number): Expr {
  const { centered, variance } = moments(x, dims);
  return mul(centered, rsqrt(add(variance, eps)));
}
