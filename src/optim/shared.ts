// What several workers know of their gradients (src/train): nobody shall change one's own before all are one.
import type { Tensor } from '../tensor/tensor.js';

/** Parameters whose optimizer averages gradients in its step, and gradients that are means already. */
export const shared = { parameters: new WeakSet<Tensor>(), means: new WeakSet<Tensor>() };
