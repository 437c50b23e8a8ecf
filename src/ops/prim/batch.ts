// Batching for vmap: rewrites the graph of one example for many, node by node, by the batching rule of each op. Stacked values
// have the examples along their first dimension.
import { ArgumentError } from '../../base/errors.js';
import { range } from '../../base/shape.js';
import type { Expr } from '../../ir/expr.js';
import { collect } from '../../ir/graph.js';
import { isHooked } from '../../ir/hooks.js';
import type { Lane } from '../../ir/op.js';
import { withSource } from '../../ir/source.js';
import { Body, oldestOf, parameter, withInputs } from './body.js';
import { broadcastInDim } from './broadcast.js';
import { PICK } from './define.js';
import { permute } from './move.js';

/** Caches a function of a node and a number, so that it always returns the same node: loops are identified by their inputs. */
function remembered(make: (x: Expr, n: number) => Expr): (x: Expr, n: number) => Expr {
  const known = new WeakMap<Expr, Map<number, Expr>>();
  return (x, n) => {
    const of = known.get(x) ?? new Map<number, Expr>();
    known.set(x, of);
    if (!of.has(n)) of.set(n, make(x, n));
    return of.get(n)!;
  };
}
/** Repeats a value n times along a new first dimension. */
export const stack = remembered((x, n) =>
  broadcastInDim(
    x,
    [n, ...x.shape],
    range(x.shape.length).map((d) => d + 1),
  ),
);
export const stackLane = ({ x, stacked }: Lane, n: number): Expr => (stacked ? x : stack(x, n));

/** Moves the first dimension to `to`. */
export const frontTo = remembered((x, to) => {
  const dims = range(x.shape.length).slice(1);
  return permute(x, [...dims.slice(0, to), 0, ...dims.slice(to)]);
});
/** Moves dimension `from` to the front. */
export const toFront = remembered((x, from) => permute(x, [from, ...range(x.shape.length).filter((d) => d !== from)]));

/** The results for n examples, given stacked values of some nodes. Nodes that do not depend on those are kept. */
export function batched(roots: readonly Expr[], given: ReadonlyMap<Expr, Lane>, n: number): Lane[] {
  const oldest = oldestOf(given.keys());
  const lanes = new Map(given);
  const several = new Map<Expr, readonly Lane[]>(); // of ops with several results
  const laneOf = (e: Expr): Lane => lanes.get(e) ?? { x: e, stacked: false };
  for (const e of collect(roots, (x) => given.has(x) || x.serial < oldest).nodes) {
    if (lanes.has(e) || e.serial < oldest) continue;
    const picked = e.op === PICK ? several.get(e.inputs[0]!) : undefined;
    if (picked) {
      lanes.set(e, picked[(e.attrs as { index: number }).index]!);
      continue;
    }
    const inputs = e.inputs.map(laneOf);
    if (inputs.some((l) => l.stacked)) {
      const results = withSource(e.source, () => e.op.batch!(e, inputs, n, (x) => stack(x, n)));
      checkRule(e, results, n);
      if (isHooked(e) && results.some((l) => l.x.differentiable)) throw new ArgumentError(HOOKED);
      if (e.avals) several.set(e, results);
      else lanes.set(e, results[0]!);
    } else if (inputs.some((l, i) => l.x !== e.inputs[i])) {
      const x = withInputs(
        e,
        inputs.map((l) => l.x),
      );
      lanes.set(e, { x, stacked: false });
    }
  }
  return roots.map(laneOf);
}

const HOOKED =
  'vmap: a backward hook or tensor hook belongs to one example, and the gradient is taken of all: take it inside of the function (tx.grad), or remove the hook';

/** A rule that makes something else would show up far away, or not at all. */
function checkRule({ op, aval, avals = [aval] }: Expr, results: readonly Lane[], n: number): void {
  avals.forEach((type, i) => {
    const want = results[i]!.stacked ? type.withShape([n, ...type.shape]) : type;
    const { aval: got } = results[i]!.x;
    if (got !== want) throw new Error(`the batching rule of ${op.name} gives ${got} for result ${i}, not ${want}`);
  });
}

export interface BatchedBody {
  readonly body: Body;
  /** Which results are stacked. */
  readonly stacked: readonly boolean[];
}
/** The body for n examples. `given`: which parameters are stacked; `wanted`: which results must be stacked. */
export function batchBody(
  body: Body,
  given: readonly boolean[],
  n: number,
  wanted: (i: number) => boolean = () => false,
): BatchedBody {
  const { params, results, narrower } = body;
  const own = params.map((p, i) => parameter(given[i] ? p.aval.withShape([n, ...p.shape]) : p.aval, i));
  const lanes = batched(results, new Map(params.map((p, i) => [p, { x: own[i]!, stacked: given[i]! }])), n);
  const stacked = lanes.map((l, i) => l.stacked || wanted(i));
  const outs = lanes.map((l, i) => (stacked[i] ? stackLane(l, n) : l.x));
  return { body: new Body(own, outs, narrower && batchBody(narrower, given, n, wanted).body), stacked };
}
