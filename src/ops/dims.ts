// Dimension arguments: one, several, or an options object.
import { ShapeError } from '../base/errors.js';
import { normalizeDims } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { reshape } from './prim/move.js';

/** One dimension, several, or an object that names them; nothing, or an empty list, means all. */
export type DimOption =
  | number
  | readonly number[]
  | { readonly dim?: number | readonly number[]; readonly keepdim?: boolean };

export const dimOptions = <T extends object>(option: T | number | readonly number[] | undefined) =>
  (typeof option === 'number' || Array.isArray(option) ? { dim: option } : (option ?? {})) as Partial<T>;

/** Extremes of nothing do not exist. */
export function checkNotEmpty(op: string, x: Expr, dims: readonly number[]): void {
  const empty = dims.find((d) => x.shape[d] === 0);
  if (empty !== undefined) throw new ShapeError(`${op}: dim ${empty} of ${x.aval} has no elements, so it has no ${op}`);
}

/** Applies a strict reduction to the dimensions an option means. */
export function reduceOver(
  name: string,
  x: Expr,
  option: DimOption | undefined,
  reduce: (x: Expr, dims: readonly number[]) => Expr,
): Expr {
  const { dim, keepdim = false } = dimOptions(option);
  const dims = normalizeDims(name, Array.isArray(dim) && !dim.length ? undefined : dim, x.shape.length);
  const y = reduce(x, dims);
  return keepdim
    ? reshape(
        y,
        x.shape.map((n, d) => (dims.includes(d) ? 1 : n)),
      )
    : y;
}
