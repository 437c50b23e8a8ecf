// Pooling as layers.
import { ArgumentError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import type { MaxUnpoolOptions } from '../ops/unpool.js';
import * as f from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type { AvgPoolOptions, MaxPoolOptions, OutputSize, Sizes } from '../tensor/types.js';
import { layer } from './layer.js';
import { Module } from './module.js';
import { optionsInOrder, showOptions } from './options.js';

interface Window {
  readonly kernelSize: Sizes;
}
type Pool<O> = (x: Tensor, kernelSize: Sizes, options: O) => Tensor;

export interface MaxPoolLayerOptions<I extends boolean = boolean> extends Omit<MaxPoolOptions, 'stride'> {
  /** Default: kernelSize. */
  readonly stride?: Sizes | null | undefined;
  /** Whether the result is [values, indices], as MaxUnpool takes them. */
  readonly returnIndices?: I;
}
type Found<I extends boolean> = I extends true ? [values: Tensor, indices: Tensor] : Tensor;
type MaxOptions<I extends boolean> = MaxPoolLayerOptions<I> | undefined;
const MAXPOOL = ['kernelSize', 'stride', 'padding', 'dilation', 'returnIndices', 'ceilMode'] as const;
class MaxPool<I extends boolean> extends Module {
  readonly kernelSize: Sizes;
  readonly options: Omit<MaxPoolOptions, 'returnIndices'>;
  readonly returnIndices: boolean;
  constructor(
    readonly pool: typeof f.maxPool2d,
    given: readonly unknown[],
  ) {
    super();
    const { kernelSize, returnIndices, stride, ...options } = optionsInOrder<
      Required<Omit<MaxPoolLayerOptions, 'stride'>> & Window & { readonly stride: Sizes | undefined }
    >(
      new.target.name,
      MAXPOOL,
      { kernelSize: undefined, stride: undefined, padding: 0, dilation: 1, returnIndices: false, ceilMode: false },
      given,
    );
    if (kernelSize === undefined)
      throw new ArgumentError(`${new.target.name}: kernelSize is missing: write new ${new.target.name}(kernelSize)`);
    this.kernelSize = kernelSize;
    this.options = { ...options, ...(stride !== undefined && { stride }) };
    this.returnIndices = returnIndices;
  }
  override forward(x: Tensor): Found<I> {
    if (!this.returnIndices) return this.pool(x, this.kernelSize, this.options) as Found<I>;
    const { values, indices } = this.pool(x, this.kernelSize, { ...this.options, returnIndices: true });
    return [values, indices] as unknown as Found<I>;
  }
  override extraRepr(): string {
    const { kernelSize, options, returnIndices } = this;
    return showOptions({ kernelSize, ...options, ...(returnIndices && { returnIndices }) });
  }
}
type MaxArguments<I extends boolean> = [
  kernelSize: Sizes | (Window & MaxPoolLayerOptions<I>),
  stride?: Sizes | null | MaxOptions<I>,
  padding?: Sizes | MaxOptions<I>,
  dilation?: Sizes | MaxOptions<I>,
  returnIndices?: I | MaxOptions<I>,
  ceilMode?: boolean | MaxOptions<I>,
];
/** The maximum of each window of [N, C, L]. */
export class MaxPool1d<const I extends boolean = false> extends MaxPool<I> {
  constructor(...options: MaxArguments<I>) {
    super(f.maxPool1d, options);
  }
}
/** The maximum of each window of [N, C, H, W]. */
export class MaxPool2d<const I extends boolean = false> extends MaxPool<I> {
  constructor(...options: MaxArguments<I>) {
    super(f.maxPool2d, options);
  }
}
/** The maximum of each window of [N, C, D, H, W]. */
export class MaxPool3d<const I extends boolean = false> extends MaxPool<I> {
  constructor(...options: MaxArguments<I>) {
    super(f.maxPool3d, options);
  }
}

type Unpool = (x: Tensor, indices: Tensor, kernelSize: Sizes, options: MaxUnpoolOptions) => Tensor;
const maxUnpool = (unpool: Unpool) =>
  layer(
    ['kernelSize', 'stride', 'padding'],
    { stride: undefined, padding: 0 },
    (
      { kernelSize, ...options }: Window & Omit<MaxUnpoolOptions, 'outputSize'>,
      x: Tensor,
      indices: Tensor,
      outputSize?: Shape | null,
    ) => unpool(x, indices, kernelSize, { ...options, ...(outputSize && { outputSize }) }),
  );
/** Puts the values of MaxPool1d back at their indices, with zeros elsewhere. forward(x, indices, outputSize). */
export class MaxUnpool1d extends maxUnpool(f.maxUnpool1d) {}
export class MaxUnpool2d extends maxUnpool(f.maxUnpool2d) {}
export class MaxUnpool3d extends maxUnpool(f.maxUnpool3d) {}

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
/** Averages windows such that L becomes outputSize. */
export class AdaptiveAvgPool1d extends adaptive(f.adaptiveAvgPool1d) {}
/** Averages windows such that [H, W] becomes outputSize. */
export class AdaptiveAvgPool2d extends adaptive(f.adaptiveAvgPool2d) {}
/** Averages windows such that [D, H, W] becomes outputSize. */
export class AdaptiveAvgPool3d extends adaptive(f.adaptiveAvgPool3d) {}
class AdaptiveMaxPool<I extends boolean> extends Module {
  readonly outputSize: OutputSize;
  readonly returnIndices: boolean;
  constructor(
    readonly pool: typeof f.adaptiveMaxPool2d,
    given: readonly unknown[],
  ) {
    super();
    const { outputSize, returnIndices } = optionsInOrder<{
      readonly outputSize: OutputSize;
      readonly returnIndices: boolean;
    }>(new.target.name, ['outputSize', 'returnIndices'], { outputSize: undefined, returnIndices: false }, given);
    if (outputSize === undefined)
      throw new ArgumentError(`${new.target.name}: outputSize is missing: write new ${new.target.name}(outputSize)`);
    this.outputSize = outputSize;
    this.returnIndices = returnIndices;
  }
  override forward(x: Tensor): Found<I> {
    if (!this.returnIndices) return this.pool(x, this.outputSize) as Found<I>;
    const { values, indices } = this.pool(x, this.outputSize, { returnIndices: true });
    return [values, indices] as unknown as Found<I>;
  }
  override extraRepr(): string {
    const { outputSize, returnIndices } = this;
    return showOptions({ outputSize, ...(returnIndices && { returnIndices }) });
  }
}
type AdaptiveArguments<I extends boolean> = [
  outputSize: OutputSize | { readonly outputSize: OutputSize; readonly returnIndices?: I },
  returnIndices?: I | { readonly returnIndices?: I },
];
/** The maximum of windows such that L becomes outputSize. */
export class AdaptiveMaxPool1d<const I extends boolean = false> extends AdaptiveMaxPool<I> {
  constructor(...options: AdaptiveArguments<I>) {
    super(f.adaptiveMaxPool1d, options);
  }
}
/** The maximum of windows such that [H, W] becomes outputSize. */
export class AdaptiveMaxPool2d<const I extends boolean = false> extends AdaptiveMaxPool<I> {
  constructor(...options: AdaptiveArguments<I>) {
    super(f.adaptiveMaxPool2d, options);
  }
}
/** The maximum of windows such that [D, H, W] becomes outputSize. */
export class AdaptiveMaxPool3d<const I extends boolean = false> extends AdaptiveMaxPool<I> {
  constructor(...options: AdaptiveArguments<I>) {
    super(f.adaptiveMaxPool3d, options);
  }
}
