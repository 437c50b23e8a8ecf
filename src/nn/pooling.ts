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
export class MaxPool1d extends maxPool(f.maxPool1d) {}
export class MaxPool2d extends maxPool(f.maxPool2d) {}
export class MaxPool3d extends maxPool(f.maxPool3d) {}

const avgPool = (pool: Pool<AvgPoolOptions>) =>
  layer(
    ['kernelSize', 'stride', 'padding', 'ceilMode', 'countIncludePad', 'divisorOverride'],
    { stride: undefined, padding: 0, ceilMode: false, countIncludePad: true, divisorOverride: undefined },
    ({ kernelSize, ...options }: Window & AvgPoolOptions, x: Tensor) => pool(x, kernelSize, options),
  );
export class AvgPool1d extends avgPool(f.avgPool1d) {}
export class AvgPool2d extends avgPool(f.avgPool2d) {}
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
export class LPPool1d extends lpPool(f.lpPool1d) {}
export class LPPool2d extends lpPool(f.lpPool2d) {}
export class LPPool3d extends lpPool(f.lpPool3d) {}

const adaptive = (pool: (x: Tensor, outputSize: OutputSize) => Tensor) =>
  layer(['outputSize'], {}, ({ outputSize }: { readonly outputSize: OutputSize }, x: Tensor) => pool(x, outputSize));
export class AdaptiveAvgPool1d extends adaptive(f.adaptiveAvgPool1d) {}
export class AdaptiveAvgPool2d extends adaptive(f.adaptiveAvgPool2d) {}
export class AdaptiveAvgPool3d extends adaptive(f.adaptiveAvgPool3d) {}
export class AdaptiveMaxPool1d extends adaptive(f.adaptiveMaxPool1d) {}
export class AdaptiveMaxPool2d extends adaptive(f.adaptiveMaxPool2d) {}
export class AdaptiveMaxPool3d extends adaptive(f.adaptiveMaxPool3d) {}
