// Dropout layers: they drop values in train mode and do nothing in eval mode.
import * as random from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import { layer } from './layer.js';
import type { Module } from './module.js';
import { checkProbability } from './options.js';

interface Chance {
  readonly p: number;
  /** Accepted as in torch, without effect: the argument keeps its values. */
  readonly inplace: boolean;
}
type Drop = (x: Tensor, options: { readonly p: number; readonly training: boolean }) => Tensor;
const dropping = (drop: Drop) =>
  layer(
    ['p', 'inplace'],
    { p: 0.5, inplace: false },
    function (this: Module, { p }: Chance, x: Tensor): Tensor {
      return drop(x, { p, training: this.training });
    },
    (name, { p }) => {
      checkProbability(`${name}: p`, p);
    },
  );

/** Zeroes elements with probability p and divides the others by 1 - p. */
export class Dropout extends dropping(random.dropout) {}
/** Dropout of whole channels of [N, C, L]. */
export class Dropout1d extends dropping(random.dropout1d) {}
export class Dropout2d extends dropping(random.dropout2d) {}
export class Dropout3d extends dropping(random.dropout3d) {}
/** Dropout for selu, which keeps mean and variance. */
export class AlphaDropout extends dropping(random.alphaDropout) {}
export class FeatureAlphaDropout extends dropping(random.featureAlphaDropout) {}
