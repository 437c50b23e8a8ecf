// The arrays of a module's state, as files hold them: each by its name, once, and read when its turn comes.
import type { TypedArray } from '../base/dtype.js';
import type { StateEntry } from '../tensor/state.js';
import type { Tensor } from '../tensor/tensor.js';
import type { ReadLater } from './array.js';

export const hasEntries = (x: object): x is { stateEntries(): Iterable<StateEntry> } => 'stateEntries' in x;

/** Names and arrays; a tensor with two names (tied weights) has its first. */
export function stateArrays(entries: Iterable<StateEntry>): Map<string, ReadLater> {
  const byTensor = new Map<Tensor, StateEntry>();
  for (const entry of entries) if (!byTensor.has(entry.tensor)) byTensor.set(entry.tensor, entry);
  return new Map(
    [...byTensor.values()].flatMap((entry) => (entry.stacked ? rowsOf(entry) : [[entry.names[0]!, entry.tensor]])),
  );
}

/** The rows of a stacked tensor. It is read once and cut on the host: on the device every row would be a second copy. */
function rowsOf({ tensor, names }: StateEntry): [string, ReadLater][] {
  const { dtype, expr } = tensor;
  const shape = tensor.shape.slice(1);
  let whole: Promise<TypedArray> | undefined;
  return names.map((name, i) => {
    const data = async (): Promise<TypedArray> => {
      const all = await (whole ??= tensor.data());
      if (i === names.length - 1) whole = undefined; // rows are written in order
      const size = all.length / names.length;
      return all.subarray(i * size, (i + 1) * size);
    };
    return [name, { dtype, shape, expr, data }];
  });
}
