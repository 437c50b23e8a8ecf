// The reduction option that all losses share.
import { ArgumentError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import type { Operand } from './prim/align.js';
import { reduceSum } from './prim/broadcast.js';
import { div } from './prim/pointwise.js';

export type Reduction = 'mean' | 'sum' | 'none';
export interface Reduced {
  /** How the losses of the elements are reduced. Default: 'mean'. */
  readonly reduction?: Reduction;
}
export function reduced(
  op: string,
  losses: Expr,
  reduction: Reduction = 'mean',
  count: Operand = losses.aval.size,
): Expr {
  if (reduction === 'none') return losses;
  if (reduction === 'sum') return reduceSum(losses);
  if (reduction === 'mean') return div(reduceSum(losses), count);
  throw new ArgumentError(`${op}: reduction is '${reduction}': use 'mean', 'sum' or 'none'`);
}
