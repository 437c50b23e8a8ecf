// Parameters that are split to save memory (fsdp), and whole where they are used.
import type { Expr } from '../ir/expr.js';
import { Mesh, Sharding } from '../ir/mesh.js';
import { define } from '../ops/prim/define.js';
import { constrain } from '../ops/prim/sharding.js';
import { Tensor } from '../tensor/tensor.js';

/** Whole along some axes; a gradient that passes is split along them again: it is reduced and scattered. */
const gatherOp = define<[Expr], { whole: Sharding; split: Sharding }>({
  name: 'gatherShards',
  infer: ([x]) => x,
  lower: (e, [x], { whole }, out) =>
    e.op('sdy.sharding_constraint', [x], [out], { sharding: e.sharding(whole, out.rank) })[0]!,
  // Whole first: the rows of a table that examples of all devices touched are summed on each, not sent to where they belong.
  vjp: (g, _, { whole, split }) => [constrain(constrain(g, whole), split)],
});

interface Split {
  readonly mesh: Mesh;
  readonly axes: readonly (readonly string[])[];
  readonly rank: number;
  /** The axes that are gathered. */
  readonly along: readonly string[];
}
const splits = new WeakMap<Tensor, Split>();

/** From now on `gathered` makes this tensor whole along an axis. */
export function gatherAlong(t: Tensor, { mesh, axes }: Sharding, axis: string): void {
  splits.set(t, { mesh, axes, rank: t.ndim, along: [...(splits.get(t)?.along ?? []), axis] });
}

/** From now on it is as it is. */
export const gatherNoMore = (t: Tensor): void => void splits.delete(t);

/** A parameter as it is used: whole where fsdp split it to save memory; any other tensor as it is. */
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
