// Several linear layers with the same input.
import { cat, linear } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { groupedProduct } from './grouped.js';
import type { Module } from './module.js';

/** A layer from [..., inFeatures] to [..., outFeatures]. */
export interface Projection extends Module {
  readonly inFeatures: number;
  readonly outFeatures: number;
  /** A matrix [rank, inFeatures] that x is multiplied with first, as in adapters; forward accepts that product. */
  firstOf?(x: Tensor): Tensor | null;
  forward(x: Tensor, first?: Tensor): Tensor;
}

/** The result of each layer for x. Their first products (`down`) are computed as one: fewer, larger kernels. */
export function forwardEach(layers: readonly Projection[], x: Tensor): Tensor[] {
  const firsts = layers.map((layer) => layer.firstOf?.(x) ?? null);
  const joined = firsts.filter((m) => m !== null);
  if (joined.length < 2) return layers.map((layer) => layer.forward(x));
  const sizes = joined.map((m) => m.size(-2));
  const weight = cat(joined, -2);
  const products = (groupedProduct(x, weight) ?? linear(x, weight)).split(sizes, -1).values();
  return layers.map((layer, i) => (firsts[i] ? layer.forward(x, products.next().value!) : layer.forward(x)));
}
