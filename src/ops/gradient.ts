// torch.gradient: slopes of a function that is known at points, by central differences.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { normalizeDims, type Shape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { floating } from './prim/align.js';
import { broadcastInDim } from './prim/broadcast.js';
import { full } from './prim/constant.js';
import { convert } from './prim/move.js';
import { add, div, mul, sub } from './prim/pointwise.js';
import { concat, sliceDim } from './prim/slice.js';

type Spacing = number | Expr;
export interface GradientOptions {
  /** The distance between points: one number, one for each dimension, or the coordinates along each. Default: 1. */
  readonly spacing?: number | Expr | readonly Spacing[];
  /** Default: all dimensions. */
  readonly dim?: number | Shape;
  /** The order of accuracy at both ends: 1 or 2. Default: 1. */
  readonly edgeOrder?: number;
}
/** One array of slopes for each dimension. */
export function gradient(x: Expr, { spacing = 1, dim, edgeOrder = 1 }: GradientOptions = {}): Expr[] {
  const op = 'gradient';
  const dims = normalizeDims(op, dim, x.shape.length);
  if (edgeOrder !== 1 && edgeOrder !== 2) throw new ArgumentError(`${op}: edgeOrder is ${edgeOrder}: use 1 or 2`);
  const list = Array.isArray(spacing) ? (spacing as readonly Spacing[]) : dims.map(() => spacing as Spacing);
  if (list.length !== dims.length)
    throw new ArgumentError(`${op}: ${list.length} spacings for ${dims.length} dimensions: give one for each`);
  const short = dims.find((d) => x.shape[d]! < edgeOrder + 1);
  if (short !== undefined)
    throw new ShapeError(`${op}: dim ${short} of ${x.aval} has fewer than ${edgeOrder + 1} points`);
  return dims.map((d, i) => along(op, floating(x), d, list[i]!, edgeOrder));
}

function along(op: string, x: Expr, d: number, spacing: Spacing, edgeOrder: number): Expr {
  const n = x.shape[d]!;
  const at = (start: number, end: number) => sliceDim(x, d, start, end);
  /** The distances between neighbours, laid along the dimension. */
  const steps = (start: number, end: number): Expr => {
    if (typeof spacing === 'number') return full([], spacing, x.dtype);
    if (spacing.shape.length === 0) return convert(spacing, x.dtype);
    if (spacing.shape.length !== 1 || spacing.shape[0] !== n)
      throw new ShapeError(`${op}: the coordinates ${spacing.aval} do not fit dim ${d} of ${x.aval}`);
    const c = convert(spacing, x.dtype);
    const gaps = sub(sliceDim(c, 0, start + 1, end + 1), sliceDim(c, 0, start, end));
    return broadcastInDim(gaps, x.shape.with(d, end - start), [d]);
  };
  const even = typeof spacing === 'number' || !spacing.shape.length;
  const edge = (near: number, step: -1 | 1): Expr => {
    const value = (k: number) => at(near + k * step, near + k * step + 1);
    const gap = (k: number) => {
      const low = step === 1 ? near + k : near - k - 1;
      return steps(low, low + 1);
    };
    const slope = (y: Expr) => (step === 1 ? y : mul(y, -1));
    if (edgeOrder === 1) return slope(div(sub(value(1), value(0)), gap(0)));
    const [h, k] = [gap(0), gap(1)];
    const both = add(h, k);
    const first = mul(div(add(mul(h, 2), k), mul(h, both)), -1);
    return slope(
      add(add(mul(first, value(0)), mul(div(both, mul(h, k)), value(1))), mul(mul(div(h, mul(k, both)), -1), value(2))),
    );
  };
  const middle = (): Expr => {
    const [before, here, after] = [at(0, n - 2), at(1, n - 1), at(2, n)];
    if (even) return div(sub(after, before), mul(steps(0, 1), 2));
    const [h, k] = [steps(0, n - 2), steps(1, n - 1)];
    const both = add(h, k);
    return add(
      add(mul(mul(div(k, mul(h, both)), -1), before), mul(div(sub(k, h), mul(h, k)), here)),
      mul(div(h, mul(k, both)), after),
    );
  };
  return concat([edge(0, 1), ...(n > 2 ? [middle()] : []), edge(n - 1, -1)], d);
}
