// The states of what is saved: as JSON, with the arrays beside. Models, optimizers, schedules, loaders and averages have one.
import { hostArray } from '../base/dtype.js';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import { describe } from '../base/tree.js';
import { fromBuffer } from '../tensor/create.js';
import { defaultGenerator } from '../tensor/random.js';
import { sync } from '../tensor/sync.js';
import { Tensor } from '../tensor/tensor.js';
import type { HostArray, ReadLater } from './array.js';
import { hasEntries, stateArrays } from './entries.js';

/** Something that can be saved: it has stateDict and loadStateDict, as torch's, or state and load. */
export type Stateful =
  | { stateDict(): unknown; loadStateDict(state: never): unknown }
  | { state(): unknown; load(state: never): unknown };
/** What is saved, by name: things with a state, and plain values (numbers, texts, lists, tensors). */
export type Items = Readonly<Record<string, unknown>>;
/** The name that the state of the random generator has. */
export const RNG = 'rng';

export interface Saved {
  /** Whether it is the state of something, and not a plain value. */
  readonly stateful: boolean;
  readonly tree: unknown;
  readonly arrays: Map<string, HostArray>;
}
export type Snapshot = ReadonlyMap<string, Saved>;

const isObject = (x: unknown): x is object => typeof x === 'object' && x !== null;
export const isStateful = (x: unknown): x is Stateful =>
  isObject(x) && (('stateDict' in x && 'loadStateDict' in x) || ('state' in x && 'load' in x));

const stateOf = (x: unknown): unknown => (isStateful(x) ? ('stateDict' in x ? x.stateDict() : x.state()) : x);
const setStateOf = (x: Stateful, state: unknown): unknown =>
  'loadStateDict' in x ? x.loadStateDict(state as never) : x.load(state as never);
/** The name of an array in its file: where it is in the state. */
function freeName(at: string, arrays: ReadonlyMap<string, unknown>): string {
  let name = at;
  for (let n = 2; arrays.has(name); n++) name = `${at}#${n}`;
  return name;
}

/** The values of all, and of the random generator, on the host. */
export async function snapshot(items: Items): Promise<Snapshot> {
  await sync(); // so that all is computed in one program
  const saved = new Map<string, Saved>();
  const reading: Promise<void>[] = [];
  for (const [item, x] of Object.entries({ ...items, [RNG]: defaultGenerator.state })) {
    const arrays = new Map<string, HostArray>();
    const read = (name: string, array: ReadLater): void => {
      const { dtype, shape } = array;
      arrays.set(name, { dtype, shape, data: hostArray({ dtype, shape: [0] }) }); // its place
      reading.push(array.data().then((data) => void arrays.set(name, { dtype, shape, data })));
    };
    if (isObject(x) && hasEntries(x)) {
      for (const [name, array] of stateArrays(x.stateEntries())) read(name, array);
      saved.set(item, { stateful: true, tree: { $arrays: true }, arrays });
      continue;
    }
    const names = new Map<Tensor, string>(); // one that is there twice is saved once
    const put = (at: string, t: Tensor): { $tensor: string } => {
      const known = names.get(t);
      if (known !== undefined) return { $tensor: known };
      const name = freeName(at, arrays);
      names.set(t, name);
      read(name, t);
      return { $tensor: name };
    };
    saved.set(item, { stateful: isStateful(x), tree: encode(item, stateOf(x), '', put, arrays), arrays });
  }
  await Promise.all(reading);
  return saved;
}

/** A state as JSON has it. */
function encode(
  item: string,
  x: unknown,
  at: string,
  put: (name: string, t: Tensor) => object,
  arrays: Map<string, HostArray>,
): unknown {
  const inside = (key: string | number, value: unknown) =>
    encode(item, value, at ? `${at}.${key}` : String(key), put, arrays);
  if (x instanceof Tensor) return put(at || item, x);
  if (isHostArray(x)) {
    const name = freeName(at || item, arrays);
    arrays.set(name, x);
    return { $tensor: name };
  }
  if (typeof x === 'bigint') return { $bigint: String(x) };
  if (typeof x === 'number' && !Number.isFinite(x)) return { $number: String(x) };
  if (x === undefined) return { $undefined: true };
  if (x === null || typeof x === 'number' || typeof x === 'string' || typeof x === 'boolean') return x;
  if (Array.isArray(x)) return x.map((value, i) => inside(i, value));
  if (x instanceof Map)
    return {
      $map: [...x].map(([key, value]) => [encode(item, key, `${at}.key`, put, arrays), inside(String(key), value)]),
    };
  if (isObject(x) && [Object.prototype, null].includes(Object.getPrototypeOf(x)))
    return Object.fromEntries(
      Object.entries(x).map(([key, value]) => [key.replace(/^\$/, '$$$$'), inside(key, value)]),
    );
  throw new ArgumentError(
    `CheckpointManager.save: ${item}${at && ` at ${at}`} is ${describe(x)}: save something with stateDict() and loadStateDict(), or plain values`,
  );
}
const isHostArray = (x: unknown): x is HostArray =>
  isObject(x) && 'dtype' in x && 'shape' in x && 'data' in x && ArrayBuffer.isView(x.data);

export function decode(x: unknown, arrays: ReadonlyMap<string, HostArray>): unknown {
  if (!isObject(x)) return x;
  if (Array.isArray(x)) return x.map((value) => decode(value, arrays));
  const record = x as Record<string, unknown>;
  if ('$arrays' in record) return arrays;
  if ('$tensor' in record) return arrays.get(record.$tensor as string);
  if ('$bigint' in record) return BigInt(record.$bigint as string);
  if ('$number' in record) return Number(record.$number);
  if ('$undefined' in record) return undefined;
  if ('$map' in record)
    return new Map((record.$map as [unknown, unknown][]).map(([k, v]) => [decode(k, arrays), decode(v, arrays)]));
  return Object.fromEntries(
    Object.entries(record).map(([key, value]) => [key.replace(/^\$\$/, '$$'), decode(value, arrays)]),
  );
}

/** Gives each item its state; the plain values are the result. */
export function restore(from: string, items: Items, states: ReadonlyMap<string, unknown>): Record<string, unknown> {
  const missing = Object.keys(items).filter((item) => isStateful(items[item]) && !states.has(item));
  if (missing.length)
    throw new CheckpointError(`${from} has no ${missing.join(', ')}: it has ${[...states.keys()].join(', ')}`);
  const values: Record<string, unknown> = {};
  const undo: (() => void)[] = [];
  try {
    for (const [item, state] of states) {
      const x = items[item];
      if (!isStateful(x)) {
        if (item !== RNG) values[item] = state;
        continue;
      }
      undo.push(remember(x));
      try {
        setStateOf(x, state);
      } catch (e) {
        throw new CheckpointError(`${from}: ${item}: ${messageOf(e)}`, { cause: e });
      }
    }
  } catch (e) {
    for (const back of undo) back(); // all of it, or nothing
    throw e;
  }
  defaultGenerator.setState(fromBuffer((states.get(RNG) as HostArray).data, { dtype: 'u32' }));
  return values;
}

/** What gives it the state back that it has now. */
function remember(x: Stateful): () => void {
  if (hasEntries(x)) {
    const before = [...x.stateEntries()].map(({ tensor }) => [tensor, tensor.detach().expr] as const);
    return () => {
      for (const [tensor, expr] of before) tensor.become(expr);
    };
  }
  const copy = (state: unknown): unknown => {
    if (state instanceof Tensor) return state.detach();
    if (Array.isArray(state)) return state.map(copy);
    if (state instanceof Map) return new Map([...state].map(([key, value]) => [key, copy(value)]));
    if (!isObject(state) || isHostArray(state)) return state;
    return Object.fromEntries(Object.entries(state).map(([key, value]) => [key, copy(value)]));
  };
  const before = copy(stateOf(x));
  return () => void setStateOf(x, before);
}
