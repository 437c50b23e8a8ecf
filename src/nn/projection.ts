// Several layers of one input.
import { cat, linear } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Module } from './module.js';

/** A layer from [..., inFeatures] to [..., outFeatures]. */
export interface Projection extends Module {
  readonly inFeatures: number;
  readonly outFeatures: number;
  /** A matrix [rank, inFeatures] that it multiplies x with first, as adapters do; forward takes the product if it is there. */
  firstOf?(x: Tensor): Tensor | null;
  forward(x: Tensor, first?: Tensor): Tensor;
}

/** What each layer makes of x. What they multiply it with first is one product for all: fewer, larger kernels. */
export function forwardEach(layers: readonly Projection[], x: Tensor): Tensor[] {
  const firsts = layers.map((layer) => layer.firstOf?.(x) ?? null);
  const joined = firsts.filter((m) => m !== null);
  if (joined.length < 2) return layers.map((layer) => layer.forward(x));
  const sizes = joined.map((m) => m.size(0));
  const products = linear(x, cat(joined)).split(sizes, -1).values();
  return layers.map((layer, i) => (firsts[i] ? layer.forward(x, products.next().value!) : layer.forward(x)));
}
