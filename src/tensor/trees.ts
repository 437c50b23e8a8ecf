// Trees of tensors: nested arrays and plain objects, as functions take and return them.
import { checkWhole } from '../base/check.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { describe, type Flat, flatten, leafName, showPaths } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { withSource } from '../ir/source.js';
import { Tensor } from './tensor.js';

const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;

/** A tree's tensors. `what` names it in errors: "scan: init". */
export const tensorsOf = (what: string, tree: unknown): Flat<Tensor> =>
  flatten(what, tree, isTensor, 'a tensor, or nested arrays and objects of tensors');
export const exprsOf = (flat: Flat<Tensor>): Expr[] => flat.leaves.map((t) => t.expr);

/** A tree of the same structure with these expressions. */
export const raiseTree = (flat: Flat<Tensor>, exprs: readonly Expr[]): unknown =>
  flat.rebuild(exprs.map((e) => new Tensor(e)));

/** Calls a user's function: nodes made in it are attributed to the user's lines. */
export function callUser<A extends unknown[], R>(op: string, f: (...args: A) => R, ...args: A): R {
  if (typeof f !== 'function') throw new ArgumentError(`${op}: takes a function, got ${describe(f)}`);
  const result = withSource(undefined, () => f(...args));
  if (result instanceof Promise) {
    result.catch(() => {}); // its rejection is covered by the error below
    throw new ArgumentError(
      `${op}: the function is async, but it only describes a computation: make it synchronous, and read results after it`,
    );
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

/** The size of the first dimension of a tree's tensors. `name` names the tree in errors. */
export function lengthOf(op: string, name: string, { leaves, paths }: Flat<Tensor>, length?: number): number {
  leaves.forEach((x, i) => {
    const leaf = leafName(name, paths[i]!);
    if (!x.shape.length)
      throw new ShapeError(`${op}: ${leaf} is ${x.expr.aval}: a scalar has no dimension to iterate over`);
    const [n] = leaves[0]!.shape;
    if (x.shape[0] !== n)
      throw new ShapeError(
        `${op}: ${name} differ in length: ${leafName(name, paths[0]!)} has ${n}, ${leaf} has ${x.shape[0]}`,
      );
    if (length !== undefined && length !== n)
      throw new ShapeError(`${op}: length is ${length}, but ${leaf} has ${n} elements: leave length out`);
  });
  const passes = leaves[0]?.shape[0] ?? length;
  if (passes === undefined)
    throw new ArgumentError(`${op}: ${name} is empty and length is not given: pass one of them`);
  return checkWhole(`${op}: length`, passes);
}
