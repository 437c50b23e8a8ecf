// FSDP parameters: split to save memory, gathered where they are used.
import type { Expr } from '../ir/expr.js';
import { Mesh, Sharding } from '../ir/mesh.js';
import { define, shifted } from '../ops/prim/define.js';
import { constrain, unsplitFirst } from '../ops/prim/sharding.js';
import { Tensor } from '../tensor/tensor.js';

/** Gathers along some axes; the gradient is reduced and scattered along them. */
const gatherOp = define<[Expr], { whole: Sharding; split: Sharding }>({
  name: 'gatherShards',
  infer: ([x]) => x,
  lower: (e, [x], { whole }, out) =>
    e.op('sdy.sharding_constraint', [x], [out], { sharding: e.sharding(whole, out.rank) })[0]!,
  // Whole first: the rows of a table that examples of all devices touched are summed on each, not sent to where they belong.
  vjp: (g, _, { whole, split }) => [constrain(constrain(g, whole), split)],
  batch: shifted(({ whole, split }) => ({ whole: unsplitFirst(whole), split: unsplitFirst(split) })),
});

interface Split {
  readonly mesh: Mesh;
  readonly axes: readonly (readonly string[])[];
  readonly rank: number;
  /** The axes that are gathered. */
  readonly along: readonly string[];
}
const splits = new WeakMap<Tensor, Split>();

/** Makes `gathered` gather this tensor along an axis. */
export function gatherAlong(t: Tensor, { mesh, axes }: Sharding, axis: string): void {
  splits.set(t, { mesh, axes, rank: t.ndim, along: [...(splits.get(t)?.along ?? []), axis] });
}

/** Removes a tensor from those that are gathered. */
export const gatherNoMore = (t: Tensor): void => void splits.delete(t);

/** Gathers a parameter that fsdp has split; returns other tensors unchanged. */
export function gathered<T extends Tensor | null>(t: T): T | Tensor {
  const known = Mesh.exists && t ? splits.get(t) : undefined;
  if (!known || !t) return t;
  const { mesh, axes, rank, along } = known;
  const own = axes.slice(rank - t.ndim); // of one of several layers whose parameters are stacked
  const split = Sharding.along(mesh, own);
  const whole = Sharding.along(
    mesh,
    own.map((list) => list.filter((axis) => !along.includes(axis))),
  );
  return new Tensor(gatherOp([t.expr], { whole, split }));
}
