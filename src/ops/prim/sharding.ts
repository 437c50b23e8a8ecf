// Sharding constraints inside a program, which XLA's partitioner follows.
import type { Expr } from '../../ir/expr.js';
import { Sharding } from '../../ir/mesh.js';
import { define, shifted } from './define.js';

/** For arrays with one dimension more in front, which every device has whole. */
export const unsplitFirst = ({ mesh, axes }: Sharding): Sharding => Sharding.along(mesh, [[], ...axes]);

const constraintOp = define<[Expr], { sharding: Sharding }>({
  name: 'shardingConstraint',
  infer: ([x]) => x,
  lower: (e, [x], { sharding }, out) =>
    e.op('sdy.sharding_constraint', [x], [out], { sharding: e.sharding(sharding, out.rank) })[0]!,
  vjp: (g, _, { sharding }) => [constrain(g, sharding)],
  batch: shifted(({ sharding }) => ({ sharding: unsplitFirst(sharding) })),
});

/** The value before sharding constraints. */
export const unconstrained = (e: Expr): Expr => (e.op.name === 'shardingConstraint' ? (e.inputs[0] ?? e) : e);
/** The same value with a sharding. Its gradient has the same sharding. */
export const constrain = (x: Expr, sharding: Sharding): Expr => constraintOp([x], { sharding });
