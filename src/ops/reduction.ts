// Reductions as torch has them: over some dimensions or all, which are dropped or kept with size 1.
import { isFloat } from '../base/promote.js';
import type { Expr } from '../ir/expr.js';
import { floating } from './align.js';
import { convert } from './move.js';
import { div } from './pointwise.js';
import { type DimOption, reduceMax, reduceMin, reduceOver, reduceSum } from './reduce.js';

/** Integers and booleans are summed as i64, as in torch. */
export const sum = (x: Expr, dim?: DimOption): Expr =>
  reduceOver('sum', isFloat(x.dtype) ? x : convert(x, 'i64'), dim, reduceSum);
export const mean = (x: Expr, dim?: DimOption): Expr =>
  reduceOver('mean', floating(x), dim, (y, dims) =>
    div(
      reduceSum(y, dims),
      dims.reduce((n, d) => n * y.shape[d]!, 1),
    ),
  );
export const amax = (x: Expr, dim?: DimOption): Expr => reduceOver('amax', x, dim, reduceMax);
export const amin = (x: Expr, dim?: DimOption): Expr => reduceOver('amin', x, dim, reduceMin);
