// Sliding windows along one dimension, shared by pooling, interpolation and convolutions.
import type { DType } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { constants } from './prim/constant.js';
import { reshape } from './prim/move.js';
import { sliceDim } from './prim/slice.js';

export interface Window {
  readonly size: number;
  readonly stride: number;
  readonly dilation: number;
}
/** For each place in the window, what stands there in all of `count` windows. */
export const places = (x: Expr, dim: number, count: number, { size, stride, dilation }: Window): Expr[] =>
  range(size).map((k) => sliceDim(x, dim, k * dilation, k * dilation + (count ? (count - 1) * stride + 1 : 0), stride));

/** Numbers known now, laid along dimension `dim` of `rank`. */
export const along = (values: readonly number[], dim: number, rank: number, dtype: DType): Expr =>
  reshape(
    constants(values, dtype),
    range(rank).map((d) => (d === dim ? values.length : 1)),
  );

// ---- what public functions over space share

/** One number for every dimension of space, or one each. */
export type Sizes = number | readonly number[];
const SPACE = ['[N, C, L]', '[N, C, H, W]', '[N, C, D, H, W]'] as const;

export function sizesOf(op: string, what: string, given: Sizes, n: number, least: number): readonly number[] {
  const list =
    typeof given === 'number' ? range(n).map(() => given) : given.length === 1 ? range(n).map(() => given[0]!) : given;
  if (list.length !== n) throw new ArgumentError(`${op}: ${what} is [${list.join(', ')}]: give one number, or ${n}`);
  const bad = list.find((k) => !Number.isInteger(k) || k < least);
  if (bad !== undefined) throw new ArgumentError(`${op}: ${what} is ${bad}: use whole numbers of at least ${least}`);
  return list;
}

/** Calls `f` with a batch dimension, which is added and taken off again where there is none. */
export function withBatch(op: string, x: Expr, n: number, f: (x: Expr) => Expr): Expr {
  if (x.shape.length !== n + 2 && x.shape.length !== n + 1) {
    throw new ShapeError(`${op}: takes ${SPACE[n - 1]}, or that without N, got ${x.aval}`);
  }
  if (x.shape.length === n + 2) return f(x);
  const y = f(reshape(x, [1, ...x.shape]));
  return reshape(y, y.shape.slice(1));
}
