// Layers that are products.
import { gathered } from '../spmd/gathered.js';
import { empty } from '../tensor/create.js';
import { bilinear, linear } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import * as init from './init.js';
import { Module, Parameter } from './module.js';
import { checkCount, type Given, optionsInOrder, showOptions } from './options.js';

/** x times the weight's transpose, plus a bias: [..., inFeatures] to [..., outFeatures]. */
export class Linear extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter | null;
  constructor(
    readonly inFeatures: number,
    readonly outFeatures: number,
    ...options: Given<{ readonly bias?: boolean }, ['bias']>
  ) {
    super();
    const { bias } = optionsInOrder('Linear', ['bias'], { bias: true }, options);
    checkCount('Linear: inFeatures', inFeatures);
    checkCount('Linear: outFeatures', outFeatures);
    const bound = 1 / Math.sqrt(inFeatures);
    this.weight = init.uniform_(new Parameter(empty([outFeatures, inFeatures])), -bound, bound);
    this.bias = bias ? init.uniform_(new Parameter(empty([outFeatures])), -bound, bound) : null;
  }
  override forward(x: Tensor): Tensor {
    return linear(x, gathered(this.weight), gathered(this.bias));
  }
  override extraRepr(): string {
    return `inFeatures=${this.inFeatures}, outFeatures=${this.outFeatures}, bias=${this.bias !== null}`;
  }
}

/** Two inputs and a matrix between them for each output: [..., in1Features] and [..., in2Features] to [..., outFeatures]. */
export class Bilinear extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter | null;
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
