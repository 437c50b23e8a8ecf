// while loops: the number of iterations is known only when the loop ends.
import { ArgumentError } from '../../base/errors.js';
import type { Expr } from '../../ir/expr.js';
import { batchBody, stack } from './batch.js';
import { Body, captured, trace } from './body.js';
import { broadcastInDim } from './broadcast.js';
import { defineMulti } from './define.js';
import { where } from './pointwise.js';
import { reduceOr } from './reduce.js';

/** Whether one of the examples continues. */
const anyOf = ({ params, results }: Body): Body => new Body(params, [reduceOr(results[0]!)]);
/** A pass for those examples that go on: the others stay as they are. */
function onlyWhere(condition: Body, { params, results }: Body, fixed: number): Body {
  const [goes] = condition.apply(params);
  const next = results.map((r, i) => where(broadcastInDim(goes!, r.shape, [0]), r, params[fixed + i]!));
  return new Body(params, next);
}

/** Operands: what the bodies captured, the first carry. Both bodies take those; the second gives the next carry. */
interface Attrs {
  readonly fixed: number;
  readonly condition: Body;
  readonly body: Body;
}
const whileOp: (xs: readonly Expr[], attrs: Attrs) => Expr[] = defineMulti<readonly Expr[], Attrs>({
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
      'whileLoop: no gradient, as the number of iterations is unknown and the values it needs cannot be saved: ' +
        'use scan, or foriLoop with numbers as bounds, or detach() the inputs of the loop',
    );
  },
  batch: ({ xs, stacked, attrs: { fixed, condition, body }, n }) => {
    // What a pass makes of stacked values is stacked, and so is what the next pass is given.
    let given: boolean[] = [...stacked] as boolean[];
    for (;;) {
      const more = batchBody(body, given, n).stacked;
      const each = batchBody(condition, given, n).stacked[0];
      const next = given.map((is, i) => is || (i >= fixed && (each || more[i - fixed]!)));
      if (next.every((is, i) => is === given[i])) break;
      given = next;
    }
    const isCarried = (i: number) => given[fixed + i]!;
    const goesOn = batchBody(condition, given, n);
    const pass = batchBody(body, given, n, isCarried);
    const operands = xs.map((x, i) => (given[i] && !stacked[i] ? stack(x, n) : x));
    const outs = whileOp(operands, {
      fixed,
      ...(goesOn.stacked[0]
        ? { condition: anyOf(goesOn.body), body: onlyWhere(goesOn.body, pass.body, fixed) }
        : { condition: goesOn.body, body: pass.body }),
    });
    return outs.map((x, i) => ({ x, stacked: isCarried(i) }));
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
