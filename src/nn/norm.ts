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

// Symbols, and no private names: a copy of a module (clone) has them, too.
const RANKS = Symbol('ranks');
const SPACE = Symbol('space');

const listOf = (sizes: number | Shape): Shape => (typeof sizes === 'number' ? [sizes] : sizes);

export interface LayerNormLayerOptions {
  readonly eps?: number;
  readonly elementwiseAffine?: boolean;
  readonly bias?: boolean;
}
const LAYERNORM = ['eps', 'elementwiseAffine', 'bias'] as const;
/** Normalizes the last dimensions to mean 0 and variance 1, then applies a learned scale and offset. */
export class LayerNorm extends Module {
  readonly normalizedShape: Shape;
  eps: number;
  weight: Parameter | null;
  bias: Parameter | null;
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
  /** Default: the dtype's precision. */
  readonly eps?: number | null;
  readonly elementwiseAffine?: boolean;
}
const RMSNORM = ['eps', 'elementwiseAffine'] as const;
/** Divides the last dimensions by their root mean square, then applies a learned scale. */
export class RMSNorm extends Module {
  readonly normalizedShape: Shape;
  eps: number | null;
  weight: Parameter | null;
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
  /** With affine: whether there is an offset besides the scale. Default: true. */
  readonly bias?: boolean;
}
const GROUPNORM = ['eps', 'affine', 'bias'] as const;
/** Normalizes groups of channels of each sample of [N, C, ...] to mean 0 and variance 1, then applies scale and offset. */
export class GroupNorm extends Module {
  eps: number;
  weight: Parameter | null;
  bias: Parameter | null;
  constructor(
    readonly numGroups: number,
    readonly numChannels: number,
    ...options: Given<GroupNormLayerOptions, typeof GROUPNORM>
  ) {
    super();
    const { eps, affine, bias } = optionsInOrder(
      'GroupNorm',
      GROUPNORM,
      { eps: 1e-5, affine: true, bias: true },
      options,
    );
    checkCount('GroupNorm: numGroups', numGroups);
    checkCount('GroupNorm: numChannels', numChannels);
    if (numChannels % numGroups)
      throw new ArgumentError(`GroupNorm: numGroups ${numGroups} does not divide numChannels ${numChannels}`);
    this.eps = eps;
    this.weight = affine ? new Parameter(ones([numChannels])) : null;
    this.bias = affine && bias ? new Parameter(zeros([numChannels])) : null;
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
  /** The weight of each batch in the running statistics; null: they are the mean over all batches. Default: 0.1. */
  readonly momentum?: number | null;
  readonly affine?: boolean;
  readonly trackRunningStats?: boolean;
  /** With affine: whether there is an offset besides the scale. Default: true. */
  readonly bias?: boolean;
}
const STATISTICS = ['eps', 'momentum', 'affine', 'trackRunningStats', 'bias'] as const;
type GivenStatistics = Given<StatisticsLayerOptions, typeof STATISTICS>;
/** The base of batch and instance norms: channel statistics, their running means, a scale and an offset. */
class ChannelNorm extends Module {
  eps: number;
  momentum: number | null;
  weight: Parameter | null;
  bias: Parameter | null;
  runningMean: Buffer | null;
  runningVar: Buffer | null;
  numBatchesTracked: Buffer | null;
  constructor(
    readonly numFeatures: number,
    options: GivenStatistics,
    normally: Required<StatisticsLayerOptions>,
  ) {
    super();
    const { name } = new.target;
    const given = optionsInOrder(name, STATISTICS, normally, options);
    const { eps, momentum, affine, trackRunningStats, bias } = given;
    const sizes = [checkCount(`${name}: numFeatures`, numFeatures)];
    this.eps = eps;
    this.momentum = momentum;
    this.weight = affine ? new Parameter(ones(sizes)) : null;
    this.bias = affine && bias ? new Parameter(zeros(sizes)) : null;
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
  readonly [RANKS]: readonly number[];
  constructor(ranks: readonly number[], numFeatures: number, options: GivenStatistics) {
    super(numFeatures, options, { eps: 1e-5, momentum: 0.1, affine: true, trackRunningStats: true, bias: true });
    this[RANKS] = ranks;
  }
  override forward(x: Tensor): Tensor {
    this.checkInput(x, this[RANKS]);
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
/** Normalizes each channel of [N, C] or [N, C, L] by the statistics of the batch, or by the running ones in eval mode. */
export class BatchNorm1d extends BatchNorm {
  constructor(numFeatures: number, ...options: GivenStatistics) {
    super([2, 3], numFeatures, options);
  }
}
/** The same for [N, C, H, W]. */
export class BatchNorm2d extends BatchNorm {
  constructor(numFeatures: number, ...options: GivenStatistics) {
    super([4], numFeatures, options);
  }
}
/** The same for [N, C, D, H, W]. */
export class BatchNorm3d extends BatchNorm {
  constructor(numFeatures: number, ...options: GivenStatistics) {
    super([5], numFeatures, options);
  }
}

class InstanceNorm extends ChannelNorm {
  readonly [SPACE]: number;
  constructor(space: number, numFeatures: number, options: GivenStatistics) {
    super(numFeatures, options, { eps: 1e-5, momentum: 0.1, affine: false, trackRunningStats: false, bias: true });
    this[SPACE] = space;
  }
  override forward(x: Tensor): Tensor {
    const batched = this[SPACE] + 2;
    this.checkInput(x, [batched - 1, batched]);
    const { weight, bias, eps, runningMean, runningVar, momentum } = this;
    const useInputStats = this.training || !runningMean;
    const options = { weight, bias, eps, runningMean, runningVar, useInputStats, momentum: momentum ?? 0 };
    return x.ndim === batched ? instanceNorm(x, options) : squeeze(instanceNorm(unsqueeze(x, 0), options), { dim: 0 });
  }
}
/** Normalizes each channel of each sample of [N, C, L] to mean 0 and variance 1. */
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
