// Grouped products, one matrix for each group of rows: linear layers inside of experts.
import { ArgumentError } from '../base/errors.js';
import { groupedDot } from '../ops/prim/grouped.js';
import { cast } from '../tensor/autocast.js';
import { Tensor } from '../tensor/tensor.js';

let groups: Tensor | null = null;
/** While fn runs, rows [m, D] lie in groups of these sizes, i32[G], and the weights of linear layers are [G, out, in]. */
export function inGroups<T>(sizes: Tensor, fn: () => T): T {
  const before = groups;
  groups = sizes;
  try {
    return fn();
  } finally {
    groups = before;
  }
}

/** Rows in groups, each times the transpose of its group's weight; null where rows are in no groups. */
export function groupedProduct(x: Tensor, weight: Tensor, bias?: Tensor | null): Tensor | null {
  if (!groups || weight.ndim < 3) return null;
  if (bias) throw new ArgumentError(`experts: a linear layer has a bias ${bias.aval}: create it with bias: false`);
  const [rows, matrices] = cast('groupedMm', [x.expr, weight.expr] as const);
  return new Tensor(groupedDot(rows, matrices, groups.expr, { contract: 2 }));
}
