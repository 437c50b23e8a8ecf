// State dicts: tensors by name take the values of a dictionary, of tensors or of a file's arrays. Modules, optimizers, averages
// and scalers load the same way, and say what does not fit in the same words.

import { type HostArray, hostArray, isHostArray, show, sizeOf } from '../base/dtype.js';
import { ArgumentError, StateDictError } from '../base/errors.js';
import { range, type Shape, showShape } from '../base/shape.js';
import { describe, isPlain } from '../base/tree.js';
import { input } from '../ops/prim/variable.js';
import { ownRecord } from '../runtime/record.js';
import type { ShardedArray, Stored } from '../runtime/sharded.js';
import { nodeValue, setValue } from '../runtime/value.js';
import { fromBuffer } from './create.js';
import { stack } from './functions.js';
import { Tensor } from './tensor.js';

/** A value for a tensor. */
export type StateValue = Tensor | HostArray;
export type StateDict = ReadonlyMap<string, StateValue> | Readonly<Record<string, StateValue>>;

/** A tensor of a state dict. A stacked one holds several, along its first dimension, each with a name of its own. */
export interface StateEntry {
  readonly tensor: Tensor;
  readonly names: readonly string[];
  readonly stacked: boolean;
}

/** Which names a lenient loadStateDict did not find in the state dict, and which it did not need. */
export interface LoadedKeys {
  readonly missing: readonly string[];
  readonly unexpected: readonly string[];
}

export const isStateValue = (x: unknown): x is StateValue => x instanceof Tensor || isHostArray(x);

/** Tensors take the values of a state dict, in their own dtypes. What does not fit is one error, before anything is changed. */
export function loadTensors(what: string, entries: readonly StateEntry[], state: unknown, strict = true): LoadedKeys {
  if (!(state instanceof Map || isPlain(state)))
    throw new ArgumentError(`loadStateDict: ${what} is given ${describe(state)}: it must be a Map or an object`);
  const given: readonly [string, unknown][] = state instanceof Map ? [...state] : Object.entries(state);
  const values = new Map(given.filter((e): e is [string, StateValue] => e[1] !== undefined));
  for (const name of entries.flatMap((e) => e.names)) if (values.has(name)) checkValue(name, values.get(name));
  const keys = checkState(what, entries, (name) => values.get(name)?.shape, [...values.keys()], strict);
  for (const { tensor, names, stacked } of entries) {
    const own = names.map((name) => values.get(name));
    if (!own.some(Boolean)) continue;
    if (stacked) setRows(tensor, own);
    else setTensor(tensor, own[0]!);
  }
  return keys;
}

/**
 * Compares the names and shapes of a state dict with those of its tensors. What is wrong is listed in one error, which shows
 * at most `shown` names of each kind.
 */
export function checkState(
  what: string,
  entries: readonly StateEntry[],
  shapeOf: (name: string) => Shape | undefined,
  given: readonly string[],
  strict: boolean,
  shown = Number.POSITIVE_INFINITY,
): LoadedKeys {
  const own = new Set(entries.flatMap((e) => e.names));
  const loaded = new Set(entries.filter((e) => e.names.every(shapeOf)).map((e) => e.tensor));
  const missing = entries.flatMap((e) => (loaded.has(e.tensor) ? [] : e.names.filter((name) => !shapeOf(name))));
  const unexpected = given.filter((name) => !own.has(name));
  const misfits = entries.flatMap(({ tensor: { shape }, names, stacked }) => {
    const want = stacked ? shape.slice(1) : shape;
    return names.flatMap((name) => {
      const got = shapeOf(name);
      return got && String(got) !== String(want) ? [[name, sizeMismatch(name, got, want)] as const] : [];
    });
  });
  refuse(what, strict ? { missing, unexpected } : { missing: [], unexpected: [] }, misfits, shown);
  return { missing, unexpected };
}
export const sizeMismatch = (name: string, got: Shape, want: Shape): string =>
  `size mismatch for ${name}: ${showShape(got)} in the state dict, ${showShape(want)} here.`;

/** Throws if anything does not fit, with all of it; the names of misfits, each with what is wrong. */
export function refuse(
  what: string,
  { missing, unexpected }: LoadedKeys,
  misfits: readonly (readonly [name: string, text: string])[],
  shown = Number.POSITIVE_INFINITY,
): void {
  const more = (list: readonly unknown[]) => (list.length > shown ? [`and ${list.length - shown} more`] : []);
  const quoted = (names: readonly string[]) => {
    const some = names.slice(0, shown).map((n) => JSON.stringify(n));
    return [some.join(', '), ...more(names)].join(' ');
  };
  const lines = [
    ...(missing.length ? [`Missing key(s) in state_dict: ${quoted(missing)}.`] : []),
    ...(unexpected.length ? [`Unexpected key(s) in state_dict: ${quoted(unexpected)}.`] : []),
    ...misfits.slice(0, shown).map(([, text]) => text),
    ...more(misfits).map((text) => `${text} of other sizes.`),
  ];
  if (lines.length)
    throw new StateDictError(`Error(s) in loading state_dict for ${what}:\n\t${lines.join('\n\t')}`, {
      missing,
      unexpected,
      misshapen: misfits.map(([name]) => name),
    });
}

function checkValue(name: string, value: unknown): void {
  if (value instanceof Tensor) return;
  if (!isHostArray(value))
    throw new ArgumentError(
      `loadStateDict: ${name} is ${describe(value)}: it must be a tensor (tx.tensor(...)) or { dtype, shape, data }`,
    );
  if (value.data.length !== sizeOf(value.shape))
    throw new ArgumentError(`loadStateDict: ${name} is ${show(value)} and has ${value.data.length} elements`);
}

/** Takes a value: an array of the same dtype as it is, without a program; another dtype is converted on the device. */
export function setTensor(t: Tensor, value: StateValue): void {
  if (value instanceof Tensor) {
    if (spares.has(value) && value.dtype === t.dtype) takeOver(t, value);
    else if (value !== t) t.become(value.detach().to(t.dtype).clone().expr);
  } else if (value.dtype === t.dtype)
    t.assign(value.data.slice()); // the caller may change it
  else t.become(tensorOf(value).to(t.dtype).expr);
}

/** Each row takes a value, or stays as it is where there is none. */
function setRows(t: Tensor, values: readonly (StateValue | undefined)[]): void {
  const whole = rowsOf.get(values[0] as Tensor);
  if (whole && values.every((v) => rowsOf.get(v as Tensor) === whole)) {
    setTensor(t, whole);
    return;
  }
  const dtype = values.find((v) => v)!.dtype;
  const arrays = values.filter((v) => v && !(v instanceof Tensor) && v.dtype === dtype) as HostArray[];
  if (arrays.length === values.length) {
    const data = hostArray({ dtype, shape: t.shape });
    arrays.forEach((a, i) => void data.set(a.data as never, (i * data.length) / values.length));
    setTensor(t, { dtype, shape: t.shape, data });
  } else t.become(stack(values.map((v, i) => (v ? tensorOf(v).to(t.dtype) : t.detach().select(0, i)))).expr);
}

/** Tensors that were made to give their values to others without a copy: read from files to where those lie. */
const spares = new WeakSet<Tensor>();
const rowsOf = new WeakMap<object, Tensor>();
export function spare(stored: ShardedArray): Tensor {
  const node = input(stored.aval);
  setValue(node, stored);
  const tensor = new Tensor(node);
  spares.add(tensor);
  return tensor;
}
/** Its rows, which together give the whole to a stacked tensor. */
export const spareRows = (whole: Tensor): Tensor[] =>
  range(whole.size(0)).map((i) => {
    const row = whole.select(0, i);
    rowsOf.set(row, whole);
    return row;
  });
function takeOver(t: Tensor, { expr }: Tensor): void {
  const { sharding } = t.cell;
  t.assign(nodeValue(expr) as Stored);
  if (sharding) ownRecord(t.expr).sharding = sharding; // brought there with the next use, where it lies in another way
}

const tensorOf = (value: StateValue): Tensor =>
  value instanceof Tensor ? value.detach() : fromBuffer(value.data, { dtype: value.dtype, shape: value.shape });
