// Gradient checkpointing: keeps only the inputs of a function and computes it again for the gradient.
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { batchBody } from '../ops/prim/batch.js';
import { Body, captured, trace, usedBy } from '../ops/prim/body.js';
import { defineMulti } from '../ops/prim/define.js';
import { gradients } from './sweep.js';

const barrierOp = defineMulti<readonly Expr[]>({
  name: 'optimizationBarrier',
  infer: (xs) => xs as readonly Aval[],
  lower: (e, xs, _, outs) => e.op('optimization_barrier', xs, outs),
  vjp: (gs) => gs,
  batch: ({ xs, stacked }) => barrier(xs).map((x, i) => ({ x, stacked: stacked[i]! })),
});
/** The same values, which XLA takes for new ones: it neither merges across nor moves over. */
export const barrier = (xs: readonly Expr[]): Expr[] => (xs.length ? barrierOp(xs, null) : []);

const checkpointOp = defineMulti<readonly Expr[], { body: Body }>({
  name: 'checkpoint',
  infer: (_, { body }) => body.results.map((r) => r.aval),
  lower: (e, xs, { body }) => body.emit(e, xs),
  vjp: (gs, xs, { body }) => {
    // Behind a barrier together with the gradients: so it is not computed before they are there, nor taken for the first.
    const given = gs.flatMap((g, i) => (g ? [i] : []));
    const behind = barrier([...xs, ...given.map((i) => gs[i]!)]);
    const results = body.apply(behind.slice(0, xs.length));
    return gradients(
      given.map((i) => results[i]!),
      behind.slice(xs.length),
      behind.slice(0, xs.length),
    );
  },
  batch: ({ xs, stacked, attrs, n }) => {
    const done = batchBody(attrs.body, stacked, n);
    return recomputed(done.body, xs).map((x, i) => ({ x, stacked: done.stacked[i]! }));
  },
});

/** A body's results for these arguments, which alone are kept for the gradient. */
export const recomputed = (body: Body, args: readonly Expr[]): Expr[] => checkpointOp(args, { body });

/** The results of a function, keeping only its inputs: it is computed again for the gradient. */
export function checkpoint(xs: readonly Expr[], run: (xs: readonly Expr[]) => readonly Expr[]): Expr[] {
  const traced = trace(
    xs.map((x) => x.aval),
    run,
  );
  const { params, results, cells, born } = traced;
  const state = [...cells];
  const outs = [...results, ...state.map(([, c]) => c.after)];
  const used = usedBy(traced, params, outs); // unused ones need not be kept
  const all = [...used.map((i) => params[i]!), ...state.map(([, c]) => c.inside)];
  const fixed = captured(all, outs, born, { whole: true });
  const body = new Body([...fixed, ...all], outs);
  const done = recomputed(body, [...fixed, ...used.map((i) => xs[i]!), ...state.map(([, c]) => c.before)]);
  state.forEach(([cell], i) => (cell.expr = done[results.length + i]!));
  return done.slice(0, results.length);
}
