// Normalization: values brought to mean 0 and deviation 1, or to length 1. Low precision is computed in f32.
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { type Shape, showShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { convert } from './move.js';
import { add, mul, rsqrt, square, sub } from './pointwise.js';
import { mean } from './reduction.js';

interface Affine {
  readonly weight?: Expr | null;
  readonly bias?: Expr | null;
}
export interface LayerNormOptions extends Affine {
  /** Added to the variance. */
  readonly eps?: number;
}
export interface RmsNormOptions {
  readonly weight?: Expr | null;
  /** Added to the mean of the squares; the dtype's precision unless told. */
  readonly eps?: number | null;
}

/** The last dimensions, of these sizes, at mean 0 and variance 1; then times weight, plus bias. */
export function layerNorm(x: Expr, normalizedShape: number | Shape, options: LayerNormOptions = {}): Expr {
  const { weight, bias, eps = 1e-5 } = options;
  const dims = checkNorm('layerNorm', x, normalizedShape, { weight, bias });
  const wide = widened(x);
  const centered = sub(wide, mean(wide, { dim: dims, keepdim: true }));
  const variance = mean(square(centered), { dim: dims, keepdim: true });
  return affine(mul(centered, rsqrt(add(variance, eps))), weight, bias, x);
}

/** The last dimensions, of these sizes, divided by the root of the mean of their squares; then times weight. */
export function rmsNorm(x: Expr, normalizedShape: number | Shape, options: RmsNormOptions = {}): Expr {
  const { weight, eps } = options;
  const dims = checkNorm('rmsNorm', x, normalizedShape, { weight });
  const wide = widened(x);
  const power = mean(square(wide), { dim: dims, keepdim: true });
  return affine(mul(wide, rsqrt(add(power, eps ?? PRECISION[wide.dtype as 'f32' | 'f64']))), weight, undefined, x);
}
const PRECISION = { f32: 2 ** -23, f64: Number.EPSILON };

const widened = (x: Expr): Expr => (x.dtype === 'f64' ? x : convert(x, 'f32'));
function affine(y: Expr, weight: Expr | null | undefined, bias: Expr | null | undefined, like: Expr): Expr {
  const scaled = weight ? mul(y, convert(weight, y.dtype)) : y;
  return convert(bias ? add(scaled, convert(bias, y.dtype)) : scaled, like.dtype);
}

/** The dimensions that are normalized, counted from the end. */
function checkNorm(op: string, x: Expr, normalizedShape: number | Shape, learned: object): number[] {
  const sizes = typeof normalizedShape === 'number' ? [normalizedShape] : normalizedShape;
  if (!isFloat(x.dtype)) throw new DTypeError(`${op}: takes floats, got ${x.aval}: use float()`);
  if (!sizes.length) throw new ArgumentError(`${op}: normalizedShape is empty: name at least the last dimension`);
  if (String(x.shape.slice(-sizes.length)) !== String(sizes))
    throw new ShapeError(`${op}: normalizedShape is ${showShape(sizes)}: the last dimensions of ${x.aval} differ`);
  for (const [name, t] of Object.entries(learned) as [string, Expr | null | undefined][]) {
    if (t && String(t.shape) !== String(sizes))
      throw new ShapeError(`${op}: the ${name} is ${t.aval}, normalizedShape is ${showShape(sizes)}`);
  }
  return sizes.map((_, i) => i - sizes.length);
}
