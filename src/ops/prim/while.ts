// A loop whose number of passes is known only when it ends.
import { ArgumentError } from '../../base/errors.js';
import type { Expr } from '../../ir/expr.js';
import { Body, captured, trace } from './body.js';
import { defineMulti } from './define.js';

/** Operands: what the bodies captured, the first carry. Both bodies take those; the second gives the next carry. */
const whileOp = defineMulti<readonly Expr[], { fixed: number; condition: Body; body: Body }>({
  name: 'while',
  infer: (_, { body }) => body.results.map((r) => r.aval),
  lower: (e, xs, { fixed, condition, body }) => {
    const types = xs.map((x) => e.typeOf(x));
    const go = e.region(types, (all) => condition.emit(e, all));
    const pass = e.region(types, (all) => [...all.slice(0, fixed), ...body.emit(e, all)]);
    return e.op('while', xs, types, {}, [go, pass]).slice(fixed);
  },
  vjp: () => {
    throw new ArgumentError(
      'whileLoop: the number of passes is not known in advance, so there is nowhere to keep what a gradient needs: ' +
        'use scan, or foriLoop with numbers as bounds, or detach() what goes into the loop',
    );
  },
});

export function whileLoop(
  init: readonly Expr[],
  condition: (carry: readonly Expr[]) => Expr,
  run: (carry: readonly Expr[]) => readonly Expr[],
): Expr[] {
  const avals = init.map((c) => c.aval);
  const c = trace(avals, (carry) => [condition(carry)]);
  if (c.cells.size)
    throw new ArgumentError('whileLoop: condFn draws random numbers: draw them in bodyFn and carry them');
  const b = trace(avals, run);
  const cells = [...b.cells];
  const inside = cells.map(([, t]) => t.inside);
  const params = [...b.params, ...inside];
  const results = [...b.results, ...cells.map(([, t]) => t.after)];
  const fixed = [...new Set([...captured(c.params, c.results, c.born), ...captured(params, results, b.born)])];
  const outs = whileOp([...fixed, ...init, ...cells.map(([, t]) => t.before)], {
    fixed: fixed.length,
    condition: new Body([...fixed, ...c.params, ...inside], c.results),
    body: new Body([...fixed, ...params], results),
  });
  cells.forEach(([cell], i) => (cell.expr = outs[init.length + i]!));
  return outs.slice(0, init.length);
}
