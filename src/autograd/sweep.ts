// Reverse mode: from results back to variables, each node's rule once.
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { gradientSource, withSource } from '../ir/source.js';
import { PICK } from '../ops/prim/define.js';
import { add } from '../ops/prim/pointwise.js';

/** The gradients of some variables, given those of some results. null: nothing flows there. */
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
  const leads = new Set<Expr>();
  for (const e of nodes) if (wanted.has(e) || e.inputs.some((x) => leads.has(x))) leads.add(e);
  for (const e of nodes.toReversed()) {
    const list = grads.get(e);
    if (!list || !e.differentiable || !e.op.vjp || !e.inputs.some((x) => leads.has(x))) continue;
    if (!wanted.has(e)) grads.delete(e);
    if (e.op === PICK) {
      accumulate(e.inputs[0]!, list[0]!, (e.attrs as { index: number }).index);
      continue;
    }
    const count = e.avals?.length ?? 1;
    const given = Array.from({ length: count }, (_, i) => list[i] ?? null);
    // A gradient's nodes belong to the line that made the node they are the gradient of.
    withSource(gradientSource(e.source, e.op.name), () => e.op.vjp!(given, e)).forEach((g, i) => {
      if (g && e.inputs[i]!.differentiable && leads.has(e.inputs[i]!)) accumulate(e.inputs[i]!, g);
    });
  }
  return wrt.map((v) => grads.get(v)?.[0] ?? null);
}
