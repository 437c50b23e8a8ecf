// Traces a user's function once, on stand-ins for the arguments to differentiate: the base of gradients, vector-Jacobian and
// Jacobian-vector products.
import { withGrad } from '../autograd/mode.js';
import { gradients } from '../autograd/sweep.js';
import { ArgumentError, DTypeError } from '../base/errors.js';
import { isInexact } from '../base/promote.js';
import { describe, type Flat, leafName } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { alias, substitute } from '../ops/prim/body.js';
import { zerosLike } from '../ops/prim/constant.js';
import type { Tensor } from './tensor.js';
import { callUser, exprsOf, raiseTree, tensorsOf } from './trees.js';

export interface FunctionOptions<N extends number | readonly number[] = number | readonly number[]> {
  /** The arguments to differentiate: one index or several. Default: 0. */
  readonly argnums?: N;
  /** Whether f returns [value, aux]; aux is returned as it is. Default: false. */
  readonly hasAux?: boolean;
}

export const listOf = <T>(x: T | readonly T[]): readonly T[] => (Array.isArray(x) ? x : [x]) as readonly T[];

export class TracedFunction {
  /** The result, in terms of the stand-ins. */
  readonly value: unknown;
  readonly aux: unknown;
  /** The arguments to differentiate, and all their tensors. */
  readonly trees: readonly Flat<Tensor>[];
  readonly given: readonly Expr[];
  /** The stand-ins for those tensors. */
  readonly inside: readonly Expr[];
  readonly #before: ReadonlyMap<Expr, Expr>;
  readonly #outside: Map<Expr, Expr>;

  constructor(
    readonly op: string,
    f: (...args: never[]) => unknown,
    args: readonly unknown[],
    { argnums = 0, hasAux = false }: FunctionOptions,
  ) {
    const places = listOf(argnums).map((n) => {
      const place = n < 0 ? n + args.length : n;
      if (Number.isInteger(n) && place >= 0 && place < args.length) return place;
      throw new ArgumentError(`${op}: argnums has ${n}, but the function was called with ${args.length} arguments`);
    });
    if (new Set(places).size < places.length)
      throw new ArgumentError(
        `${op}: argnums is [${listOf(argnums).join(', ')}], which names argument ${places.find((n, i) => places.indexOf(n) < i)} twice: give each argument once`,
      );
    this.trees = places.map((n) => tensorsOf(`${op}: argument ${n}`, args[n]));
    places.forEach((n, k) => checkFloats(op, n, this.trees[k]!));
    const inside = this.trees.map((t) => exprsOf(t).map(alias));
    this.given = this.trees.flatMap(exprsOf);
    this.inside = inside.flat();
    this.#before = new Map(this.given.map((x, i) => [this.inside[i]!, x]));
    this.#outside = new Map(this.#before);
    const out = withGrad(true, op, () => {
      const passed = args.map((arg, n) => {
        const k = places.indexOf(n);
        return k < 0 ? arg : raiseTree(this.trees[k]!, inside[k]!);
      });
      return callUser(op, f, ...(passed as never[]));
    });
    if (hasAux && !(Array.isArray(out) && out.length === 2))
      throw new ArgumentError(`${op}: with hasAux the function must return [value, aux], got ${describe(out)}`);
    [this.value, this.aux] = hasAux ? (out as readonly [unknown, unknown]) : [out, undefined];
  }

  /** The gradients of the arguments' tensors, given those of some results; zeros where none flows. */
  back(results: readonly Expr[], seeds: readonly Expr[]): Expr[] {
    return gradients(results, seeds, this.inside).map((g, i) => g ?? zerosLike(this.inside[i]!));
  }

  /** Replaces the stand-ins in a result by the original arguments. */
  outside(inside: readonly Expr[]): Expr[] {
    return substitute(inside, this.#before, this.#outside);
  }
  /** The same for the tensors of a tree. `what` names it in errors. */
  outsideTree(what: string, tree: unknown): unknown {
    const flat = tensorsOf(`${this.op}: ${what}`, tree);
    return raiseTree(flat, this.outside(exprsOf(flat)));
  }

  /** One value for each tensor of the arguments, in trees like theirs. */
  arguments<T>(values: readonly T[]): unknown[] {
    let at = 0;
    return this.trees.map((t) => t.rebuild(values.slice(at, (at += t.leaves.length))));
  }
}

export function checkFloats(op: string, n: number, { leaves, paths }: Flat<Tensor>): void {
  leaves.forEach((x, i) => {
    if (!isInexact(x.dtype))
      throw new DTypeError(
        `${op}: ${leafName(`argument ${n}`, paths[i]!)} is ${x.expr.aval}: only floats have gradients`,
      );
  });
}
