// Pooling as layers.
import * as f from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type { AvgPoolOptions, MaxPoolOptions, OutputSize, Sizes } from '../tensor/types.js';
import { layer } from './layer.js';

interface Window {
  readonly kernelSize: Sizes;
}
type Pool<O> = (x: Tensor, kernelSize: Sizes, options: O) => Tensor;

const maxPool = (pool: Pool<MaxPoolOptions>) =>
  layer(
    ['kernelSize', 'stride', 'padding', 'dilation', 'ceilMode'],
    { stride: undefined, padding: 0, dilation: 1, ceilMode: false },
    ({ kernelSize, ...options }: Window & MaxPoolOptions, x: Tensor) => pool(x, kernelSize, options),
  );
/** The greatest of each window of [N, C, L]. */
export class MaxPool1d extends maxPool(f.maxPool1d) {}
/** The greatest of each window of [N, C, H, W]. */
export class MaxPool2d extends maxPool(f.maxPool2d) {}
/** The greatest of each window of [N, C, D, H, W]. */
export class MaxPool3d extends maxPool(f.maxPool3d) {}

const avgPool = (pool: Pool<AvgPoolOptions>) =>
  layer(
    ['kernelSize', 'stride', 'padding', 'ceilMode', 'countIncludePad', 'divisorOverride'],
    { stride: undefined, padding: 0, ceilMode: false, countIncludePad: true, divisorOverride: undefined },
    ({ kernelSize, ...options }: Window & AvgPoolOptions, x: Tensor) => pool(x, kernelSize, options),
  );
/** The mean of each window of [N, C, L]. */
export class AvgPool1d extends avgPool(f.avgPool1d) {}
/** The mean of each window of [N, C, H, W]. */
export class AvgPool2d extends avgPool(f.avgPool2d) {}
/** The mean of each window of [N, C, D, H, W]. */
export class AvgPool3d extends avgPool(f.avgPool3d) {}

interface LPWindow extends Window {
  readonly normType: number;
  readonly stride?: Sizes;
  readonly ceilMode: boolean;
}
type LPPool = (x: Tensor, normType: number, size: Sizes, options: { stride?: Sizes; ceilMode: boolean }) => Tensor;
const lpPool = (pool: LPPool) =>
  layer(
    ['normType', 'kernelSize', 'stride', 'ceilMode'],
    { stride: undefined, ceilMode: false },
    ({ normType, kernelSize, ...options }: LPWindow, x: Tensor) => pool(x, normType, kernelSize, options),
  );
/** The norm of each window of [N, C, L]. */
export class LPPool1d extends lpPool(f.lpPool1d) {}
/** The norm of each window of [N, C, H, W]. */
export class LPPool2d extends lpPool(f.lpPool2d) {}
/** The norm of each window of [N, C, D, H, W]. */
export class LPPool3d extends lpPool(f.lpPool3d) {}

const adaptive = (pool: (x: Tensor, outputSize: OutputSize) => Tensor) =>
  layer(['outputSize'], {}, ({ outputSize }: { readonly outputSize: OutputSize }, x: Tensor) => pool(x, outputSize));
/** Means of windows such that L becomes outputSize. */
export class AdaptiveAvgPool1d extends adaptive(f.adaptiveAvgPool1d) {}
/** Means of windows such that [H, W] becomes outputSize. */
export class AdaptiveAvgPool2d extends adaptive(f.adaptiveAvgPool2d) {}
/** Means of windows such that [D, H, W] becomes outputSize. */
export class AdaptiveAvgPool3d extends adaptive(f.adaptiveAvgPool3d) {}
/** The greatest of windows such that L becomes outputSize. */
export class AdaptiveMaxPool1d extends adaptive(f.adaptiveMaxPool1d) {}
/** The greatest of windows such that [H, W] becomes outputSize. */
export class AdaptiveMaxPool2d extends adaptive(f.adaptiveMaxPool2d) {}
/** The greatest of windows such that [D, H, W] becomes outputSize. */
export class AdaptiveMaxPool3d extends adaptive(f.adaptiveMaxPool3d) {}
