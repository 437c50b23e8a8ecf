// Layers that drop values while training.
import { ArgumentError } from '../base/errors.js';
import { dropout } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

/** Zero with probability p, else divided by 1 - p; the same as it was given when not training. */
export class Dropout extends Module {
  constructor(readonly p = 0.5) {
    super();
    if (!(p >= 0 && p <= 1)) throw new ArgumentError(`Dropout: p is ${p}: a probability is between 0 and 1`);
  }
  override forward(x: Tensor): Tensor {
    return dropout(x, this.p, this.training);
  }
  override extraRepr(): string {
    return `p=${this.p}`;
  }
}
