// The arrays of a module's state for files: each by its name, once. A stacked tensor is read once and split on the host, as on
// the device every row would be a second copy.

import type { ArrayType, TypedArray } from '../base/dtype.js';
import type { Shape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import type { StateEntry } from '../tensor/state.js';
import type { Tensor } from '../tensor/tensor.js';
import type { ReadLater } from './array.js';

export const hasEntries = (x: object): x is { stateEntries(): Iterable<StateEntry> } => 'stateEntries' in x;

/** A tensor and the arrays it holds, all of one shape. */
interface Held {
  readonly tensor: Tensor;
  readonly names: readonly string[];
  readonly shape: Shape;
  readonly stacked: number;
}

/** Each tensor once: one with two names (tied weights) has its first. */
export function* heldIn(entries: Iterable<StateEntry>): Generator<Held> {
  const seen = new Set<Tensor>();
  for (const { tensor, names, stacked } of entries) {
    if (seen.has(tensor)) continue;
    seen.add(tensor);
    yield { tensor, names, shape: tensor.shape.slice(stacked), stacked };
  }
}

/** Part i of `n` equal ones. */
const cutOf = (data: TypedArray, i: number, parts: number): TypedArray => {
  const size = data.length / parts;
  return data.subarray(i * size, (i + 1) * size);
};

/** Arrays that are read one tensor after the other. */
export const stateArrays = (entries: Iterable<StateEntry>): Map<string, ReadLater> =>
  new Map(
    [...heldIn(entries)].flatMap(({ tensor, names, shape }) =>
      readLater(names, { dtype: tensor.dtype, shape }, tensor.expr, () => tensor.data()),
    ),
  );

/** Arrays of one type that `read` returns concatenated: it is called when the first of them is requested. */
export function readLater(
  names: readonly string[],
  { dtype, shape }: ArrayType,
  expr: Expr,
  read: () => Promise<TypedArray>,
): [name: string, array: ReadLater][] {
  let whole: Promise<TypedArray> | undefined;
  const dataOf = async (i: number): Promise<TypedArray> => {
    const data = await (whole ??= read());
    if (i === names.length - 1) whole = undefined; // they are written in order
    return cutOf(data, i, names.length);
  };
  return names.map((name, i) => [name, { dtype, shape, expr, data: () => dataOf(i) }]);
}
