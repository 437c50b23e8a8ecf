// Computing several tensors at once.
import { evaluate } from '../runtime/evaluate.js';
import type { Tensor } from './tensor.js';

/** Computes these tensors, and all that were changed in place, in one program. Reading them afterwards only copies. */
export async function sync(...tensors: readonly Tensor[]): Promise<void> {
  await evaluate(tensors.map((t) => t.expr));
}
