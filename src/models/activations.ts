// Activation functions of MLPs.
import { ArgumentError } from '../base/errors.js';
import { gelu, relu, silu } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';

/** Activations by their names in config.json. */
export const ACTIVATIONS = {
  silu,
  gelu: (x: Tensor) => gelu(x),
  gelu_pytorch_tanh: (x: Tensor) => gelu(x, { approximate: 'tanh' }),
  gelu_new: (x: Tensor) => gelu(x, { approximate: 'tanh' }),
  relu,
} as const satisfies Readonly<Record<string, (x: Tensor) => Tensor>>;
export type Activation = keyof typeof ACTIVATIONS;
export function checkActivation(name: string): Activation {
  if (Object.hasOwn(ACTIVATIONS, name)) return name as Activation;
  throw new ArgumentError(
    `the activation ${name.slice(0, 60)} is not supported: supported are ${Object.keys(ACTIVATIONS).join(', ')}`,
  );
}
