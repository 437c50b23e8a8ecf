// Loads state dicts: named tensors take values from a dictionary of tensors or of arrays of a file. Modules, optimizers,
// averages and scalers share this code and its errors.

import { arrayLength, type HostArray, hostArray, isHostArray, show, sizeOf } from '../base/dtype.js';
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

/** A tensor of a state dict. A stacked one holds several entries, each with its own name. */
export interface StateEntry {
  readonly tensor: Tensor;
  readonly names: readonly string[];
  /** The number of leading dimensions that index the entries; 0: a single entry. */
  readonly stacked: number;
}
/** The name of entry i of a tensor. */
export const partOf = (t: Tensor, stacked: number, i: number): Tensor =>
  (stacked > 1 ? t.flatten(0, stacked - 1) : t).select(0, i);

/** The result of loadStateDict with strict: false: names missing from the state dict, and names it did not use. */
export interface LoadedKeys {
  readonly missing: readonly string[];
  readonly unexpected: readonly string[];
}

export const isStateValue = (x: unknown): x is StateValue => x instanceof Tensor || isHostArray(x);

/** Copies the values of a state dict into tensors, in the tensors' dtypes. All mismatches are one error, before any change. */
export function loadTensors(what: string, entries: readonly StateEntry[], state: unknown, strict = true): LoadedKeys {
  if (!(state instanceof Map || isPlain(state)))
    throw new ArgumentError(`loadStateDict: ${what} got ${describe(state)}: the state dict must be a Map or an object`);
  const given: readonly [string, unknown][] = state instanceof Map ? [...state] : Object.entries(state);
  const values = new Map(given.filter((e): e is [string, StateValue] => e[1] !== undefined));
  for (const name of entries.flatMap((e) => e.names)) if (values.has(name)) checkValue(name, values.get(name));
  const keys = checkState(what, entries, (name) => values.get(name)?.shape, [...values.keys()], strict);
  for (const { tensor, names, stacked } of entries) {
    const own = names.map((name) => values.get(name));
    if (!own.some(Boolean)) continue;
    if (stacked) setRows(tensor, stacked, own);
    else setTensor(tensor, own[0]!);
  }
  return keys;
}

/**
 * Compares the names and shapes of a state dict with those of the tensors. All mismatches are listed in one error, with at
 * most `shown` names of each kind.
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
    const want = shape.slice(stacked);
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

/** Throws one error with all mismatches. `misfits`: names with wrong shapes, each with a description. */
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
  if (value.data.length !== arrayLength(value))
    throw new ArgumentError(`loadStateDict: ${name} is ${show(value)} and has ${value.data.length} elements`);
}

/** Sets a tensor's value. An array of the same dtype needs no program; another dtype is converted on the device. */
export function setTensor(t: Tensor, value: StateValue): void {
  if (value instanceof Tensor) {
    if (spares.has(value) && value.dtype === t.dtype) takeOver(t, value);
    else if (value !== t) t.become(value.detach().to(t.dtype).clone().expr);
  } else if (value.dtype === t.dtype)
    t.assign(value.data.slice()); // the caller may change it
  else t.become(tensorOf(value).to(t.dtype).expr);
}

/** Sets each row of a stacked tensor, or keeps it if there is no value for it. */
function setRows(t: Tensor, stacked: number, values: readonly (StateValue | undefined)[]): void {
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
  } else
    t.become(
      stack(values.map((v, i) => (v ? tensorOf(v).to(t.dtype) : partOf(t.detach(), stacked, i)))).reshape(t.shape).expr,
    );
}

/** Tensors whose values may be moved into others without a copy: they were read from files to the right devices. */
const spares = new WeakSet<Tensor>();
const rowsOf = new WeakMap<object, Tensor>();
export function spare(stored: ShardedArray): Tensor {
  const node = input(stored.aval);
  setValue(node, stored);
  const tensor = new Tensor(node);
  spares.add(tensor);
  return tensor;
}
/** The rows of a value that is moved whole into a stacked tensor. */
export const spareRows = (whole: Tensor, stacked: number): Tensor[] =>
  range(sizeOf(whole.shape.slice(0, stacked))).map((i) => {
    const row = partOf(whole, stacked, i);
    rowsOf.set(row, whole);
    return row;
  });
function takeOver(t: Tensor, { expr }: Tensor): void {
  const { sharding } = t.cell;
  t.assign(nodeValue(expr) as Stored);
  if (sharding) ownRecord(t.expr).sharding = sharding; // moved there by the next use if it is placed differently
}

const tensorOf = (value: StateValue): Tensor =>
  value instanceof Tensor ? value.detach() : fromBuffer(value.data, { dtype: value.dtype, shape: value.shape });
