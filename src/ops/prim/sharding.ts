// How a value is to lie on the devices of a mesh: a wish inside a program, which XLA's partitioner follows.
import type { Expr } from '../../ir/expr.js';
import type { Sharding } from '../../ir/mesh.js';
import { define } from './define.js';

const constraintOp = define<[Expr], { sharding: Sharding }>({
  name: 'shardingConstraint',
  infer: ([x]) => x,
  lower: (e, [x], { sharding }, out) =>
    e.op('sdy.sharding_constraint', [x], [out], { sharding: e.sharding(sharding, out.rank) })[0]!,
  vjp: (g, _, { sharding }) => [constrain(g, sharding)],
});

/** What it was before someone said how it is to lie. */
export const unconstrained = (e: Expr): Expr => (e.op.name === 'shardingConstraint' ? (e.inputs[0] ?? e) : e);
/** The same value, split like that. A gradient that passes is split the same way. */
export const constrain = (x: Expr, sharding: Sharding): Expr => constraintOp([x], { sharding });
