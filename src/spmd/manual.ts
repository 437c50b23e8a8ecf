// shardMap and collectives: code that states what every device does with its part and what devices exchange.

import { manual } from '../autograd/manual.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { type Mesh, type PartitionSpec, Sharding } from '../ir/mesh.js';
import { entry } from '../ir/source.js';
import * as collective from '../ops/prim/collective.js';
import { Tensor } from '../tensor/tensor.js';
import { callUser } from '../tensor/trees.js';
import { checkMesh } from './sharding.js';

export interface ShardMapOptions<A extends Tensor[], R> {
  readonly mesh: Mesh;
  /** The spec of each argument; along axes not in the spec it is replicated. */
  readonly in: { readonly [K in keyof A]: PartitionSpec };
  /** How the results are put together: a spec for a tensor, a list of specs for a list of tensors. */
  readonly out: R extends Tensor ? PartitionSpec : readonly PartitionSpec[];
  /** Whether a result that may differ along an axis not in its spec is an error. Default: true. */
  readonly check?: boolean;
}

/**
 * Returns a function on whole tensors that runs fn on every device of the mesh with that device's parts. Collectives exchange
 * values between devices.
 */
export function shardMap<A extends Tensor[], R extends Tensor | readonly Tensor[]>(
  fn: (...parts: A) => R,
  options: ShardMapOptions<A, R>,
): (...args: A) => R {
  const { mesh, in: specs, out, check = true } = options;
  checkMesh('shardMap', mesh);
  for (const [name, list] of Object.entries({ in: specs, out }))
    if (!Array.isArray(list)) throw new ArgumentError(`shardMap: '${name}' is ${describe(list)}: it must be a list`);
  return entry((...args: A): R => {
    const outer = collective.openRegion();
    if (outer)
      throw new ArgumentError(
        `shardMap: called inside another shardMap, which already uses all axes of its mesh (${outer}): use collectives there`,
      );
    const xs = exprs('argument', args);
    checkSpecs('arguments', xs.length, 'in', specs);
    const ins = xs.map((x, i) => Sharding.of(mesh, specs[i]!, x.shape, `shardMap: argument ${i}`));
    let isList = false;
    const outs = manual(
      mesh,
      xs,
      ins,
      (parts) => {
        const result = callUser('shardMap', fn, ...(parts.map((p) => new Tensor(p)) as A));
        isList = Array.isArray(result);
        if (isList && !(result as readonly Tensor[]).length)
          throw new ArgumentError('shardMap: the function returned an empty list: it must return at least one tensor');
        return exprs('result', (isList ? result : [result]) as readonly unknown[]);
      },
      (parts) => {
        const list = (isList ? out : [out]) as readonly PartitionSpec[];
        checkSpecs('results', parts.length, 'out', list);
        return parts.map((part, i) => {
          const whole = part.shape.map((n, d) => n * mesh.sizeOf(list[i]![d] ?? []));
          const sharding = Sharding.of(mesh, list[i]!, whole, `shardMap: result ${i}`);
          if (check) checkAlike(part, mesh, sharding, `shardMap: result ${i}`);
          return sharding;
        });
      },
    ).map((e) => new Tensor(e));
    return (isList ? outs : outs[0]) as unknown as R;
  });
}

function operand(what: string, x: unknown): Expr {
  if (x instanceof Tensor) return x.expr;
  throw new ArgumentError(`${what} is ${describe(x)}: it must be a tensor`);
}

const exprs = (what: string, list: readonly unknown[]): Expr[] =>
  list.map((x, i) => operand(`shardMap: ${what} ${i}`, x));

/** A spec for each of them. */
function checkSpecs(what: string, count: number, name: 'in' | 'out', specs: readonly PartitionSpec[]): void {
  const wrong = [...specs].find((spec) => !Array.isArray(spec));
  if (wrong !== undefined)
    throw new ArgumentError(
      `shardMap: '${name}' has ${describe(wrong)} as a spec: each of the ${what} needs a list, such as ['data', null]`,
    );
  if (specs.length !== count)
    throw new ArgumentError(`shardMap: ${count} ${what} but ${specs.length} specs in '${name}': give one for each`);
}

/** Along axes that a spec omits, all devices must have the same value: only one of them is used. */
function checkAlike(part: Expr, mesh: Mesh, { axes }: Sharding, what: string): void {
  const left = mesh.axisNames.filter((axis) => mesh.sizeOf(axis) > 1 && !axes.flat().includes(axis));
  const differs = left.filter((axis) => collective.differencesOf(part).includes(axis));
  if (!differs.length) return;
  const names = differs.join(', ');
  throw new ArgumentError(
    `${what}, parts of ${part.aval}, may differ along ${names}, which is not in its spec: ` +
      `allReduce or allGather it along ${names}, or name ${names} in 'out' (if it is the same on all: { check: false })`,
  );
}

// ---- collectives

/** An axis of the mesh, or several, counted together: the first is the coarsest. */
export type Axes = string | readonly string[];

function along(what: string, axes: Axes): collective.Along {
  const mesh = collective.openRegion();
  if (!mesh)
    throw new ArgumentError(`${what}: called outside of a manual region: call it in the function given to shardMap`);
  const list = typeof axes === 'string' ? [axes] : axes;
  list.forEach((axis, i) => {
    if (!mesh.axisNames.includes(axis))
      throw new ArgumentError(`${what}: unknown axis ${axis}: the mesh ${mesh} has ${mesh.axisNames.join(', ')}`);
    if (list.indexOf(axis) !== i) throw new ArgumentError(`${what}: ${axis} is given twice in [${list.join(', ')}]`);
  });
  return { mesh, axes: list };
}

/** A collective as users call it. */
function collectiveOf<O extends object>(
  name: string,
  options: readonly (keyof O & string)[],
  run: (x: Expr, along: collective.Along, options: O) => Expr,
) {
  return entry((x: Tensor, axes: Axes, ...[given]: object extends O ? [options?: O] : [options: O]): Tensor => {
    const where = along(name, axes);
    checkOptions(name, options, given);
    return new Tensor(run(operand(`${name}: x`, x), where, given ?? ({} as O)));
  });
}

const REDUCERS: readonly string[] = ['sum', 'mean', 'min', 'max'] satisfies collective.Reducer[];
function checkReducer<R extends collective.Reducer>(what: string, op: R, known = REDUCERS): R {
  if (known.includes(op)) return op;
  throw new ArgumentError(`${what}: op is ${describe(op)}: it must be one of ${known.join(', ')}`);
}

export interface AllReduceOptions {
  /** Default: sum; min and max have no gradient. */
  readonly op?: collective.Reducer;
}
/** The sum, mean, minimum or maximum over the devices along the axes, on each of them. */
export const allReduce = collectiveOf<AllReduceOptions>('allReduce', ['op'], (x, where, { op = 'sum' }) =>
  collective.allReduce(x, where, checkReducer('allReduce', op)),
);

export interface AllGatherOptions {
  /** Default: 0. */
  readonly dim?: number;
  /** true concatenates along dim, false stacks along a new dimension. Default: true. */
  readonly tiled?: boolean;
}
/** The values of all devices along the axes, on each of them. */
export const allGather = collectiveOf<AllGatherOptions>(
  'allGather',
  ['dim', 'tiled'],
  (x, where, { dim = 0, tiled = true }) => collective.allGather(x, where, dim, tiled),
);

export interface ReduceScatterOptions {
  /** Default: 0. */
  readonly dim?: number;
  readonly op?: 'sum' | 'mean';
}
/** The sum or mean over the devices along the axes; each device gets its part of a dimension. */
export const reduceScatter = collectiveOf<ReduceScatterOptions>(
  'reduceScatter',
  ['dim', 'op'],
  (x, where, { dim = 0, op = 'sum' }) =>
    collective.reduceScatter(x, where, dim, checkReducer('reduceScatter', op, REDUCERS.slice(0, 2))),
);

export interface AllToAllOptions {
  readonly splitDim: number;
  readonly concatDim: number;
}
/** Each device splits splitDim, sends one part to each device along the axes, and joins the received parts along concatDim. */
export const allToAll = collectiveOf<AllToAllOptions>(
  'allToAll',
  ['splitDim', 'concatDim'],
  (x, where, { splitDim, concatDim }) => collective.allToAll(x, where, splitDim, concatDim),
);

/** For each pair the first device sends its value to the second; devices that receive nothing get zeros. */
export const permute = entry((x: Tensor, axes: Axes, pairs: collective.Pairs): Tensor => {
  const where = along('permute', axes);
  return new Tensor(collective.permute(operand('permute: x', x), where, pairs));
});

/** The index of the device along the axes: an i32. */
export const axisIndex = entry((axes: Axes): Tensor => new Tensor(collective.axisIndex(along('axisIndex', axes))));

/** The number of devices along the axes. */
export const axisSize = (axes: Axes): number => {
  const { mesh, axes: list } = along('axisSize', axes);
  return mesh.sizeOf(list);
};
