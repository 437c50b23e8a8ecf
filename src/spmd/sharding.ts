// Shardings of tensors over the devices of a mesh: markSharding, shard, replicate.

import { ArgumentError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { Mesh, type PartitionSpec, Sharding } from '../ir/mesh.js';
import { constrain, unconstrained } from '../ops/prim/sharding.js';
import { isVariable } from '../ops/prim/variable.js';
import { events } from '../runtime/events.js';
import { ownRecord, recordOf } from '../runtime/record.js';
import { hasValue } from '../runtime/value.js';
import { Tensor } from '../tensor/tensor.js';
import { gatherNoMore } from './gathered.js';

/**
 * Shards a tensor over a mesh, in place: `spec` has the axis to split along for each dimension, or null. An existing value is
 * moved to its devices at the next use; inside a step it is a sharding constraint for XLA. Later values of the tensor (an
 * optimizer's update) have the same sharding.
 */
export function markSharding(tensor: Tensor, mesh: Mesh, spec: PartitionSpec): Tensor {
  return mark('markSharding: the tensor', tensor, mesh, spec);
}

/** The same; `what` names the tensor in errors. */
export function mark(what: string, tensor: Tensor, mesh: Mesh, spec: PartitionSpec): Tensor {
  const sharding = checked(what, tensor, mesh, spec);
  events.count('shardingMarked');
  marks.set(tensor, { mesh, axes: sharding.axes, rank: tensor.ndim });
  if (hasValue(tensor.expr)) ownRecord(tensor.expr).sharding = sharding;
  else tensor.reroute((e) => constrained(unmarked(e), sharding));
  return tensor;
}

/** What a tensor was marked with. A replicated sharding has the mesh of the first that asked for it. */
interface Mark {
  readonly mesh: Mesh;
  readonly axes: readonly (readonly string[])[];
  readonly rank: number;
}
const marks = new WeakMap<Tensor, Mark>();
/**
 * The mesh that a tensor was marked for, and the axes that its dimensions are split along: also in a loop over layers, where a
 * parameter is a variable that has one dimension less and no sharding.
 */
export function markOf(tensor: Tensor): Pick<Mark, 'mesh' | 'axes'> | undefined {
  const mark = Mesh.exists ? marks.get(tensor) : undefined;
  return mark && { mesh: mark.mesh, axes: mark.axes.slice(mark.rank - tensor.ndim) };
}

/** Removes the sharding: the tensor is moved to one device at the next use. */
export function unmark(tensor: Tensor): Tensor {
  gatherNoMore(tensor);
  marks.delete(tensor);
  if (!hasValue(tensor.expr)) tensor.reroute(unmarked);
  tensor.cell.unplace();
  return tensor;
}

/** The same values, sharded over a mesh. Differentiable. */
export function shard(tensor: Tensor, mesh: Mesh, spec: PartitionSpec): Tensor {
  return new Tensor(constrained(tensor.expr, checked('shard: the tensor', tensor, mesh, spec)));
}

/** The same values, replicated on every device of a mesh. Differentiable. */
export const replicate = (tensor: Tensor, mesh: Mesh): Tensor => shard(tensor, mesh, []);

/** [A B, ...] as A micro-batches, [A, B, ...]. If AB is split over devices, each micro-batch is, too. */
export function microBatches(batch: Tensor, A: number): Tensor {
  const parts = batch.reshape([A, -1, ...batch.shape.slice(1)]);
  const now = batch.peek();
  const sharding = now && recordOf(now).sharding;
  return sharding?.axes.length ? shard(parts, sharding.mesh, [null, ...sharding.spec]) : parts;
}

/** The sharding of a tensor; undefined if it is on one device, or not decided yet. */
export const shardingOf = (tensor: Tensor): Sharding | undefined => tensor.cell.sharding;

/** Without what was said before of how it is to lie: that may have been on other devices. */
function unmarked(e: Expr): Expr {
  const variable = e.op.name === 'detach' && isVariable(e.inputs[0]!) ? e.inputs[0]! : undefined;
  const marked = variable ? variable.inputs[0] : e;
  return marked && unconstrained(marked) !== marked ? unconstrained(marked) : e;
}

function constrained(e: Expr, sharding: Sharding): Expr {
  const node = constrain(e, sharding);
  ownRecord(node).sharding = sharding;
  return node;
}

export function checkMesh(what: string, mesh: unknown): asserts mesh is Mesh {
  if (!(mesh instanceof Mesh)) throw new ArgumentError(`${what}: takes a Mesh, got ${describe(mesh)}`);
}

function checked(named: string, tensor: unknown, mesh: unknown, spec: unknown): Sharding {
  const what = named.split(':')[0]!;
  if (!(tensor instanceof Tensor)) throw new ArgumentError(`${what}: takes a tensor, got ${describe(tensor)}`);
  checkMesh(what, mesh);
  if (!Array.isArray(spec))
    throw new ArgumentError(`${what}: the spec is ${describe(spec)}: it must be a list such as ['data', null]`);
  return Sharding.of(mesh, spec as PartitionSpec, tensor.shape, named);
}
