// Layers that drop values while training, and give what they were given else.
import * as random from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import { layer } from './layer.js';
import type { Module } from './module.js';
import { checkProbability } from './options.js';

interface Chance {
  readonly p: number;
}
type Drop = (x: Tensor, options: { readonly p: number; readonly training: boolean }) => Tensor;
const dropping = (drop: Drop) =>
  layer(
    ['p'],
    { p: 0.5 },
    function (this: Module, { p }: Chance, x: Tensor): Tensor {
      return drop(x, { p, training: this.training });
    },
    (name, { p }) => {
      checkProbability(`${name}: p`, p);
    },
  );

/** Zero with probability p, else divided by 1 - p. */
export class Dropout extends dropping(random.dropout) {}
/** Dropout of whole channels of [N, C, L]. */
export class Dropout1d extends dropping(random.dropout1d) {}
export class Dropout2d extends dropping(random.dropout2d) {}
export class Dropout3d extends dropping(random.dropout3d) {}
/** Dropout for selu: mean and variance stay as they are. */
export class AlphaDropout extends dropping(random.alphaDropout) {}
export class FeatureAlphaDropout extends dropping(random.featureAlphaDropout) {}
