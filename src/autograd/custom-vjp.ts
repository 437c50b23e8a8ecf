// Functions with a custom gradient.
import { ArgumentError } from '../base/errors.js';
import { range } from '../base/shape.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { batchBody, stack } from '../ops/prim/batch.js';
import { Body, captured, trace } from '../ops/prim/body.js';
import { reduceSum } from '../ops/prim/broadcast.js';
import { zerosLike } from '../ops/prim/constant.js';
import { defineMulti, stackedLanes } from '../ops/prim/define.js';
import { mul } from '../ops/prim/pointwise.js';

/**
 * Operands: the computed results, the residuals of the rule, and the inputs that it returns gradients of. The rule takes the
 * residuals and the gradients of the results.
 */
interface Attrs {
  readonly results: number;
  readonly inputs: number;
  readonly rule: Body;
}
const customOp: (xs: readonly Expr[], attrs: Attrs) => Expr[] = defineMulti<readonly Expr[], Attrs>({
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
  batch: ({ xs, stacked, attrs: { results, inputs, rule }, n }) => {
    // Results are stacked, and so are they where the rule needs them.
    const computed = new Set(xs.slice(0, results));
    const given = xs.map((x, i) => stacked[i]! || computed.has(x));
    const operands = xs.map((x, i) => (given[i] && !stacked[i] ? stack(x, n) : x));
    const first = xs.length - inputs;
    const needs = given.slice(results, first);
    const back = batchBody(rule, [...needs, ...range(results).map(() => true)], n);
    // An input shared by all examples gets the sum of their gradients.
    const flow = back.body.results.map((g, i) => {
      if (given[first + i]) return back.stacked[i] ? g : stack(g, n);
      return back.stacked[i] ? reduceSum(g, [0]) : mul(g, n);
    });
    const outs = customOp(operands, { results, inputs, rule: new Body(back.body.params, flow) });
    return stackedLanes(outs);
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
      'customVjp: backward draws random numbers: draw them in forward and return them as residuals',
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
