// The states of what is saved: as JSON, with the arrays beside. Models, optimizers, schedules, loaders and averages have one.
import { type ArrayType, type HostArray, hostArray, isHostArray, type TypedArray } from '../base/dtype.js';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import { describe, isPlain } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { evaluate, fetchArray } from '../runtime/evaluate.js';
import { freeValue, hasValue } from '../runtime/value.js';
import { fromBuffer } from '../tensor/create.js';
import { defaultGenerator } from '../tensor/random.js';
import type { StateEntry } from '../tensor/state.js';
import { Tensor } from '../tensor/tensor.js';
import { hasEntries } from './entries.js';

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

/** The states of all, and of the random generator, as they are now: it resolves when they are on the host. */
export function snapshot(items: Items): Promise<Snapshot> {
  const reader = new Reader();
  const saved = new Map<string, Saved>();
  for (const [item, x] of Object.entries({ ...items, [RNG]: defaultGenerator.state })) {
    const arrays = new Map<string, HostArray>();
    if (isObject(x) && hasEntries(x)) {
      readEntries(x.stateEntries(), reader, arrays);
      saved.set(item, { stateful: true, tree: { $arrays: true }, arrays });
      continue;
    }
    const names = new Map<Tensor, string>(); // one that is there twice is saved once
    const put = (at: string, t: Tensor): { $tensor: string } => {
      const known = names.get(t);
      if (known !== undefined) return { $tensor: known };
      const name = freeName(at, arrays);
      names.set(t, name);
      arrays.set(name, placeOf(t)); // in the order of the state
      reader.read(t, (data) => void arrays.set(name, { dtype: t.dtype, shape: t.shape, data }));
      return { $tensor: name };
    };
    saved.set(item, { stateful: isStateful(x), tree: encode(item, stateOf(x), '', put, arrays), arrays });
  }
  return reader.done().then(() => saved);
}
const placeOf = ({ dtype, shape }: ArrayType): HostArray => ({ dtype, shape, data: hostArray({ dtype, shape: [0] }) });

/** Reads tensors as they are now, whatever happens to them before they are on the host. */
class Reader {
  readonly #wanted: { readonly expr: Expr; readonly use: (data: TypedArray) => void }[] = [];
  read({ expr }: Tensor, use: (data: TypedArray) => void): void {
    expr.holders++; // a step that changes the tensor leaves the old value be
    this.#wanted.push({ expr, use });
  }
  async done(): Promise<void> {
    const request = { cause: 'read', name: 'checkpoint' } as const;
    try {
      const missing = this.#wanted.map(({ expr }) => expr).filter((expr) => !hasValue(expr));
      if (missing.length) await evaluate(missing, request); // in one program
      await Promise.all(this.#wanted.map(async ({ expr, use }) => use(await fetchArray(expr, request))));
    } finally {
      for (const { expr } of this.#wanted) if (--expr.holders === 0) freeValue(expr);
    }
  }
}

/** A module's tensors: a stacked one is read once, and each layer is a part of it. */
function readEntries(entries: Iterable<StateEntry>, reader: Reader, arrays: Map<string, HostArray>): void {
  const seen = new Set<Tensor>(); // one with two names is saved by its first
  for (const { tensor, names, stacked } of entries) {
    if (seen.has(tensor)) continue;
    seen.add(tensor);
    const { dtype } = tensor;
    const shape = stacked ? tensor.shape.slice(1) : tensor.shape;
    for (const name of names) arrays.set(name, placeOf({ dtype, shape }));
    reader.read(tensor, (data) => {
      const size = data.length / names.length;
      names.forEach((name, i) => {
        arrays.set(name, { dtype, shape, data: data.subarray(i * size, (i + 1) * size) as TypedArray });
      });
    });
  }
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
    arrays.set(name, { ...x, data: x.data.slice() }); // the caller may change it
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
  if (isPlain(x))
    return Object.fromEntries(
      Object.entries(x).map(([key, value]) => [key.replace(/^\$/, '$$$$'), inside(key, value)]),
    );
  throw new ArgumentError(
    `CheckpointManager.save: ${item}${at && ` at ${at}`} is ${describe(x)}: save something with stateDict() and loadStateDict(), or plain values`,
  );
}

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
export function restore(
  from: string,
  items: Items,
  states: ReadonlyMap<string, unknown>,
  rng: boolean,
): Record<string, unknown> {
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
  if (rng) defaultGenerator.setState(fromBuffer((states.get(RNG) as HostArray).data, { dtype: 'u32' }));
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
