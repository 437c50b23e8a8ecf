// Pooling over 1, 2 or 3 spatial dimensions, one after another, as windows are separable. Written as chains of select and
// add over strided slices, which XLA fuses: measured on the CPU against reduce_window and
// select_and_scatter ([16, 64, 56, 56], 3x3, stride 2), 1.9 ms to 4.4 ms forward and 8 ms to 43 ms backward.
import { sizeOf } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { lowest } from '../base/literal.js';
import { isFloat } from '../base/promote.js';
import { range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { inWide } from './prim/align.js';
import { broadcastTo, reduceSum } from './prim/broadcast.js';
import { iota } from './prim/constant.js';
import { checkDType } from './prim/define.js';
import { convert, reshape } from './prim/move.js';
import { add, div, eq, gt, isnan, logicalOr, mul, trunc, where } from './prim/pointwise.js';
import { pow } from './prim/power.js';
import { concat, padDim, sliceDim } from './prim/slice.js';
import { along, places, type Sizes, sizesOf, withBatch } from './window.js';

export interface MaxPoolOptions {
  /** Default: the window's size. */
  readonly stride?: Sizes;
  readonly padding?: Sizes;
  readonly dilation?: Sizes;
  /** Whether to include windows that begin inside and end outside. Default: false. */
  readonly ceilMode?: boolean;
  /** Whether to return [values, indices]; indices are into the flattened spatial dimensions. Default: false. */
  readonly returnIndices?: boolean;
}
export interface AdaptiveMaxPoolOptions {
  readonly returnIndices?: boolean;
}
export interface AvgPoolOptions {
  readonly stride?: Sizes;
  readonly padding?: Sizes;
  readonly ceilMode?: boolean;
  /** Whether padding is included in the average. Default: true. */
  readonly countIncludePad?: boolean;
  /** The divisor. Default: the window's size. */
  readonly divisorOverride?: number;
}
interface Pooled {
  readonly size: number;
  readonly stride: number;
  readonly dilation: number;
  readonly padding: number;
  /** How many windows there are, and how much padding after the end they need. */
  readonly count: number;
  readonly high: number;
}

/** The windows of every dimension of space. */
function pooled(
  op: string,
  x: Expr,
  n: number,
  size: Sizes,
  { stride = size, padding = 0, dilation = 1, ceilMode = false }: MaxPoolOptions,
): Pooled[] {
  const all = [
    sizesOf(op, 'kernelSize', size, n, 1),
    sizesOf(op, 'stride', typeof stride === 'object' && !stride.length ? size : stride, n, 1), // torch's []: none given
    sizesOf(op, 'padding', padding, n, 0),
    sizesOf(op, 'dilation', dilation, n, 1),
  ];
  if (x.shape.slice(1 - x.shape.length || 1).some((m) => !m) || (x.shape.length === n + 1 && !x.shape[0]))
    throw new ShapeError(`${op}: only the batch may be empty, got ${x.aval}`);
  return range(n).map((i) => {
    const [k, s, p, d] = all.map((list) => list[i]!) as [number, number, number, number];
    if (p > (d * (k - 1) + 1) / 2)
      throw new ArgumentError(
        `${op}: padding ${p} is more than half the window of ${k}: use at most ${Math.floor(k / 2)}`,
      );
    const [inside, reach] = [x.shape.at(i - n)!, d * (k - 1) + 1];
    const steps = (inside + 2 * p - reach) / s;
    let count = (ceilMode ? Math.ceil(steps) : Math.floor(steps)) + 1;
    if (ceilMode && (count - 1) * s >= inside + p) count--; // no window begins in the padding after the end
    if (count < 1 || !inside)
      throw new ShapeError(`${op}: a window of ${reach} does not fit ${x.aval} in dim ${i - n}, with padding ${p}`);
    return { size: k, stride: s, dilation: d, padding: p, count, high: (count - 1) * s + reach - inside - p };
  });
}

interface Best {
  readonly values: Expr;
  readonly indices: Expr;
}
/** The later one where it is greater, or no number: the first of equals wins, as in torch. */
const better = (best: Best, next: Best): Best => {
  const later = logicalOr(gt(next.values, best.values), isnan(next.values));
  return { values: where(later, next.values, best.values), indices: where(later, next.indices, best.indices) };
};
/** Each value with its place in the flattened space. */
const withIndices = (x: Expr, n: number): Best => {
  const space = x.shape.slice(-n);
  return { values: x, indices: broadcastTo(reshape(iota([sizeOf(space)], 0, 'i64'), space), x.shape) };
};

function maxPool(op: string, n: number, x: Expr, kernelSize: Sizes, options: MaxPoolOptions): Best {
  const windows = pooled(op, x, n, kernelSize, options);
  // The last dimension first: the first of equal rows, and in it the first of equal elements.
  return windows.reduceRight(
    (best, w, i) => {
      const dim = x.shape.length - n + i;
      const at = (y: Expr, fill: number | bigint | boolean) =>
        places(padDim(y, dim, w.padding, w.high, fill), dim, w.count, w);
      const indices = at(best.indices, 0);
      return at(best.values, lowest(x.dtype))
        .map((values, k) => ({ values, indices: indices[k]! }))
        .reduce(better);
    },
    withIndices(x, n),
  );
}

type Pool<Options, Result = Expr> = (x: Expr, kernelSize: Sizes, options?: Options) => Result;
const both =
  (op: string, n: number): Pool<Omit<MaxPoolOptions, 'returnIndices'>, Best> =>
  (x, size, options = {}) => {
    withBatch(op, x, n, (y) => y); // checks the rank
    return maxPool(op, n, x, size, options);
  };
const either =
  (op: string, n: number): Pool<MaxPoolOptions, Expr | Best> =>
  (x, kernelSize, { returnIndices = false, ...options } = {}) =>
    returnIndices
      ? both(op, n)(x, kernelSize, options)
      : withBatch(op, x, n, (y) => maxPool(op, n, y, kernelSize, options).values);
// ---- the greatest of each window; of equal ones the first gets the gradient

export const maxPool1d = either('maxPool1d', 1);
export const maxPool2d = either('maxPool2d', 2);
export const maxPool3d = either('maxPool3d', 3);
// ---- and where in the flattened space they were (torch's return_indices)

export const maxPool1dWithIndices = both('maxPool1dWithIndices', 1);
export const maxPool2dWithIndices = both('maxPool2dWithIndices', 2);
export const maxPool3dWithIndices = both('maxPool3dWithIndices', 3);

// ---- sums of windows

/** The sum of each window. */
const sumPool = (x: Expr, windows: readonly Pooled[]): Expr =>
  windows.reduce((y, w, i) => {
    const dim = x.shape.length - windows.length + i;
    if (w.size === w.stride && !w.padding && !w.high && w.dilation === 1) {
      return reduceSum(
        reshape(
          y,
          y.shape.flatMap((m, d) => (d === dim ? [w.count, w.size] : [m])),
        ),
        [dim + 1],
      );
    }
    return places(padDim(y, dim, w.padding, w.high), dim, w.count, w).reduce((a, b) => add(a, b));
  }, x);

/** Sums of floats, with a batch dimension. */
const inSpace = (op: string, x: Expr, n: number, f: (x: Expr) => Expr): Expr => {
  checkDType(op, [x.aval], isFloat, 'floating point numbers');
  return withBatch(op, x, n, (batch) => inWide(batch, f));
};

const avgPool =
  (op: string, n: number): Pool<AvgPoolOptions> =>
  (x, kernelSize, options = {}) => {
    if (x.dtype !== 'i64') return averaged(op, n, x, kernelSize, options);
    // Integers are averaged as such: cut off towards zero, as in torch.
    return convert(trunc(averaged(op, n, convert(x, 'f64'), kernelSize, options)), x.dtype);
  };
const averaged = (
  op: string,
  n: number,
  x: Expr,
  kernelSize: Sizes,
  { countIncludePad = true, divisorOverride, ...options }: AvgPoolOptions,
): Expr =>
  inSpace(op, x, n, (batch) => {
    if (divisorOverride === 0) throw new ArgumentError(`${op}: divisorOverride is 0: it must not be 0`);
    const windows = pooled(op, batch, n, kernelSize, options);
    const total = sumPool(batch, windows);
    if (divisorOverride !== undefined) return div(total, divisorOverride);
    return windows.reduce((y, w, i) => {
      const inside = batch.shape[i + 2]!;
      const border = countIncludePad ? w.padding : 0;
      const counts = range(w.count).map((j) => {
        const start = j * w.stride - w.padding;
        return Math.min(start + w.size, inside + border) - Math.max(start, -border);
      });
      return div(y, along(counts, i + 2, y.shape.length, y.dtype));
    }, total);
  });
export const avgPool1d = avgPool('avgPool1d', 1);
export const avgPool2d = avgPool('avgPool2d', 2);
export const avgPool3d = avgPool('avgPool3d', 3);

/** The p-norm of each window. */
const lpPool =
  (op: string, n: number) =>
  (
    x: Expr,
    normType: number,
    kernelSize: Sizes,
    options: { readonly stride?: Sizes; readonly ceilMode?: boolean } = {},
  ): Expr =>
    inSpace(op, x, n, (batch) => {
      const windows = pooled(op, batch, n, kernelSize, options);
      // torch averages over what is inside and multiplies by the window's size: at a ragged end the two differ.
      const sums = sumPool(pow(batch, normType), windows);
      const scaled = windows.reduce((y, w, i) => {
        const counts = range(w.count).map((j) => w.size / Math.min(w.size, batch.shape[i + 2]! - j * w.stride));
        return counts.every((c) => c === 1) ? y : mul(y, along(counts, i + 2, y.shape.length, y.dtype));
      }, sums);
      const zero = eq(scaled, 0); // where the slope is infinite nothing flows back, as in torch
      return where(zero, 0, pow(where(zero, 1, scaled), 1 / normType));
    });
export const lpPool1d = lpPool('lpPool1d', 1);
export const lpPool2d = lpPool('lpPool2d', 2);
export const lpPool3d = lpPool('lpPool3d', 3);

// ---- as many windows as wanted

/** The windows that cut `inside` elements into `count` parts, which overlap where it does not go evenly. */
const parts = (inside: number, count: number): [start: number, end: number][] =>
  range(count).map((i) => [Math.floor((i * inside) / count), Math.ceil(((i + 1) * inside) / count)]);
/** The output size: one number, or one for each dimension; null keeps the size. */
export type OutputSize = number | readonly (number | null)[];
const outputSizes = (op: string, x: Expr, n: number, size: OutputSize): readonly number[] =>
  sizesOf(
    op,
    'outputSize',
    typeof size === 'number' ? size : size.map((s, i) => s ?? x.shape.at(i - size.length)!),
    n,
    0,
  );

const adaptiveAvgPool =
  (op: string, n: number) =>
  (x: Expr, outputSize: OutputSize): Expr =>
    inSpace(op, x, n, (batch) => {
      return outputSizes(op, x, n, outputSize).reduce((y, count, i) => {
        const [dim, inside] = [i + 2, batch.shape[i + 2]!];
        const split = y.shape.toSpliced(dim, 1, count, inside / count);
        if (Number.isInteger(inside / count)) return div(reduceSum(reshape(y, split), [dim + 1]), inside / count);
        if (!count) return sliceDim(y, dim, 0, 0);
        return concat(
          parts(inside, count).map(([start, end]) =>
            div(reshape(reduceSum(sliceDim(y, dim, start, end), [dim]), y.shape.with(dim, 1)), end - start),
          ),
          dim,
        );
      }, batch);
    });
export const adaptiveAvgPool1d = adaptiveAvgPool('adaptiveAvgPool1d', 1);
export const adaptiveAvgPool2d = adaptiveAvgPool('adaptiveAvgPool2d', 2);
export const adaptiveAvgPool3d = adaptiveAvgPool('adaptiveAvgPool3d', 3);

function adaptiveMax(op: string, n: number, x: Expr, outputSize: OutputSize): Best {
  withBatch(op, x, n, (y) => y);
  return outputSizes(op, x, n, outputSize).reduceRight(
    (best, count, i) => {
      const dim = x.shape.length - n + i;
      const at = (k: number, end: number): Best => ({
        values: sliceDim(best.values, dim, k, end),
        indices: sliceDim(best.indices, dim, k, end),
      });
      if (!count) return at(0, 0);
      const chosen = parts(x.shape[dim]!, count).map(([start, end]) =>
        range(end - start)
          .map((k) => at(start + k, start + k + 1))
          .reduce(better),
      );
      return {
        values: concat(
          chosen.map((c) => c.values),
          dim,
        ),
        indices: concat(
          chosen.map((c) => c.indices),
          dim,
        ),
      };
    },
    withIndices(x, n),
  );
}
const adaptiveEither =
  (op: string, n: number) =>
  (x: Expr, outputSize: OutputSize, { returnIndices = false }: AdaptiveMaxPoolOptions = {}): Expr | Best => {
    const best = adaptiveMax(op, n, x, outputSize);
    return returnIndices ? best : best.values;
  };
const adaptiveBoth =
  (op: string, n: number) =>
  (x: Expr, outputSize: OutputSize): Best =>
    adaptiveMax(op, n, x, outputSize);
export const adaptiveMaxPool1d = adaptiveEither('adaptiveMaxPool1d', 1);
export const adaptiveMaxPool2d = adaptiveEither('adaptiveMaxPool2d', 2);
export const adaptiveMaxPool3d = adaptiveEither('adaptiveMaxPool3d', 3);
export const adaptiveMaxPool1dWithIndices = adaptiveBoth('adaptiveMaxPool1dWithIndices', 1);
export const adaptiveMaxPool2dWithIndices = adaptiveBoth('adaptiveMaxPool2dWithIndices', 2);
export const adaptiveMaxPool3dWithIndices = adaptiveBoth('adaptiveMaxPool3dWithIndices', 3);
