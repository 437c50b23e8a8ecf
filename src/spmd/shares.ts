// The number of devices that share the examples of a computation.

import { collect } from '../ir/graph.js';
import { BATCH_AXES, Mesh } from '../ir/mesh.js';
import { meshesIn } from '../ops/prim/body.js';
import { recordOf } from '../runtime/record.js';
import type { Tensor } from '../tensor/tensor.js';

export const batchAxes = (mesh: Mesh): readonly string[] => BATCH_AXES.filter((axis) => mesh.axisNames.includes(axis));
/** Axes whose devices have different tokens. */
const SHARED = [...BATCH_AXES, 'sequence'];

/** The number of devices with different examples, in the mesh that a tensor is computed on; 1 without a mesh. */
export function sharesOf(t: Tensor): number {
  if (!Mesh.exists) return 1;
  for (const e of collect([t.expr]).nodes) {
    const mesh = meshesIn(e)[0] ?? recordOf(e).sharding?.mesh;
    if (mesh) return mesh.sizeOf(mesh.axisNames.filter((axis) => SHARED.includes(axis)));
  }
  return 1;
}
