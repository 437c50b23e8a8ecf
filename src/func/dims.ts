// inDims and outDims of vmap: numbers, or trees of numbers and nulls that match the arguments and results.
import { ArgumentError } from '../base/errors.js';
import { normalizeDim } from '../base/shape.js';
import { describe, isPlain, listed } from '../base/tree.js';
import { Tensor } from '../tensor/tensor.js';

/** A dimension for all tensors of a tree, or a tree of dimensions; null: the tensors are the same for all examples. */
export type Dims = number | null | readonly Dims[] | { readonly [key: string]: Dims };

export interface Placed {
  readonly tensor: Tensor;
  /** Counted from the front; null: not mapped. */
  readonly dim: number | null;
  /** In words, for errors. */
  readonly name: string;
}
export interface PlacedTree {
  readonly leaves: readonly Placed[];
  /** The same tree with other tensors. */
  rebuild(tensors: readonly Tensor[]): unknown;
}

export interface Naming {
  /** 'inDims' or 'outDims'. */
  readonly option: string;
  /** What the tree is: 'the result'; the arguments are named by their numbers. */
  readonly what: string;
  /** Dimensions that the tensors get more: of a result, the new one. */
  readonly more: number;
  /** Whether something else than tensors may stand where the dimension is null. */
  readonly others: boolean;
}

export function placeDims(op: string, tree: unknown, dims: Dims, naming: Naming): PlacedTree {
  const leaves: Placed[] = [];
  const { option, more, others } = naming;
  const visit = (x: unknown, at: Dims, name: string): ((next: () => Tensor) => unknown) => {
    if (x === null || x === undefined || (at === null && others)) return () => x;
    if (x instanceof Tensor) {
      leaves.push({ tensor: x, dim: dimOf(op, option, at, x, name, more), name });
      return (next) => next();
    }
    if (Array.isArray(x)) {
      const own = Array.isArray(at) ? at : undefined;
      if (isPlain(at) || (own && own.length !== x.length))
        throw new ArgumentError(
          `${op}: ${option} is ${JSON.stringify(at)} for ${name}, an array of ${x.length}: give one number, or an array with one for each`,
        );
      const parts = x.map((e, i) => visit(e, own ? own[i]! : at, `${name}[${i}]`));
      return (next) => parts.map((part) => part(next));
    }
    if (isPlain(x)) {
      const own = isPlain(at) ? (at as Readonly<Record<string, Dims>>) : undefined;
      const missing = own ? Object.keys(x).find((key) => !(key in own)) : undefined;
      if (Array.isArray(at) || missing !== undefined)
        throw new ArgumentError(
          `${op}: ${option} is ${JSON.stringify(at)} for ${name}, an object with ${Object.keys(x).join(', ')}: give one number, or an object with one for each`,
        );
      const parts = Object.keys(x)
        .sort()
        .map((key) => [key, visit(x[key], own ? own[key]! : at, `${name}.${key}`)] as const);
      const empty = Object.fromEntries(Object.keys(x).map((key) => [key, undefined as unknown])); // in the order written
      const isListed = Symbol.iterator in x;
      return (next) => {
        const built = { ...empty };
        for (const [key, part] of parts) built[key] = part(next);
        return isListed ? listed(built) : built;
      };
    }
    throw new ArgumentError(
      `${op}: ${name} is ${describe(x)}: it must be a tensor, or nested arrays and objects of tensors${others ? `; for all others pass ${option} null` : ''}`,
    );
  };
  const build = visit(tree, dims, naming.what);
  return {
    leaves,
    rebuild(tensors) {
      let i = 0;
      return build(() => tensors[i++]!);
    },
  };
}

function dimOf(op: string, option: string, at: Dims, x: Tensor, name: string, more: number): number | null {
  if (at === null) return null;
  if (typeof at !== 'number' || !Number.isInteger(at))
    throw new ArgumentError(
      `${op}: ${option} is ${JSON.stringify(at)} for ${name}, ${x.aval}: it must be a whole number or null`,
    );
  const rank = x.ndim + more;
  if (at < -rank || at >= rank)
    throw new ArgumentError(
      `${op}: ${option} is ${at} for ${name}, ${x.aval}: ${rank ? `dimensions are ${-rank} to ${rank - 1}` : 'a scalar has no dimension: stack it, or pass null'}`,
    );
  return normalizeDim(op, at, rank);
}
