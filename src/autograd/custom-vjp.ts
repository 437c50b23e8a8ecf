// A function with a gradient of the user's own.
import { ArgumentError } from '../base/errors.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { Body, captured, trace } from '../ops/prim/body.js';
import { zerosLike } from '../ops/prim/constant.js';
import { defineMulti } from '../ops/prim/define.js';

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
