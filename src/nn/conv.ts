// Convolutions as layers.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { range, type Shape, showShape } from '../base/shape.js';
import { sizesOf } from '../ops/window.js';
import { empty } from '../tensor/create.js';
import * as f from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Sizes } from '../tensor/types.js';
import * as init from './init.js';
import { Module, Parameter } from './module.js';
import { checkCount, type Given, optionsInOrder, showOptions } from './options.js';

// Symbols, and no private names: a copy of a module (clone) has them, too.
const COMPUTE = Symbol('compute');

export type PaddingMode = 'zeros' | 'reflect' | 'replicate' | 'circular';
export interface ConvLayerOptions {
  readonly stride?: Sizes;
  /** Padding on both sides; 'same' keeps the size (stride 1 only), 'valid' is no padding. Default: 0. */
  readonly padding?: Sizes | 'same' | 'valid';
  readonly dilation?: Sizes;
  readonly groups?: number;
  readonly bias?: boolean;
  /** The values of the padding. Default: 'zeros'. */
  readonly paddingMode?: PaddingMode;
}
export interface ConvTransposeLayerOptions {
  readonly stride?: Sizes;
  readonly padding?: Sizes;
  /** Added to one side of the output size. Default: 0. */
  readonly outputPadding?: Sizes;
  readonly groups?: number;
  readonly bias?: boolean;
  readonly dilation?: Sizes;
}

/** The base of both kinds: a weight, a bias, and sizes for each of n spatial dimensions. */
class ConvNd extends Module {
  readonly kernelSize: Shape;
  weight: Parameter;
  bias: Parameter | null;
  constructor(
    readonly inChannels: number,
    readonly outChannels: number,
    kernelSize: Shape,
    readonly groups: number,
    bias: boolean,
    transposed: boolean,
  ) {
    super();
    const { name } = new.target;
    this.kernelSize = kernelSize;
    checkCount(`${name}: inChannels`, inChannels);
    checkCount(`${name}: outChannels`, outChannels);
    checkCount(`${name}: groups`, groups);
    if (inChannels % groups || outChannels % groups)
      throw new ArgumentError(
        `${name}: groups ${groups} must divide inChannels ${inChannels} and outChannels ${outChannels}`,
      );
    const [first, second] = transposed ? [inChannels, outChannels] : [outChannels, inChannels];
    this.weight = new Parameter(empty([first, second / groups, ...kernelSize]));
    const bound = 1 / Math.sqrt(init.fansOf(name, this.weight).fanIn);
    init.uniform_(this.weight, -bound, bound);
    this.bias = bias ? init.uniform_(new Parameter(empty([outChannels])), -bound, bound) : null;
  }
  protected shown(options: object): string {
    const { inChannels, outChannels, kernelSize, groups, bias } = this;
    const all = { kernelSize, ...options, ...(groups > 1 && { groups }), ...(!bias && { bias: false }) };
    return `${inChannels}, ${outChannels}, ${showOptions(all)}`;
  }
}

// The signature with named options is last: TypeScript reports errors against it when neither matches.
const ORDER = ['stride', 'padding', 'dilation', 'groups', 'bias', 'paddingMode'] as const;
type Space = 1 | 2 | 3;
const CONVOLUTIONS = { 1: f.conv1d, 2: f.conv2d, 3: f.conv3d };
export type ConvArguments = [
  inChannels: number,
  outChannels: number,
  kernelSize: Sizes,
  ...options: Given<ConvLayerOptions, typeof ORDER>,
];
class Convolution extends ConvNd {
  readonly stride: Shape;
  readonly padding: Shape | 'same' | 'valid';
  readonly dilation: Shape;
  readonly paddingMode: PaddingMode;
  readonly [COMPUTE]: typeof f.conv1d;
  constructor(n: Space, ...[inChannels, outChannels, kernelSize, ...given]: ConvArguments) {
    const { name } = new.target;
    const { stride, padding, dilation, groups, bias, paddingMode } = optionsInOrder<Required<ConvLayerOptions>>(
      name,
      ORDER,
      { stride: 1, padding: 0, dilation: 1, groups: 1, bias: true, paddingMode: 'zeros' },
      given,
    );
    super(inChannels, outChannels, sizesOf(name, 'kernelSize', kernelSize, n, 1), groups, bias, false);
    this[COMPUTE] = CONVOLUTIONS[n];
    this.stride = sizesOf(name, 'stride', stride, n, 1);
    this.dilation = sizesOf(name, 'dilation', dilation, n, 1);
    this.padding = typeof padding === 'string' ? padding : sizesOf(name, 'padding', padding, n, 0);
    this.paddingMode = paddingMode;
    if (!['zeros', 'reflect', 'replicate', 'circular'].includes(paddingMode))
      throw new ArgumentError(
        `${name}: paddingMode is '${paddingMode}': use 'zeros', 'reflect', 'replicate' or 'circular'`,
      );
    if (padding === 'same' && this.stride.some((s) => s > 1))
      throw new ArgumentError(`${name}: padding 'same' needs stride 1, got ${showShape(this.stride)}`);
  }
  override forward(x: Tensor): Tensor {
    const { weight, bias, stride, padding, dilation, groups, paddingMode } = this;
    const options = { bias, stride, dilation, groups };
    if (paddingMode === 'zeros') return this[COMPUTE](x, weight, { ...options, padding });
    return this[COMPUTE](f.pad(x, this.sides(), { mode: paddingMode }), weight, options);
  }
  /** Before and after each dimension, the last first, as pad takes them. */
  private sides(): number[] {
    return range(this.kernelSize.length)
      .reverse()
      .flatMap((d) => {
        if (this.padding === 'valid') return [0, 0];
        if (this.padding !== 'same') return [this.padding[d]!, this.padding[d]!];
        const total = this.dilation[d]! * (this.kernelSize[d]! - 1);
        return [Math.floor(total / 2), Math.ceil(total / 2)];
      });
  }
  override extraRepr(): string {
    const { stride, padding, dilation, paddingMode } = this;
    return this.shown({
      stride,
      ...(String(padding) !== String(stride.map(() => 0)) && { padding }),
      ...(dilation.some((d) => d > 1) && { dilation }),
      ...(paddingMode !== 'zeros' && { paddingMode }),
    });
  }
}
/** [N, inChannels, L] to [N, outChannels, L']. */
export class Conv1d extends Convolution {
  constructor(...args: ConvArguments);
  constructor(inChannels: number, outChannels: number, kernelSize: Sizes, options?: ConvLayerOptions);
  constructor(...args: unknown[]) {
    super(1, ...(args as ConvArguments));
  }
}
/** [N, inChannels, H, W] to [N, outChannels, H', W']. */
export class Conv2d extends Convolution {
  constructor(...args: ConvArguments);
  constructor(inChannels: number, outChannels: number, kernelSize: Sizes, options?: ConvLayerOptions);
  constructor(...args: unknown[]) {
    super(2, ...(args as ConvArguments));
  }
}
/** [N, inChannels, D, H, W] to [N, outChannels, D', H', W']. */
export class Conv3d extends Convolution {
  constructor(...args: ConvArguments);
  constructor(inChannels: number, outChannels: number, kernelSize: Sizes, options?: ConvLayerOptions);
  constructor(...args: unknown[]) {
    super(3, ...(args as ConvArguments));
  }
}

const TRANSPOSED_ORDER = ['stride', 'padding', 'outputPadding', 'groups', 'bias', 'dilation'] as const;
const TRANSPOSED = { 1: f.convTranspose1d, 2: f.convTranspose2d, 3: f.convTranspose3d };
export type TransposedArguments = [
  inChannels: number,
  outChannels: number,
  kernelSize: Sizes,
  ...options: Given<ConvTransposeLayerOptions, typeof TRANSPOSED_ORDER>,
];
class TransposedConvolution extends ConvNd {
  readonly stride: Shape;
  readonly padding: Shape;
  readonly outputPadding: Shape;
  readonly dilation: Shape;
  readonly [COMPUTE]: typeof f.convTranspose1d;
  constructor(n: Space, ...[inChannels, outChannels, kernelSize, ...given]: TransposedArguments) {
    const { name } = new.target;
    const options = optionsInOrder<Required<ConvTransposeLayerOptions>>(
      name,
      TRANSPOSED_ORDER,
      { stride: 1, padding: 0, outputPadding: 0, groups: 1, bias: true, dilation: 1 },
      given,
    );
    super(inChannels, outChannels, sizesOf(name, 'kernelSize', kernelSize, n, 1), options.groups, options.bias, true);
    this[COMPUTE] = TRANSPOSED[n];
    this.stride = sizesOf(name, 'stride', options.stride, n, 1);
    this.padding = sizesOf(name, 'padding', options.padding, n, 0);
    this.outputPadding = sizesOf(name, 'outputPadding', options.outputPadding, n, 0);
    this.dilation = sizesOf(name, 'dilation', options.dilation, n, 1);
  }
  /** @param outputSize the spatial output size, as several are possible: used instead of outputPadding */
  override forward(x: Tensor, outputSize?: Shape): Tensor {
    const { weight, bias, stride, padding, dilation, groups } = this;
    const outputPadding = outputSize ? this.paddingFor(x, outputSize) : this.outputPadding;
    return this[COMPUTE](x, weight, { bias, stride, padding, outputPadding, groups, dilation });
  }
  private paddingFor(x: Tensor, outputSize: Shape): Shape {
    const n = this.kernelSize.length;
    const space = x.shape.slice(-n);
    const least = space.map((s, d) => {
      const reach = this.dilation[d]! * (this.kernelSize[d]! - 1) + 1;
      return (s - 1) * this.stride[d]! - 2 * this.padding[d]! + reach;
    });
    const extra = least.map((size, d) => outputSize.at(d - n)! - size);
    if (outputSize.length < n || extra.some((e, d) => !(e >= 0 && e < this.stride[d]!))) {
      const most = least.map((size, d) => size + this.stride[d]! - 1);
      throw new ShapeError(
        `${this.constructor.name}: outputSize is ${showShape(outputSize)}: for ${x.aval} it must be ${showShape(least)} to ${showShape(most)}`,
      );
    }
    return extra;
  }
  override extraRepr(): string {
    const { stride, padding, outputPadding, dilation } = this;
    const zero = (sizes: Shape) => sizes.every((s) => s === 0);
    return this.shown({
      stride,
      ...(!zero(padding) && { padding }),
      ...(!zero(outputPadding) && { outputPadding }),
      ...(dilation.some((d) => d > 1) && { dilation }),
    });
  }
}
/** Transposed convolutions: the gradient of a convolution with respect to its input, as a layer. */
export class ConvTranspose1d extends TransposedConvolution {
  constructor(...args: TransposedArguments);
  constructor(inChannels: number, outChannels: number, kernelSize: Sizes, options?: ConvTransposeLayerOptions);
  constructor(...args: unknown[]) {
    super(1, ...(args as TransposedArguments));
  }
}
export class ConvTranspose2d extends TransposedConvolution {
  constructor(...args: TransposedArguments);
  constructor(inChannels: number, outChannels: number, kernelSize: Sizes, options?: ConvTransposeLayerOptions);
  constructor(...args: unknown[]) {
    super(2, ...(args as TransposedArguments));
  }
}
export class ConvTranspose3d extends TransposedConvolution {
  constructor(...args: TransposedArguments);
  constructor(inChannels: number, outChannels: number, kernelSize: Sizes, options?: ConvTransposeLayerOptions);
  constructor(...args: unknown[]) {
    super(3, ...(args as TransposedArguments));
  }
}
