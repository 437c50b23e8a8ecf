// Branches: one of several bodies is chosen when the program runs. The gradient is a branch between the bodies' gradients,
// each of which computes its body again.
import type { Expr } from '../ir/expr.js';
import type { CellLike } from '../ir/scope.js';
import { batchBody } from '../ops/prim/batch.js';
import { Body, type Changed, captured, parameter, type Traced, trace } from '../ops/prim/body.js';
import { broadcastInDim } from '../ops/prim/broadcast.js';
import { zerosLike } from '../ops/prim/constant.js';
import { defineMulti, stackedLanes } from '../ops/prim/define.js';
import { convert } from '../ops/prim/move.js';
import { eq, where } from '../ops/prim/pointwise.js';
import { gradients } from './sweep.js';

type Operands = readonly [index: Expr, ...Expr[]];
interface Attrs {
  readonly branches: readonly Body[];
}
const caseOp: (xs: Operands, attrs: Attrs) => Expr[] = defineMulti<Operands, Attrs>({
  name: 'case',
  infer: (_, { branches }) => branches[0]!.results.map((r) => r.aval),
  lower: (e, [index, ...xs], { branches }, outs) =>
    e.op(
      'case',
      [index],
      outs,
      {},
      branches.map((b) => e.region([], () => b.emit(e, xs as string[]))),
    ),
  vjp: (gs, [index, ...xs], { branches }) => {
    const seeded = gs.flatMap((g, i) => (g ? [i] : []));
    const wrt = xs.flatMap((x, i) => (x.differentiable ? [i] : []));
    const parts = branches.map((b) => {
      const params = b.params.map((p, i) => parameter(p.aval, i, xs[i]!.differentiable));
      const results = b.apply(params);
      const seeds = seeded.map((i) => parameter(results[i]!.aval));
      const flow = gradients(
        seeded.map((i) => results[i]!),
        seeds,
        wrt.map((i) => params[i]!),
      );
      return { params, seeds, flow };
    });
    const reached = wrt.flatMap((i, k) => (parts.some((p) => p.flow[k]) ? [{ i, k }] : []));
    if (!reached.length) return [null, ...xs.map(() => null)];
    const outs = caseOp([index, ...xs, ...seeded.map((i) => gs[i]!)], {
      branches: parts.map(
        ({ params, seeds, flow }) =>
          new Body(
            [...params, ...seeds],
            reached.map(({ i, k }) => flow[k] ?? zerosLike(params[i]!)),
          ),
      ),
    });
    return [null, ...xs.map((_, i) => outs[reached.findIndex((r) => r.i === i)] ?? null)];
  },
  batch: ({ xs: [index, ...xs], stacked: [several, ...stacked], attrs: { branches }, n }) => {
    const first = branches.map((b) => batchBody(b, stacked, n).stacked);
    const isStacked = (i: number) => several || first.some((list) => list[i]);
    const bodies = branches.map((b) => batchBody(b, stacked, n, isStacked).body);
    if (!several) {
      const outs = caseOp([index, ...xs], { branches: bodies });
      return outs.map((x, i) => ({ x, stacked: isStacked(i) }));
    }
    // The condition differs between examples: every branch is computed for all of them.
    const all = bodies.map((b) => b.apply(xs));
    const last = all.pop()!;
    const chosen = last.map((other, i) =>
      all.reduceRight(
        (rest, results, k) => where(broadcastInDim(eq(index, k), rest.shape, [0]), results[i]!, rest),
        other,
      ),
    );
    return stackedLanes(chosen);
  },
});

/** The results of the first function if the condition is true, otherwise of the second. */
export function cond(
  condition: Expr,
  operands: readonly Expr[],
  yes: (xs: readonly Expr[]) => readonly Expr[],
  no: (xs: readonly Expr[]) => readonly Expr[],
): Expr[] {
  const avals = operands.map((x) => x.aval);
  const traces = [no, yes].map((run) => trace(avals, run));
  // State that either branch changes; the other one returns it unchanged.
  const cells = new Map<CellLike, Changed>(traces.flatMap((t) => [...t.cells]));
  const shared = [...cells].map(([cell, { before }]) => ({ cell, before }));
  const branch = (t: Traced) => {
    const state = shared.map(({ cell, before }) => {
      const inside = t.cells.get(cell)?.inside ?? parameter(before.aval);
      return { inside, after: t.cells.get(cell)?.after ?? inside };
    });
    return {
      params: [...t.params, ...state.map((s) => s.inside)],
      results: [...t.results, ...state.map((s) => s.after)],
    };
  };
  const both = traces.map((t) => ({ ...branch(t), born: t.born }));
  // What a branch makes of captured values alone is its own, too: the other is not to compute it.
  const fixed = [...new Set(both.flatMap((b) => captured(b.params, b.results, b.born, { whole: true })))];
  const outs = caseOp([convert(condition, 'i32'), ...fixed, ...operands, ...shared.map((s) => s.before)], {
    branches: both.map((b) => new Body([...fixed, ...b.params], b.results)),
  });
  const n = outs.length - shared.length;
  shared.forEach(({ cell }, i) => (cell.expr = outs[n + i]!));
  return outs.slice(0, n);
}
