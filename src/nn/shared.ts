// Gradients of several workers (src/train): do not modify them until they have been averaged.
import type { Tensor } from '../tensor/tensor.js';

/** Parameters whose optimizer averages gradients in its step, and gradients that are means already. */
export const shared = { parameters: new WeakSet<Tensor>(), means: new WeakSet<Tensor>() };
