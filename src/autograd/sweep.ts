// Reverse-mode differentiation: from results back to variables, applying the rule of each node once.

import { ArgumentError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { applyHooks } from '../ir/hooks.js';
import { gradientSource, withSource } from '../ir/source.js';
import { PICK } from '../ops/prim/define.js';
import { add } from '../ops/prim/pointwise.js';
import { isVariable } from '../ops/prim/variable.js';

/** Throws if gradients would flow through the loss of a step that has ended. */
export function checkHistory(nodes: readonly Expr[]): void {
  const over = nodes.find((e) => e.differentiable && e.isForgotten && !isVariable(e));
  if (over) throw new ArgumentError(ended(over));
}
const ended = ({ aval, source }: Expr): string =>
  `backward: the loss ${aval}${source ? ` made at ${source}` : ''} belongs to a step that has ended, and its graph was freed: call backward() before optimizer.step(), once for the sum of all losses, or detach() values kept from earlier steps`;

/** The gradients of some variables, given those of some results. null: no gradient reaches the variable. */
export function gradients(results: readonly Expr[], seeds: readonly Expr[], wrt: readonly Expr[]): (Expr | null)[] {
  const grads = new Map<Expr, (Expr | null)[]>(); // of each result of a node
  const accumulate = (e: Expr, g: Expr, index = 0) => {
    const list = grads.get(e) ?? [];
    const sofar = list[index];
    list[index] = sofar ? add(sofar, g) : g;
    grads.set(e, list);
  };
  results.forEach((r, i) => r.differentiable && accumulate(r, seeds[i]!));
  const wanted = new Set(wrt);
  // Only what lies between: a node made before every variable leads to none.
  const oldest = wrt.reduce((n, v) => Math.min(n, v.serial), Number.POSITIVE_INFINITY);
  const { nodes } = collect(results, (e) => !e.differentiable || e.serial < oldest);
  checkHistory(nodes);
  const leads = new Set<Expr>();
  for (const e of nodes) if (wanted.has(e) || e.inputs.some((x) => leads.has(x))) leads.add(e);
  for (const e of nodes.toReversed()) {
    const found = grads.get(e);
    if (!found || !e.differentiable || !leads.has(e)) continue;
    const list = applyHooks(e, found); // the gradient is complete
    if (wanted.has(e)) grads.set(e, list);
    if (!e.op.vjp || !e.inputs.some((x) => leads.has(x))) continue;
    if (!wanted.has(e)) grads.delete(e);
    if (e.op === PICK) {
      accumulate(e.inputs[0]!, list[0]!, (e.attrs as { index: number }).index);
      continue;
    }
    const count = e.avals?.length ?? 1;
    const given = Array.from({ length: count }, (_, i) => list[i] ?? null);
    // Nodes of a gradient are attributed to the source line of the differentiated node.
    withSource(gradientSource(e.source, e.op.name), () => e.op.vjp!(given, e)).forEach((g, i) => {
      if (g && e.inputs[i]!.differentiable && leads.has(e.inputs[i]!)) accumulate(e.inputs[i]!, g);
    });
  }
  return wrt.map((v) => grads.get(v)?.[0] ?? null);
}
