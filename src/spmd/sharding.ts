// Saying how tensors lie on the devices of a mesh.

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
 * Splits a tensor over a mesh, in place: `spec` names, for each dimension, the axis it is split along, or null. A value that
 * is there is brought to its devices when it is next used; inside a step it is a wish that XLA follows. What the tensor
 * becomes later (an optimizer's update) lies the same way.
 */
export function markSharding(tensor: Tensor, mesh: Mesh, spec: PartitionSpec): Tensor {
  return mark('markSharding: the tensor', tensor, mesh, spec);
}

/** The same; `what` names the tensor in errors. */
export function mark(what: string, tensor: Tensor, mesh: Mesh, spec: PartitionSpec): Tensor {
  const sharding = checked(what, tensor, mesh, spec);
  events.count('shardingMarked');
  if (hasValue(tensor.expr)) ownRecord(tensor.expr).sharding = sharding;
  else tensor.reroute((e) => constrained(unmarked(e), sharding));
  return tensor;
}

/** A tensor that was split lies whole on one device again, when it is next used. */
export function unmark(tensor: Tensor): Tensor {
  gatherNoMore(tensor);
  if (!hasValue(tensor.expr)) tensor.reroute(unmarked);
  tensor.cell.unplace();
  return tensor;
}

/** A tensor of the same values, split over a mesh; gradients pass. */
export function shard(tensor: Tensor, mesh: Mesh, spec: PartitionSpec): Tensor {
  return new Tensor(constrained(tensor.expr, checked('shard: the tensor', tensor, mesh, spec)));
}

/** A tensor of the same values that every device of a mesh has whole; gradients pass. */
export const replicate = (tensor: Tensor, mesh: Mesh): Tensor => shard(tensor, mesh, []);

/** [A B, ...] as A micro-batches, [A, B, ...]: where AB is split over devices, each micro-batch is. */
export function microBatches(batch: Tensor, A: number): Tensor {
  const parts = batch.reshape([A, -1, ...batch.shape.slice(1)]);
  const now = batch.peek();
  const sharding = now && recordOf(now).sharding;
  return sharding?.axes.length ? shard(parts, sharding.mesh, [null, ...sharding.spec]) : parts;
}

/** How a tensor lies on several devices; undefined where one has it, or it is not decided. */
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
    throw new ArgumentError(`${what}: the spec is ${describe(spec)}: it is a list such as ['data', null]`);
  return Sharding.of(mesh, spec as PartitionSpec, tensor.shape, named);
}
