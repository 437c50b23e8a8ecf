// Normalizations to mean 0 and variance 1, or to norm 1. Low precision is computed in f32.
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { type Shape, showShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { clampMin, square } from './math.js';
import { standardize, widened } from './moments.js';
import { convert, reshape } from './prim/move.js';
import { add, div, floorDivide, mul, rsqrt } from './prim/pointwise.js';
import { pow } from './prim/power.js';
import { padDim } from './prim/slice.js';
import { mean, vectorNorm } from './reduction.js';
import { places } from './window.js';

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
  /** Added to the mean of the squares. Default: the dtype's precision. */
  readonly eps?: number | null;
}

/** Normalizes the last dimensions, of these sizes, to mean 0 and variance 1; then multiplies by weight and adds bias. */
export function layerNorm(x: Expr, normalizedShape: number | Shape, options: LayerNormOptions = {}): Expr {
  const { weight, bias, eps = 1e-5 } = options;
  const dims = checkNorm('layerNorm', x, normalizedShape, { weight, bias });
  return affine(standardize(widened(x), dims, eps), weight, bias, x);
}

/** Divides the last dimensions, of these sizes, by their root mean square; then multiplies by weight. */
export function rmsNorm(x: Expr, normalizedShape: number | Shape, options: RmsNormOptions = {}): Expr {
  const { weight, eps } = options;
  const dims = checkNorm('rmsNorm', x, normalizedShape, { weight });
  const wide = widened(x);
  const power = mean(square(wide), { dim: dims, keepdim: true });
  return affine(mul(wide, rsqrt(add(power, eps ?? PRECISION[wide.dtype as 'f32' | 'f64']))), weight, undefined, x);
}
const PRECISION = { f32: 2 ** -23, f64: Number.EPSILON };

/** Normalizes groups of channels of each sample of [N, C, ...] to mean 0 and variance 1; then multiplies by weight and adds bias. */
export function groupNorm(x: Expr, numGroups: number, options: LayerNormOptions = {}): Expr {
  const { weight, bias, eps = 1e-5 } = options;
  const [n, c, ...space] = x.shape as [number, number, ...number[]];
  checkFloats('groupNorm', x);
  if (x.shape.length < 2) throw new ShapeError(`groupNorm: takes [N, C, ...], got ${x.aval}`);
  if (!Number.isInteger(numGroups) || numGroups < 1 || c % numGroups)
    throw new ArgumentError(`groupNorm: ${numGroups} groups do not divide the ${c} channels of ${x.aval}`);
  checkLearned('groupNorm', { weight, bias }, [c], `${x.aval} has ${c} channels`);
  const grouped = reshape(widened(x), [n, numGroups, (c / numGroups) * space.reduce((a, b) => a * b, 1)]);
  const perChannel = (t: Expr | null | undefined) => t && reshape(t, [c, ...space.map(() => 1)]);
  return affine(reshape(standardize(grouped, [2], eps), x.shape), perChannel(weight), perChannel(bias), x);
}

export interface ResponseNormOptions {
  readonly alpha?: number;
  readonly beta?: number;
  readonly k?: number;
}
/** Divides [N, C, ...] by (k + alpha * the mean square of `size` neighbouring channels) ** beta. */
export function localResponseNorm(x: Expr, size: number, options: ResponseNormOptions = {}): Expr {
  const { alpha = 1e-4, beta = 0.75, k = 1 } = options;
  if (x.dtype !== 'i64') checkFloats('localResponseNorm', x);
  if (x.shape.length < 3) throw new ShapeError(`localResponseNorm: takes [N, C, ...space], got ${x.aval}`);
  if (!Number.isInteger(size) || size < 1)
    throw new ArgumentError(`localResponseNorm: size is ${size}: it must be a number of channels, at least 1`);
  const wide = isFloat(x.dtype) ? widened(x) : x;
  const padded = padDim(square(wide), 1, Math.floor(size / 2), Math.floor((size - 1) / 2));
  const near = places(padded, 1, x.shape[1]!, { size, stride: 1, dilation: 1 }).reduce((a, b) => add(a, b));
  // The mean of integers is an integer, as torch's average pooling has it.
  if (!isFloat(x.dtype)) return div(x, pow(add(mul(convert(floorDivide(near, size), 'f32'), alpha), k), beta));
  return convert(div(wide, pow(add(mul(near, alpha / size), k), beta)), x.dtype);
}

export interface NormalizeOptions {
  /** The exponent of the norm. Default: 2. */
  readonly p?: number;
  readonly dim?: number | Shape;
  /** The minimum divisor, for vectors with a smaller norm. */
  readonly eps?: number;
}
/** Vectors along `dim` (1) divided by their norm. */
export function normalize(x: Expr, { p = 2, dim = 1, eps = 1e-12 }: NormalizeOptions = {}): Expr {
  checkFloats('normalize', x);
  const wide = widened(x);
  return convert(div(wide, clampMin(vectorNorm(wide, { p, dim, keepdim: true }), eps)), x.dtype);
}

function affine(y: Expr, weight: Expr | null | undefined, bias: Expr | null | undefined, like: Expr): Expr {
  const scaled = weight ? mul(y, convert(weight, y.dtype)) : y;
  return convert(bias ? add(scaled, convert(bias, y.dtype)) : scaled, like.dtype);
}

type Learned = Readonly<Record<string, Expr | null | undefined>>;
/** The dimensions that are normalized, counted from the end. */
function checkNorm(op: string, x: Expr, normalizedShape: number | Shape, learned: Learned): number[] {
  const sizes = typeof normalizedShape === 'number' ? [normalizedShape] : normalizedShape;
  checkFloats(op, x);
  if (!sizes.length) throw new ArgumentError(`${op}: normalizedShape is empty: name at least the last dimension`);
  if (String(x.shape.slice(-sizes.length)) !== String(sizes))
    throw new ShapeError(`${op}: normalizedShape is ${showShape(sizes)}: the last dimensions of ${x.aval} differ`);
  checkLearned(op, learned, sizes, `normalizedShape is ${showShape(sizes)}`);
  return sizes.map((_, i) => i - sizes.length);
}
function checkFloats(op: string, x: Expr): void {
  if (!isFloat(x.dtype)) throw new DTypeError(`${op}: takes floats, got ${x.aval}: use float()`);
}
function checkLearned(op: string, learned: Learned, sizes: Shape, because: string): void {
  for (const [name, t] of Object.entries(learned)) {
    if (t && String(t.shape) !== String(sizes)) throw new ShapeError(`${op}: the ${name} is ${t.aval}, ${because}`);
  }
}
