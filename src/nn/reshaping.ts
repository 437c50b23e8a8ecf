// Layers that rearrange values: reshaping, shuffling, padding, resizing.
import type { Shape } from '../base/shape.js';
import * as f from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Im2colOptions, InterpolateOptions, Sizes } from '../tensor/types.js';
import { layer } from './layer.js';
import { Module } from './module.js';

/** Returns its argument. */
export class Identity extends Module {
  override forward(x: Tensor): Tensor {
    return x;
  }
}

export class Flatten extends layer(
  ['startDim', 'endDim'],
  { startDim: 1, endDim: -1 },
  (options: { readonly startDim: number; readonly endDim: number }, x: Tensor) => f.flatten(x, options),
) {}
export class Unflatten extends layer(
  ['dim', 'unflattenedSize'],
  {},
  (o: { readonly dim: number; readonly unflattenedSize: Shape }, x: Tensor) => f.unflatten(x, o.dim, o.unflattenedSize),
) {}

export class Upsample extends layer(
  ['size', 'scaleFactor', 'mode', 'alignCorners', 'recomputeScaleFactor'],
  {
    size: undefined,
    scaleFactor: undefined,
    mode: 'nearest',
    alignCorners: undefined,
    recomputeScaleFactor: undefined,
  },
  (options: InterpolateOptions, x: Tensor) => f.interpolate(x, options),
) {}
export class PixelShuffle extends layer(['upscaleFactor'], {}, (o: { readonly upscaleFactor: number }, x: Tensor) =>
  f.pixelShuffle(x, o.upscaleFactor),
) {}
export class PixelUnshuffle extends layer(
  ['downscaleFactor'],
  {},
  (o: { readonly downscaleFactor: number }, x: Tensor) => f.pixelUnshuffle(x, o.downscaleFactor),
) {}

/** Shuffles the channels of [N, C, ...] across groups. */
export class ChannelShuffle extends layer(['groups'], {}, (o: { readonly groups: number }, x: Tensor) =>
  f.channelShuffle(x, o.groups),
) {}

const COLUMNS = { dilation: 1, padding: 0, stride: 1 };
/** The windows of images as columns: im2col. */
export class Unfold extends layer(
  ['kernelSize', 'dilation', 'padding', 'stride'],
  COLUMNS,
  ({ kernelSize, ...options }: Im2colOptions & { readonly kernelSize: Sizes }, x: Tensor) =>
    f.im2col(x, kernelSize, options),
) {}
/** Columns summed into images: col2im. */
export class Fold extends layer(
  ['outputSize', 'kernelSize', 'dilation', 'padding', 'stride'],
  COLUMNS,
  (o: Im2colOptions & { readonly outputSize: Sizes; readonly kernelSize: Sizes }, x: Tensor) => {
    const { outputSize, kernelSize, ...options } = o;
    return f.col2im(x, outputSize, kernelSize, options);
  },
) {}

// ---- padding: [before, after] of the last dimension first, or one number for all sides

interface Padding {
  readonly padding: number | Shape;
}
const sides = (n: number, { padding }: Padding): Shape =>
  typeof padding === 'number' ? Array.from({ length: 2 * n }, () => padding) : padding;
const padding = (n: number, mode: 'reflect' | 'replicate' | 'circular' | 'constant') =>
  layer(['padding'], {}, (options: Padding, x: Tensor) => f.pad(x, sides(n, options), { mode }));
const constantPadding = (n: number) =>
  layer(['padding', 'value'], {}, (options: Padding & { readonly value: number }, x: Tensor) =>
    f.pad(x, sides(n, options), { value: options.value }),
  );
export class ZeroPad1d extends padding(1, 'constant') {}
export class ZeroPad2d extends padding(2, 'constant') {}
export class ZeroPad3d extends padding(3, 'constant') {}
export class ConstantPad1d extends constantPadding(1) {}
export class ConstantPad2d extends constantPadding(2) {}
export class ConstantPad3d extends constantPadding(3) {}
export class ReflectionPad1d extends padding(1, 'reflect') {}
export class ReflectionPad2d extends padding(2, 'reflect') {}
export class ReflectionPad3d extends padding(3, 'reflect') {}
export class ReplicationPad1d extends padding(1, 'replicate') {}
export class ReplicationPad2d extends padding(2, 'replicate') {}
export class ReplicationPad3d extends padding(3, 'replicate') {}
export class CircularPad1d extends padding(1, 'circular') {}
export class CircularPad2d extends padding(2, 'circular') {}
export class CircularPad3d extends padding(3, 'circular') {}
