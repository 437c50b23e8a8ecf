// Normalization layers.
import { ArgumentError, ShapeError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { ones, tensor, zeros } from '../tensor/create.js';
import { groupNorm, layerNorm, localResponseNorm, rmsNorm, squeeze, unsqueeze } from '../tensor/functions.js';
import { batchNorm, instanceNorm } from '../tensor/norm.js';
import type { Tensor } from '../tensor/tensor.js';
import { layer } from './layer.js';
import { Buffer, Module, Parameter } from './module.js';
import { checkCount, type Given, optionsInOrder, showOptions } from './options.js';

const listOf = (sizes: number | Shape): Shape => (typeof sizes === 'number' ? [sizes] : sizes);

export interface LayerNormLayerOptions {
  readonly eps?: number;
  readonly elementwiseAffine?: boolean;
  readonly bias?: boolean;
}
const LAYERNORM = ['eps', 'elementwiseAffine', 'bias'] as const;
/** The last dimensions at mean 0 and variance 1, then scaled and moved by what is learned. */
export class LayerNorm extends Module {
  readonly normalizedShape: Shape;
  readonly eps: number;
  readonly weight: Parameter | null;
  readonly bias: Parameter | null;
  constructor(normalizedShape: number | Shape, ...options: Given<LayerNormLayerOptions, typeof LAYERNORM>) {
    super();
    const { eps, elementwiseAffine, bias } = optionsInOrder<Required<LayerNormLayerOptions>>(
      'LayerNorm',
      LAYERNORM,
      { eps: 1e-5, elementwiseAffine: true, bias: true },
      options,
    );
    this.normalizedShape = listOf(normalizedShape);
    this.eps = eps;
    this.weight = elementwiseAffine ? new Parameter(ones(this.normalizedShape)) : null;
    this.bias = elementwiseAffine && bias ? new Parameter(zeros(this.normalizedShape)) : null;
  }
  override forward(x: Tensor): Tensor {
    return layerNorm(x, this.normalizedShape, { weight: this.weight, bias: this.bias, eps: this.eps });
  }
  override extraRepr(): string {
    return `[${this.normalizedShape.join(', ')}], eps=${this.eps}, elementwiseAffine=${this.weight !== null}`;
  }
}

export interface RMSNormLayerOptions {
  /** The dtype's precision unless told. */
  readonly eps?: number | null;
  readonly elementwiseAffine?: boolean;
}
const RMSNORM = ['eps', 'elementwiseAffine'] as const;
/** The last dimensions divided by the root of the mean of their squares, then scaled by what is learned. */
export class RMSNorm extends Module {
  readonly normalizedShape: Shape;
  readonly eps: number | null;
  readonly weight: Parameter | null;
  constructor(normalizedShape: number | Shape, ...options: Given<RMSNormLayerOptions, typeof RMSNORM>) {
    super();
    const { eps, elementwiseAffine } = optionsInOrder<Required<RMSNormLayerOptions>>(
      'RMSNorm',
      RMSNORM,
      { eps: null, elementwiseAffine: true },
      options,
    );
    this.normalizedShape = listOf(normalizedShape);
    this.eps = eps;
    this.weight = elementwiseAffine ? new Parameter(ones(this.normalizedShape)) : null;
  }
  override forward(x: Tensor): Tensor {
    return rmsNorm(x, this.normalizedShape, { weight: this.weight, eps: this.eps });
  }
  override extraRepr(): string {
    return `[${this.normalizedShape.join(', ')}], eps=${this.eps}, elementwiseAffine=${this.weight !== null}`;
  }
}

export interface GroupNormLayerOptions {
  readonly eps?: number;
  readonly affine?: boolean;
}
/** The channels of [N, C, ...] in groups, each group of a sample at mean 0 and variance 1, then scaled and moved. */
export class GroupNorm extends Module {
  readonly eps: number;
  readonly weight: Parameter | null;
  readonly bias: Parameter | null;
  constructor(
    readonly numGroups: number,
    readonly numChannels: number,
    ...options: Given<GroupNormLayerOptions, ['eps', 'affine']>
  ) {
    super();
    const { eps, affine } = optionsInOrder('GroupNorm', ['eps', 'affine'], { eps: 1e-5, affine: true }, options);
    checkCount('GroupNorm: numGroups', numGroups);
    checkCount('GroupNorm: numChannels', numChannels);
    if (numChannels % numGroups)
      throw new ArgumentError(`GroupNorm: ${numGroups} groups do not divide ${numChannels} channels`);
    this.eps = eps;
    this.weight = affine ? new Parameter(ones([numChannels])) : null;
    this.bias = affine ? new Parameter(zeros([numChannels])) : null;
  }
  override forward(x: Tensor): Tensor {
    return groupNorm(x, this.numGroups, { weight: this.weight, bias: this.bias, eps: this.eps });
  }
  override extraRepr(): string {
    return `${this.numGroups}, ${this.numChannels}, eps=${this.eps}, affine=${this.weight !== null}`;
  }
}

export class LocalResponseNorm extends layer(
  ['size', 'alpha', 'beta', 'k'],
  { alpha: 1e-4, beta: 0.75, k: 1 },
  (o: { readonly size: number; readonly alpha: number; readonly beta: number; readonly k: number }, x: Tensor) => {
    const { size, ...options } = o;
    return localResponseNorm(x, size, options);
  },
) {}

// ---- with running statistics

export interface StatisticsLayerOptions {
  readonly eps?: number;
  /** How much the running statistics take of each batch's; null: they are the mean over all batches. */
  readonly momentum?: number | null;
  readonly affine?: boolean;
  readonly trackRunningStats?: boolean;
}
const STATISTICS = ['eps', 'momentum', 'affine', 'trackRunningStats'] as const;
type GivenStatistics = Given<StatisticsLayerOptions, typeof STATISTICS>;
/** What batch and instance norms are: statistics of channels, their running means, a scale and an offset. */
class ChannelNorm extends Module {
  readonly eps: number;
  readonly momentum: number | null;
  readonly weight: Parameter | null;
  readonly bias: Parameter | null;
  readonly runningMean: Buffer | null;
  readonly runningVar: Buffer | null;
  readonly numBatchesTracked: Buffer | null;
  constructor(
    readonly numFeatures: number,
    options: GivenStatistics,
    normally: Required<StatisticsLayerOptions>,
  ) {
    super();
    const { name } = new.target;
    const { eps, momentum, affine, trackRunningStats } = optionsInOrder(name, STATISTICS, normally, options);
    const sizes = [checkCount(`${name}: numFeatures`, numFeatures)];
    this.eps = eps;
    this.momentum = momentum;
    this.weight = affine ? new Parameter(ones(sizes)) : null;
    this.bias = affine ? new Parameter(zeros(sizes)) : null;
    this.runningMean = trackRunningStats ? new Buffer(zeros(sizes)) : null;
    this.runningVar = trackRunningStats ? new Buffer(ones(sizes)) : null;
    this.numBatchesTracked = trackRunningStats ? new Buffer(tensor(0, { dtype: 'i64' })) : null;
  }
  resetRunningStats(): void {
    this.runningMean?.zero_();
    this.runningVar?.fill_(1);
    this.numBatchesTracked?.zero_();
  }
  protected checkInput(x: Tensor, ranks: readonly number[]): void {
    const { name } = this.constructor;
    if (!ranks.includes(x.ndim)) throw new ShapeError(`${name}: takes ${ranks.join(' or ')} dimensions, got ${x.aval}`);
  }
  override extraRepr(): string {
    const { eps, momentum, weight, runningMean } = this;
    const options = { eps, momentum, affine: weight !== null, trackRunningStats: runningMean !== null };
    return `${this.numFeatures}, ${showOptions(options)}`;
  }
}

class BatchNorm extends ChannelNorm {
  readonly #ranks: readonly number[];
  constructor(ranks: readonly number[], numFeatures: number, options: GivenStatistics) {
    super(numFeatures, options, { eps: 1e-5, momentum: 0.1, affine: true, trackRunningStats: true });
    this.#ranks = ranks;
  }
  override forward(x: Tensor): Tensor {
    this.checkInput(x, this.#ranks);
    const { weight, bias, eps, runningMean, runningVar, numBatchesTracked, momentum } = this;
    const learning = this.training;
    if (learning) numBatchesTracked?.add_(1);
    return batchNorm(x, runningMean, runningVar, {
      weight,
      bias,
      eps,
      training: learning || !runningMean,
      momentum: momentum ?? numBatchesTracked?.to('f32').reciprocal() ?? 0,
    });
  }
}
/** Each channel of [N, C] or [N, C, L] at mean 0 and variance 1 over the batch; of the running statistics in eval mode. */
export class BatchNorm1d extends BatchNorm {
  constructor(numFeatures: number, ...options: GivenStatistics) {
    super([2, 3], numFeatures, options);
  }
}
/** The same of [N, C, H, W]. */
export class BatchNorm2d extends BatchNorm {
  constructor(numFeatures: number, ...options: GivenStatistics) {
    super([4], numFeatures, options);
  }
}
/** The same of [N, C, D, H, W]. */
export class BatchNorm3d extends BatchNorm {
  constructor(numFeatures: number, ...options: GivenStatistics) {
    super([5], numFeatures, options);
  }
}

class InstanceNorm extends ChannelNorm {
  readonly #space: number;
  constructor(space: number, numFeatures: number, options: GivenStatistics) {
    super(numFeatures, options, { eps: 1e-5, momentum: 0.1, affine: false, trackRunningStats: false });
    this.#space = space;
  }
  override forward(x: Tensor): Tensor {
    const batched = this.#space + 2;
    this.checkInput(x, [batched - 1, batched]);
    const { weight, bias, eps, runningMean, runningVar, momentum } = this;
    const useInputStats = this.training || !runningMean;
    const options = { weight, bias, eps, runningMean, runningVar, useInputStats, momentum: momentum ?? 0 };
    return x.ndim === batched ? instanceNorm(x, options) : squeeze(instanceNorm(unsqueeze(x, 0), options), { dim: 0 });
  }
}
/** Each channel of each sample of [N, C, L] at mean 0 and variance 1. */
export class InstanceNorm1d extends InstanceNorm {
  constructor(numFeatures: number, ...options: GivenStatistics) {
    super(1, numFeatures, options);
  }
}
export class InstanceNorm2d extends InstanceNorm {
  constructor(numFeatures: number, ...options: GivenStatistics) {
    super(2, numFeatures, options);
  }
}
export class InstanceNorm3d extends InstanceNorm {
  constructor(numFeatures: number, ...options: GivenStatistics) {
    super(3, numFeatures, options);
  }
}
