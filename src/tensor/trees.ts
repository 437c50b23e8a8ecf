// Trees of tensors: nested arrays and plain objects, as functions take and return them.
import { ArgumentError } from '../base/errors.js';
import { describe, type Flat, flatten, leafName, showPaths } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { withSource } from '../ir/source.js';
import { Tensor } from './tensor.js';

const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;

/** A tree's tensors. `what` names it in errors: "scan: init". */
export const tensorsOf = (what: string, tree: unknown): Flat<Tensor> =>
  flatten(what, tree, isTensor, 'a tensor, or nested arrays and objects of tensors');
export const exprsOf = (flat: Flat<Tensor>): Expr[] => flat.leaves.map((t) => t.expr);

/** The tree again, of these expressions. */
export const raiseTree = (flat: Flat<Tensor>, exprs: readonly Expr[]): unknown =>
  flat.rebuild(exprs.map((e) => new Tensor(e)));

/** Calls a function of the user's: the nodes made in it belong to its own lines. */
export function callUser<A extends unknown[], R>(op: string, f: (...args: A) => R, ...args: A): R {
  if (typeof f !== 'function') throw new ArgumentError(`${op}: takes a function, got ${describe(f)}`);
  const result = withSource(undefined, () => f(...args));
  if (result instanceof Promise) {
    result.catch(() => {}); // what went wrong in it is said here
    throw new ArgumentError(`${op}: the function is async: it only describes the computation; read results after it`);
  }
  return result;
}

/** Two trees must have the same leaves, of the same types. */
export function checkSameTrees(
  op: string,
  what: string,
  [a, whereA]: readonly [Flat<Tensor>, string],
  [b, whereB]: readonly [Flat<Tensor>, string],
): void {
  if (String(a.paths) !== String(b.paths) || a.paths.length !== b.paths.length) {
    throw new ArgumentError(`${op}: ${what} has ${showPaths(a.paths)} ${whereA} and ${showPaths(b.paths)} ${whereB}`);
  }
  a.leaves.forEach((x, i) => {
    const [one, two] = [x.expr.aval, b.leaves[i]!.expr.aval];
    if (one !== two)
      throw new ArgumentError(`${op}: ${leafName(what, a.paths[i]!)} is ${one} ${whereA} and ${two} ${whereB}`);
  });
}
