// Normalization layers.
import type { Shape } from '../base/shape.js';
import { ones, zeros } from '../tensor/create.js';
import { layerNorm, rmsNorm } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module, Parameter } from './module.js';

const listOf = (sizes: number | Shape): Shape => (typeof sizes === 'number' ? [sizes] : sizes);

export interface LayerNormLayerOptions {
  readonly eps?: number;
  readonly elementwiseAffine?: boolean;
  readonly bias?: boolean;
}
/** The last dimensions at mean 0 and variance 1, then scaled and moved by what is learned. */
export class LayerNorm extends Module {
  readonly normalizedShape: Shape;
  readonly eps: number;
  readonly weight: Parameter | null;
  readonly bias: Parameter | null;
  constructor(
    normalizedShape: number | Shape,
    { eps = 1e-5, elementwiseAffine = true, bias = true }: LayerNormLayerOptions = {},
  ) {
    super();
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

/** The last dimensions divided by the root of the mean of their squares, then scaled by what is learned. */
export class RMSNorm extends Module {
  readonly normalizedShape: Shape;
  readonly eps: number | null;
  readonly weight: Parameter | null;
  constructor(
    normalizedShape: number | Shape,
    {
      eps = null,
      elementwiseAffine = true,
    }: { readonly eps?: number | null; readonly elementwiseAffine?: boolean } = {},
  ) {
    super();
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
