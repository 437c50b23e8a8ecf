// Linear, Bilinear and Identity layers.
import { gathered } from '../spmd/gathered.js';
import { empty } from '../tensor/create.js';
import { bilinear, linear } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { groupedProduct } from './grouped.js';
import * as init from './init.js';
import { Module, Parameter } from './module.js';
import { checkCount, type Given, optionsInOrder, showOptions } from './options.js';

export interface LinearOptions {
  readonly bias?: boolean;
}
export type LinearArguments = [inFeatures: number, outFeatures: number, ...options: Given<LinearOptions, ['bias']>];

/** x times the weight's transpose, plus a bias: [..., inFeatures] to [..., outFeatures]. */
export class Linear extends Module {
  readonly inFeatures: number;
  readonly outFeatures: number;
  weight: Parameter;
  bias: Parameter | null;
  // The signature with named options is last: TypeScript reports errors against it when none matches.
  constructor(...args: LinearArguments);
  constructor(inFeatures: number, outFeatures: number, options?: LinearOptions);
  constructor(...args: unknown[]) {
    super();
    const [inFeatures, outFeatures, ...options] = args as LinearArguments;
    this.inFeatures = inFeatures;
    this.outFeatures = outFeatures;
    const { bias } = optionsInOrder('Linear', ['bias'], { bias: true }, options);
    checkCount('Linear: inFeatures', inFeatures);
    checkCount('Linear: outFeatures', outFeatures);
    const bound = 1 / Math.sqrt(inFeatures);
    this.weight = init.uniform_(new Parameter(empty([outFeatures, inFeatures])), -bound, bound);
    this.bias = bias ? init.uniform_(new Parameter(empty([outFeatures])), -bound, bound) : null;
  }
  override forward(x: Tensor): Tensor {
    const [weight, bias] = [gathered(this.weight), gathered(this.bias)];
    return groupedProduct(x, weight, bias) ?? linear(x, weight, bias);
  }
  override extraRepr(): string {
    return `inFeatures=${this.inFeatures}, outFeatures=${this.outFeatures}, bias=${this.bias !== null}`;
  }
}

/** x1 W x2 + bias, with a matrix W for each output: [..., in1Features] and [..., in2Features] to [..., outFeatures]. */
export class Bilinear extends Module {
  weight: Parameter;
  bias: Parameter | null;
  constructor(
    readonly in1Features: number,
    readonly in2Features: number,
    readonly outFeatures: number,
    ...options: Given<{ readonly bias?: boolean }, ['bias']>
  ) {
    super();
    const { bias } = optionsInOrder('Bilinear', ['bias'], { bias: true }, options);
    checkCount('Bilinear: in1Features', in1Features);
    checkCount('Bilinear: in2Features', in2Features);
    checkCount('Bilinear: outFeatures', outFeatures);
    const bound = 1 / Math.sqrt(in1Features);
    this.weight = init.uniform_(new Parameter(empty([outFeatures, in1Features, in2Features])), -bound, bound);
    this.bias = bias ? init.uniform_(new Parameter(empty([outFeatures])), -bound, bound) : null;
  }
  override forward(x1: Tensor, x2: Tensor): Tensor {
    return bilinear(x1, x2, this.weight, this.bias);
  }
  override extraRepr(): string {
    const { in1Features, in2Features, outFeatures, bias } = this;
    return showOptions({ in1Features, in2Features, outFeatures, bias: bias !== null });
  }
}
