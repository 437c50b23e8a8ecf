// Grouped products, one matrix for each group of rows: linear layers inside of experts.
import { ArgumentError } from '../base/errors.js';
import type { Mesh } from '../ir/mesh.js';
import { groupedDot } from '../ops/prim/grouped.js';
import { shardMap } from '../spmd/manual.js';
import { cast } from '../tensor/autocast.js';
import { Tensor } from '../tensor/tensor.js';

/** Devices that have rows and matrices of their own: the axes of the mesh along which each of them is split. */
export interface Split {
  readonly mesh: Mesh;
  readonly rows: readonly string[];
  readonly matrices: readonly string[];
}
interface Groups {
  readonly sizes: Tensor;
  readonly split: Split | null;
}

let groups: Groups | null = null;
/**
 * While fn runs, rows [m, D] lie in groups of these sizes, i32[G], and the weights of linear layers are [G, out, in]. With
 * `split`, each device has rows and sizes of its own.
 */
export function inGroups<T>(sizes: Tensor, split: Split | null, fn: () => T): T {
  const before = groups;
  groups = { sizes, split };
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
  const { sizes, split } = groups;
  if (!split) return product(x, weight, sizes);
  const { mesh, rows, matrices } = split;
  return shardMap(product, { mesh, in: [[rows], [matrices], [rows]], out: [rows] })(x, weight, sizes);
}

function product(x: Tensor, weight: Tensor, sizes: Tensor): Tensor {
  const [rows, matrices] = cast('groupedMm', [x.expr, weight.expr] as const);
  return new Tensor(groupedDot(rows, matrices, sizes.expr, { contract: 2 }));
}
