// Manual regions: every device of a mesh runs a function on its own parts of arrays.
import { ArgumentError } from '../base/errors.js';
import { range, type Shape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { type Mesh, Sharding } from '../ir/mesh.js';
import type { Ssa } from '../ir/op.js';
import { batchBody } from '../ops/prim/batch.js';
import { Body, captured, parameter, substitute, trace } from '../ops/prim/body.js';
import { allReduce, differsAlong, insideRegion, writeRegion } from '../ops/prim/collective.js';
import { defineMulti } from '../ops/prim/define.js';
import { atLeast1, reshape } from '../ops/prim/move.js';
import { div } from '../ops/prim/pointwise.js';
import { unsplitFirst } from '../ops/prim/sharding.js';
import { residuals } from './scan.js';
import { gradients } from './sweep.js';

interface Attrs {
  readonly mesh: Mesh;
  /** Of each device's parts. */
  readonly body: Body;
  readonly ins: readonly Sharding[];
  readonly outs: readonly Sharding[];
}

const manualOp: (xs: readonly Expr[], attrs: Attrs) => Expr[] = defineMulti<readonly Expr[], Attrs>({
  name: 'manual',
  infer: (_, { body, outs }) => body.results.map(({ aval }, i) => aval.withShape(wholeShape(aval.shape, outs[i]!))),
  lower: (e, xs, { mesh, body, ins, outs }, types) => {
    const inside = (parts: readonly Ssa[]) => insideRegion(mesh, () => body.emit(e, parts));
    if (mesh.size === 1) return inside(xs); // XLA takes no regions out of a program for one device
    const parts = body.params.map((p) => p.aval);
    return writeRegion(e, mesh, xs, { shardings: ins, types: parts }, { shardings: outs, types }, inside);
  },
  vjp: (gs, xs, attrs) => transposed(gs, xs, attrs),
  // Every device has its parts of all examples.
  batch: ({ xs, stacked, attrs: { mesh, body, ins, outs }, n }) => {
    const inside = batchBody(body, stacked, n);
    const along = (list: readonly Sharding[], is: readonly boolean[]) =>
      list.map((s, i) => (is[i] ? unsplitFirst(s) : s));
    const results = manualOp(xs, {
      mesh,
      body: inside.body,
      ins: along(ins, stacked),
      outs: along(outs, inside.stacked),
    });
    return results.map((x, i) => ({ x, stacked: inside.stacked[i]! }));
  },
  covers: (wide, narrow) =>
    wide.mesh.key === narrow.mesh.key &&
    narrow.ins.every((s, i) => s === wide.ins[i]) &&
    narrow.outs.every((s, i) => s === wide.outs[i]) &&
    wide.body.covers(narrow.body),
});

const wholeShape = (part: Shape, sharding: Sharding): number[] =>
  sharding.parts(part.length).map((n, d) => n * part[d]!);

/** The axes along which all devices have the same part. */
const unsplit = (mesh: Mesh, { axes }: Sharding): string[] =>
  mesh.axisNames.filter((axis) => !axes.flat().includes(axis));

/**
 * Runs a function on each device's parts. `ins` describe how the arrays are split; `outsOf` returns how the resulting parts are
 * put together. Values that the function captures are replicated.
 */
export function manual(
  mesh: Mesh,
  xs: readonly Expr[],
  ins: readonly Sharding[],
  run: (parts: readonly Expr[]) => readonly Expr[],
  outsOf: (parts: readonly Expr[]) => readonly Sharding[],
): Expr[] {
  const parts = xs.map(({ aval }, i) => aval.withShape(ins[i]!.shardShape(aval.shape)));
  const inside = (params: readonly Expr[]) => run(params.map((p, i) => differsAlong(p, ins[i]!.axes.flat())));
  const advice = 'return it, and change it outside';
  const { params, results, cells, born } = insideRegion(mesh, () => trace(parts, inside, advice));
  if (cells.size)
    throw new ArgumentError(
      'shardMap: the function draws random numbers, which would be the same on every device: draw them outside and pass them in, split',
    );
  if (collect(results, (e) => e.serial < born).nodes.some((e) => e.op.name === 'shardingConstraint'))
    throw new ArgumentError(
      'shardMap: shard(), replicate() and markSharding() cannot be used inside, where a tensor is the part of one device: use allGather, or slice by axisIndex',
    );
  const fixed = captured(params, results, born, { whole: true });
  const body = new Body([...fixed, ...params], results);
  const whole = fixed.map(() => Sharding.replicated(mesh));
  return manualOp([...fixed, ...xs], { mesh, body, ins: [...whole, ...ins], outs: outsOf(results) });
}

/**
 * The gradient: a region that is given the parts of the results' gradients. What devices had alike got the gradient of one
 * whole result, so each is given its share; what they were given alike gets the sum of theirs.
 */
function transposed(gs: readonly (Expr | null)[], xs: readonly Expr[], attrs: Attrs): (Expr | null)[] {
  const { mesh, body, ins, outs } = attrs;
  const partOf = (p: Expr, sharding: Sharding, wanted: boolean) =>
    differsAlong(parameter(p.aval, 0, wanted), sharding.axes.flat());
  const params = body.params.map((p, i) => partOf(p, ins[i]!, xs[i]!.differentiable));
  const results = body.apply(params);
  const given = range(gs.length).filter((i) => gs[i] && results[i]!.differentiable);
  const seeds = given.map((i) => partOf(results[i]!, outs[i]!, true));
  const flow = gradients(
    given.map((i) => results[i]!),
    given.map((i, k) => div(seeds[k]!, mesh.sizeOf(unsplit(mesh, outs[i]!)))),
    params,
  );
  const reached = range(xs.length).filter((i) => flow[i]);
  if (!reached.length) return xs.map(() => null);
  const sums = reached.map((i) => allReduce(flow[i]!, { mesh, axes: unsplit(mesh, ins[i]!) }));

  // What it needs of the first region: what was given, or what that region saves, each device its own.
  const { saved } = residuals(sums, params, results, { fixed: 0, checkpoint: false });
  const again = saved.filter((e) => params.includes(e));
  const kept = saved.filter((e) => !params.includes(e));
  const own = kept.map(() => Sharding.along(mesh, [mesh.axisNames]));
  const wide = new Body(params, [...results, ...kept.map(atLeast1)], body);
  const keeping = kept.length ? manualOp(xs, { mesh, body: wide, ins, outs: [...outs, ...own] }) : [];
  const standIns = kept.map((e) => parameter(atLeast1(e).aval));
  const back = manualOp(
    [...again.map((e) => xs[params.indexOf(e)]!), ...keeping.slice(results.length), ...given.map((i) => gs[i]!)],
    {
      mesh,
      body: new Body(
        [...again, ...standIns, ...seeds],
        substitute(sums, new Map(kept.map((e, k) => [e, reshape(standIns[k]!, e.shape)]))),
      ),
      ins: [...again.map((e) => ins[params.indexOf(e)]!), ...own, ...given.map((i) => outs[i]!)],
      outs: reached.map((i) => ins[i]!),
    },
  );
  return xs.map((_, i) => back[reached.indexOf(i)] ?? null);
}
