// How a value is to lie on the devices of a mesh: a wish inside a program, which XLA's partitioner follows.
import type { Expr } from '../ir/expr.js';
import type { Sharding } from '../ir/mesh.js';
import { define } from './define.js';

interface Constraint {
  readonly sharding: Sharding;
  /** Dimensions that are not split may be, if XLA finds it better. */
  readonly open: boolean;
}
const constraintOp: (xs: [Expr], attrs: Constraint) => Expr = define<[Expr], Constraint>({
  name: 'shardingConstraint',
  infer: ([x]) => x,
  lower: (e, [x], { sharding, open }, out) =>
    e.op('sdy.sharding_constraint', [x], [out], { sharding: e.sharding(sharding, out.rank, open) })[0]!,
  vjp: (g, _, attrs) => [constraintOp([g], attrs)],
});

/** The same value, split like that. A gradient that passes is split the same way. */
export const constrain = (x: Expr, sharding: Sharding, { open = false }: Partial<Constraint> = {}): Expr =>
  constraintOp([x], { sharding, open });
