// tx.read: the values of many tensors at once.
import type { TypedArray } from '../base/dtype.js';
import type { Tensor } from './tensor.js';
import { tensorsOf } from './trees.js';

/** The argument's type with each tensor replaced by its array. */
export type ReadValues<T> = T extends Tensor
  ? TypedArray
  : T extends object
    ? { -readonly [K in keyof T]: ReadValues<T[K]> }
    : T;

/**
 * Reads tensors, or nested arrays and objects of them, and computes all of them in one program. Each tensor is replaced by
 * the result of its `data()`; null stays null.
 *
 *     const [loss, grads] = await tx.read(loss, { w: w.grad, b: b.grad });
 *
 * `await Promise.all([loss.item(), accuracy.item()])` is one program, too.
 */
export async function read<const T extends readonly unknown[]>(...what: T): Promise<ReadValues<T>> {
  const flat = tensorsOf('read', what);
  const arrays = await Promise.all(flat.leaves.map((t) => t.data())); // reads of one tick share a program
  return flat.rebuild(arrays) as ReadValues<T>;
}
