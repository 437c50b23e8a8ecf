// NaN and inf in the weights of a module. One program on the device checks all of them; only the row that holds the first bad
// number is read to the host.
import type { TypedArray } from '../base/dtype.js';
import { DataError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { isFloat } from '../base/promote.js';
import { showShape, unravel } from '../base/shape.js';
import { readableFor } from '../spmd/parallel.js';
import { compute } from '../step/sync.js';
import { noGrad } from '../tensor/autograd.js';
import { stack } from '../tensor/functions.js';
import type { StateEntry } from '../tensor/state.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Module } from './module.js';

/** A number in a module's weights that is NaN or inf. */
export interface Nonfinite {
  /** The name of the tensor in state dicts. */
  readonly name: string;
  readonly index: readonly number[];
  readonly value: number;
}

/** The first NaN or inf in the parameters and persistent buffers of a module, in the order of its state dict. */
export async function firstNonfinite(module: Module): Promise<Nonfinite | undefined> {
  const entries = [...module.stateEntries()].filter(({ tensor }) => isFloat(tensor.dtype) && tensor.numel() > 0);
  if (!entries.length) return undefined;
  const pending = entries.filter(({ tensor }) => !tensor.expr.isComputed).map(({ tensor }) => tensor);
  if (pending.length) await compute('weights', ...pending);
  const flags = noGrad(() => readableFor(module, stack(entries.map(({ tensor }) => tensor.isfinite().all()))));
  await compute('firstNonfinite', flags);
  const bad = entries[(await flags.data()).findIndex((flag) => !flag)];
  flags.dispose();
  return bad && firstIn(module, bad);
}

async function firstIn(module: Module, { tensor, names, stacked }: StateEntry): Promise<Nonfinite> {
  const read = (make: () => Tensor): Promise<TypedArray> => noGrad(() => readableFor(module, make())).data();
  const width = tensor.shape.at(-1) ?? 1;
  const rows = () => tensor.detach().reshape([-1, width]);
  const row = (await read(() => rows().isfinite().all(1))).findIndex((flag) => !flag);
  const numbers = decodeFloats(tensor.dtype, await read(() => rows().narrow(0, row, 1)));
  const column = numbers.findIndex((x) => !Number.isFinite(x));
  const index = unravel(row * width + column, tensor.shape);
  const which = index.slice(0, stacked).reduce((row, at, d) => row * tensor.shape[d]! + at, 0);
  return { name: names[which]!, index: index.slice(stacked), value: Number(numbers[column]) };
}

export const nonfiniteText = ({ name, index, value }: Nonfinite): string =>
  `${name} holds ${showNonfinite(value)}${index.length ? ` at ${showShape(index)}` : ''}`;
/** NaN, inf or -inf, as the field writes them. */
export const showNonfinite = (x: number): string => (Number.isNaN(x) ? 'NaN' : x > 0 ? 'inf' : '-inf');

/** Throws if a weight is NaN or inf. `what`: the caller and the model, for the error. */
export async function checkFinite(what: string, module: Module): Promise<void> {
  const found = await firstNonfinite(module);
  if (found) throw new DataError(`${what}: ${nonfiniteText(found)}: ${REPAIR}`);
}
export const REPAIR =
  'the weights are damaged, or were lost in training: copy the model again, or use another checkpoint';
