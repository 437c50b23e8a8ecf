// Two ways to say how a gradient is computed: with a rule of one's own, or by computing the function again.
import { ArgumentError } from '../base/errors.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { Body, captured, trace } from '../ops/body.js';
import { zerosLike } from '../ops/constant.js';
import { defineMulti } from '../ops/define.js';
import { gradients } from './sweep.js';

// ---- a rule of one's own

/**
 * Operands: the results as computed, what the rule needs besides, the inputs it gives gradients of. The rule takes the
 * second and the gradients of the results.
 */
const customOp = defineMulti<readonly Expr[], { results: number; inputs: number; rule: Body }>({
  name: 'customVjp',
  infer: (xs, { results }) => xs.slice(0, results) as readonly Aval[],
  lower: (_, xs, { results }) => xs.slice(0, results),
  vjp: (gs, xs, { results, inputs, rule }, ys) => {
    const needs = xs.slice(results, xs.length - inputs);
    // A result that the rule needs is this node's, not as computed: the second derivative goes by the rule, too.
    const own = needs.map((x) => ys[xs.slice(0, results).indexOf(x)] ?? x);
    const flow = rule.apply([...own, ...gs.map((g, i) => g ?? zerosLike(ys[i]!))]);
    return xs.map((_, i) => flow[i - (xs.length - inputs)] ?? null);
  },
});

/** These results, with the gradients of the inputs as `backward` makes them of what it needs and the results' gradients. */
export function customVjp(
  inputs: readonly Expr[],
  results: readonly Expr[],
  needs: readonly Expr[],
  backward: (needs: readonly Expr[], gs: readonly Expr[]) => readonly Expr[],
): Expr[] {
  if (!inputs.some((x) => x.differentiable)) return [...results];
  const t = trace(
    [...needs, ...results].map((x) => x.aval),
    (all) => backward(all.slice(0, needs.length), all.slice(needs.length)),
  );
  if (t.cells.size) {
    throw new ArgumentError(
      'customVjp: backward draws random numbers: draw them in forward and hand them on as residuals',
    );
  }
  const fixed = captured(t.params, t.results, t.born);
  const rule = new Body([...fixed, ...t.params], t.results);
  return customOp([...results, ...fixed, ...needs, ...inputs], {
    results: results.length,
    inputs: inputs.length,
    rule,
  });
}

// ---- computing again

const barrierOp = defineMulti<readonly Expr[]>({
  name: 'optimizationBarrier',
  infer: (xs) => xs as readonly Aval[],
  lower: (e, xs, _, outs) => e.op('optimization_barrier', xs, outs),
  vjp: (gs) => gs,
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
});

/** What a function computes, keeping only what it was given: for the gradient it is computed again. */
export function checkpoint(xs: readonly Expr[], run: (xs: readonly Expr[]) => readonly Expr[]): Expr[] {
  const { params, results, cells, born } = trace(
    xs.map((x) => x.aval),
    run,
  );
  const state = [...cells];
  const all = [...params, ...state.map(([, c]) => c.inside)];
  const outs = [...results, ...state.map(([, c]) => c.after)];
  const fixed = captured(all, outs, born, { whole: true });
  const done = checkpointOp([...fixed, ...xs, ...state.map(([, c]) => c.before)], {
    body: new Body([...fixed, ...all], outs),
  });
  state.forEach(([cell], i) => (cell.expr = done[results.length + i]!));
  return done.slice(0, results.length);
}
