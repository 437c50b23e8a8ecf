// The arrays of a module's state, as files hold them: each by its name, once. A stacked tensor is read once and cut on the
// host: on the device every row would be a second copy.

import type { TypedArray } from '../base/dtype.js';
import type { Shape } from '../base/shape.js';
import type { StateEntry } from '../tensor/state.js';
import type { Tensor } from '../tensor/tensor.js';
import type { ReadLater } from './array.js';

export const hasEntries = (x: object): x is { stateEntries(): Iterable<StateEntry> } => 'stateEntries' in x;

/** A tensor and the arrays it holds, all of one shape. */
interface Held {
  readonly tensor: Tensor;
  readonly names: readonly string[];
  readonly shape: Shape;
  /** Array i of the tensor's data. */
  cut(data: TypedArray, i: number): TypedArray;
}

/** Each tensor once: one with two names (tied weights) has its first. */
export function* heldIn(entries: Iterable<StateEntry>): Generator<Held> {
  const seen = new Set<Tensor>();
  for (const { tensor, names, stacked } of entries) {
    if (seen.has(tensor)) continue;
    seen.add(tensor);
    const cut = (data: TypedArray, i: number): TypedArray => {
      const size = data.length / names.length;
      return data.subarray(i * size, (i + 1) * size);
    };
    yield { tensor, names, shape: stacked ? tensor.shape.slice(1) : tensor.shape, cut };
  }
}

/** Arrays that are read when their turn comes, one tensor after the other. */
export function stateArrays(entries: Iterable<StateEntry>): Map<string, ReadLater> {
  const arrays = new Map<string, ReadLater>();
  for (const { tensor, names, shape, cut } of heldIn(entries)) {
    const { dtype, expr } = tensor;
    let whole: Promise<TypedArray> | undefined;
    const dataOf = async (i: number): Promise<TypedArray> => {
      const data = await (whole ??= tensor.data());
      if (i === names.length - 1) whole = undefined; // they are written in order
      return cut(data, i);
    };
    names.forEach((name, i) => void arrays.set(name, { dtype, shape, expr, data: () => dataOf(i) }));
  }
  return arrays;
}
