// Resizing images, pixel shuffles, and windows as columns.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { range, type Shape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { adaptiveAvgPool1d, adaptiveAvgPool2d, adaptiveAvgPool3d } from './pool.js';
import { inWide } from './prim/align.js';
import { full } from './prim/constant.js';
import { checkDType } from './prim/define.js';
import { takeFixed } from './prim/gather.js';
import { permute, reshape } from './prim/move.js';
import { add, mul } from './prim/pointwise.js';
import { concat, pad, padDim, sliceDim } from './prim/slice.js';
import { along, places, type Sizes, sizesOf, type Window, withBatch } from './window.js';

// ---- interpolation, one dimension of space after another

export interface InterpolateOptions {
  /** The output size, or the factor: one number, or one for each spatial dimension. */
  readonly size?: Sizes;
  readonly scaleFactor?: Sizes;
  readonly mode?: 'nearest' | 'nearest-exact' | 'linear' | 'bilinear' | 'trilinear' | 'bicubic' | 'area';
  /** Whether the centres of the corner elements are aligned, instead of their outer edges. Default: false. */
  readonly alignCorners?: boolean;
  /** Whether to compute with the ratio of the sizes instead of the given factor. Default: false. */
  readonly recomputeScaleFactor?: boolean;
}
const RANKS = {
  linear: [1],
  bilinear: [2],
  bicubic: [2],
  trilinear: [3],
  nearest: [1, 2, 3],
  'nearest-exact': [1, 2, 3],
  area: [1, 2, 3],
};

/** The weights of the elements around a place that is t past the second of them (Keys' cubic with a = -0.75). */
const cubic = (t: number): number[] => {
  const a = -0.75;
  const near = (u: number) => ((a + 2) * u - (a + 3)) * u * u + 1;
  const far = (u: number) => ((a * u - 5 * a) * u + 8 * a) * u - 4 * a;
  return [far(t + 1), near(t), near(1 - t), far(2 - t)];
};

/** For each element of the result, the elements it is made of, and how much of each. */
function taps(
  mode: string,
  inside: number,
  count: number,
  step: number,
  alignCorners: boolean,
): { at: number; weight: number }[][] {
  const clamp = (i: number) => Math.min(Math.max(i, 0), inside - 1);
  return range(count).map((i) => {
    // torch counts in f32: which of two neighbours is nearest depends on it.
    if (mode === 'nearest') return [{ at: clamp(Math.floor(Math.fround(i * Math.fround(step)))), weight: 1 }];
    if (mode === 'nearest-exact')
      return [{ at: clamp(Math.floor(Math.fround((i + 0.5) * Math.fround(step)))), weight: 1 }];
    const place = alignCorners ? (count > 1 ? (i * (inside - 1)) / (count - 1) : 0) : (i + 0.5) * step - 0.5;
    if (mode === 'bicubic') {
      const first = Math.floor(place);
      return cubic(place - first).map((weight, k) => ({ at: clamp(first - 1 + k), weight }));
    }
    const inner = Math.max(place, 0);
    const first = clamp(Math.floor(inner));
    const t = Math.min(inner - first, 1);
    return [
      { at: first, weight: 1 - t },
      { at: clamp(first + 1), weight: t },
    ];
  });
}

/** Resizes an image. Mode 'area' averages, as adaptiveAvgPool. Unlike torch: no antialias. */
export function interpolate(
  x: Expr,
  { size, scaleFactor, mode = 'nearest', alignCorners = false, recomputeScaleFactor = false }: InterpolateOptions = {},
): Expr {
  const n = x.shape.length - 2;
  const ranks = RANKS[mode];
  if (!ranks.includes(n))
    throw new ShapeError(
      `interpolate: mode '${mode}' takes ${ranks.map((r) => r + 2).join(', ')} dimensions, got ${x.aval}`,
    );
  if ((size === undefined) === (scaleFactor === undefined))
    throw new ArgumentError(`interpolate of ${x.aval}: give size or scaleFactor, and only one of them`);
  checkDType('interpolate', [x.aval], isFloat, 'floating point numbers');
  const factors =
    scaleFactor === undefined
      ? undefined
      : typeof scaleFactor === 'number'
        ? range(n).map(() => scaleFactor)
        : scaleFactor;
  if (factors && (factors.length !== n || factors.some((f) => !(f > 0 && f < Number.POSITIVE_INFINITY)))) {
    throw new ArgumentError(`interpolate: scaleFactor is [${factors.join(', ')}]: give one positive number, or ${n}`);
  }
  const counts =
    size === undefined
      ? factors!.map((f, i) => Math.floor(x.shape[i + 2]! * f))
      : sizesOf('interpolate', 'size', size, n, 1);
  if (mode === 'area') return [adaptiveAvgPool1d, adaptiveAvgPool2d, adaptiveAvgPool3d][n - 1]!(x, counts);
  const resize = (y: Expr, count: number, i: number) => {
    const [dim, inside] = [i + 2, x.shape[i + 2]!];
    const step = factors && !recomputeScaleFactor ? 1 / factors[i]! : inside / count;
    const all = taps(mode, inside, count, step, alignCorners);
    // Elements that nothing is taken of are left out: they may be infinite.
    const used = range(all[0]?.length ?? 0).filter((k) => all.some((t) => t[k]!.weight !== 0));
    const columns = used.map((k) => {
      const taken = takeFixed(
        y,
        dim,
        all.map((t) => t[k]!.at),
      );
      return all.every((t) => t[k]!.weight === 1)
        ? taken
        : mul(
            taken,
            along(
              all.map((t) => t[k]!.weight),
              dim,
              y.shape.length,
              y.dtype,
            ),
          );
    });
    return columns.length ? columns.reduce((a, b) => add(a, b)) : sliceDim(y, dim, 0, 0);
  };
  return inWide(x, (wide) => counts.reduce(resize, wide));
}

// ---- channels to space and back

/** [..., C r r, H, W] to [..., C, H r, W r]. */
export function pixelShuffle(x: Expr, upscaleFactor: number): Expr {
  const r = upscaleFactor;
  const [c, h, w] = x.shape.slice(-3) as [number, number, number];
  if (x.shape.length < 3 || !Number.isInteger(r) || r < 1 || c % (r * r)) {
    throw new ShapeError(`pixelShuffle: takes [..., C * ${r} * ${r}, H, W] with upscaleFactor ${r}, got ${x.aval}`);
  }
  return regroup(x, [c / (r * r), r, r, h, w], [0, 3, 1, 4, 2], [c / (r * r), h * r, w * r]);
}
/** [..., C, H r, W r] to [..., C r r, H, W]. */
export function pixelUnshuffle(x: Expr, downscaleFactor: number): Expr {
  const r = downscaleFactor;
  const [c, h, w] = x.shape.slice(-3) as [number, number, number];
  if (x.shape.length < 3 || !Number.isInteger(r) || r < 1 || h % r || w % r) {
    throw new ShapeError(`pixelUnshuffle: takes [..., C, H * ${r}, W * ${r}] with downscaleFactor ${r}, got ${x.aval}`);
  }
  return regroup(x, [c, h / r, r, w / r, r], [0, 2, 4, 1, 3], [c * r * r, h / r, w / r]);
}
/** [N, C, ...]: the channels of each group take turns. */
export function channelShuffle(x: Expr, groups: number): Expr {
  const c = x.shape[1];
  if (x.shape.length < 3 || !Number.isInteger(groups) || groups < 1 || c! % groups)
    throw new ShapeError(`channelShuffle: takes [N, C, ...space] with C a multiple of ${groups}, got ${x.aval}`);
  const split = x.shape.toSpliced(1, 1, groups, c! / groups);
  const dims = range(split.length);
  return reshape(permute(reshape(x, split), [0, 2, 1, ...dims.slice(3)]), x.shape);
}
/** Splits the last three dimensions, reorders the parts and merges them. */
const regroup = (x: Expr, split: Shape, order: readonly number[], merged: Shape): Expr => {
  const lead = x.shape.slice(0, -3);
  const dims = [...range(lead.length), ...order.map((d) => d + lead.length)];
  return reshape(permute(reshape(x, [...lead, ...split]), dims), [...lead, ...merged]);
};

/** torch's older names of interpolate. */
export const upsample = (x: Expr, options: Omit<InterpolateOptions, 'recomputeScaleFactor'> = {}): Expr =>
  interpolate(x, options);
type UpsampleOptions = Pick<InterpolateOptions, 'size' | 'scaleFactor'>;
export const upsampleNearest = (x: Expr, options: UpsampleOptions = {}): Expr =>
  interpolate(x, { ...options, mode: 'nearest' });
/** With the corners' centres in their places. */
export const upsampleBilinear = (x: Expr, options: UpsampleOptions = {}): Expr =>
  interpolate(x, { ...options, mode: 'bilinear', alignCorners: true });

// ---- windows as columns

export interface ColumnOptions {
  readonly dilation?: Sizes;
  readonly padding?: Sizes;
  readonly stride?: Sizes;
}
interface ColumnWindow extends Window {
  readonly padding: number;
  readonly count: number;
}
function columnWindows(
  op: string,
  space: Shape,
  kernelSize: Sizes,
  { dilation = 1, padding = 0, stride = 1 }: ColumnOptions,
): readonly ColumnWindow[] {
  const all = [
    sizesOf(op, 'kernelSize', kernelSize, 2, 1),
    sizesOf(op, 'stride', stride, 2, 1),
    sizesOf(op, 'dilation', dilation, 2, 1),
    sizesOf(op, 'padding', padding, 2, 0),
  ];
  return space.map((n, i) => {
    const [k, s, d, p] = all.map((list) => list[i]!) as [number, number, number, number];
    const count = Math.floor((n + 2 * p - d * (k - 1) - 1) / s) + 1;
    if (count < 1)
      throw new ShapeError(`${op}: a window of ${d * (k - 1) + 1} does not fit size ${n} with padding ${p}`);
    return { size: k, stride: s, dilation: d, padding: p, count };
  });
}

/** Every window of an image [N, C, H, W] as a column: [N, C kH kW, windows]. torch.nn.functional.unfold. */
export const im2col = (x: Expr, kernelSize: Sizes, options: ColumnOptions = {}): Expr =>
  withBatch('im2col', x, 2, (batch) => {
    const [h, w] = columnWindows('im2col', batch.shape.slice(2), kernelSize, options) as [ColumnWindow, ColumnWindow];
    const padded = padDim(padDim(batch, 2, h.padding, h.padding), 3, w.padding, w.padding);
    const [n, c] = batch.shape as [number, number];
    const cells = places(padded, 2, h.count, h).flatMap((line) => places(line, 3, w.count, w));
    return reshape(
      concat(
        cells.map((y) => reshape(y, [n, c, 1, h.count * w.count])),
        2,
      ),
      [n, c * h.size * w.size, h.count * w.count],
    );
  });

/** The inverse of im2col: overlapping windows are summed. torch.nn.functional.fold. */
export function col2im(x: Expr, outputSize: Sizes, kernelSize: Sizes, options: ColumnOptions = {}): Expr {
  const space = sizesOf('col2im', 'outputSize', outputSize, 2, 1);
  const [h, w] = columnWindows('col2im', space, kernelSize, options) as [ColumnWindow, ColumnWindow];
  return withBatch('col2im', x, 1, (batch) => {
    const [n, rows, windows] = batch.shape as [number, number, number];
    const area = h.size * w.size;
    if (rows % area || windows !== h.count * w.count) {
      throw new ShapeError(`col2im: takes [N, C * ${area}, ${h.count * w.count}] for these windows, got ${x.aval}`);
    }
    const cells = reshape(batch, [n, rows / area, h.size, w.size, h.count, w.count]);
    const all = range(area).map((i) => {
      const [a, b] = [Math.floor(i / w.size), i % w.size];
      const cell = reshape(sliceDim(sliceDim(cells, 2, a, a + 1), 3, b, b + 1), [n, rows / area, h.count, w.count]);
      // Spread by the stride, then moved to its place in the window; what lies in the padding falls off.
      const low = [a * h.dilation - h.padding, b * w.dilation - w.padding];
      const high = [h, w].map((v, d) => space[d]! - low[d]! - (v.count - 1) * v.stride - 1);
      return pad(cell, full([], 0, x.dtype), [0, 0, ...low], [0, 0, ...high], [0, 0, h.stride - 1, w.stride - 1]);
    });
    return all.reduce((a, b) => add(a, b));
  });
}
