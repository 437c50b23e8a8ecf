// Which batching rules are asked.
import type { Op } from '../../dist/ir/op.js';
import { OPS } from '../../dist/ops/prim/define.js';

/** Runs fn, and says the rules of which primitives were asked. */
export async function batchedNames<R>(fn: () => R | Promise<R>): Promise<{ result: R; names: Set<string> }> {
  const names = new Set<string>();
  const rules = [...OPS.values()].flatMap((op) =>
    op.batch ? [{ op: op as { batch: Op['batch'] }, rule: op.batch, name: op.name }] : [],
  );
  for (const { op, rule, name } of rules)
    op.batch = (...args) => {
      names.add(name);
      return rule(...args);
    };
  try {
    return { result: await fn(), names };
  } finally {
    for (const { op, rule } of rules) op.batch = rule;
  }
}
