// The states of saved items as JSON, with arrays stored separately. Models, optimizers, schedules, loaders and averages have one.

import * as v from 'valibot';
import { isHostArray, sameType } from '../base/dtype.js';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { checkJson } from '../base/json.js';
import type { Shape } from '../base/shape.js';
import { unravel } from '../base/shape.js';
import { messageOf } from '../base/thrown.js';
import { describe, isPlain } from '../base/tree.js';
import { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { Mesh } from '../ir/mesh.js';
import { evaluate, fetchArray } from '../runtime/evaluate.js';
import { processesOf } from '../runtime/processes.js';
import type { Request } from '../runtime/program.js';
import { hold, release } from '../runtime/record.js';
import { placesOf, ShardedArray } from '../runtime/sharded.js';
import { checkAlive, defaultClient, freeValue, hasValue, nodeValue, PROMISED } from '../runtime/value.js';
import { fromBuffer } from '../tensor/create.js';
import { defaultGenerator } from '../tensor/random.js';
import { type StateEntry, type StateValue, spare, spareRows } from '../tensor/state.js';
import { Tensor } from '../tensor/tensor.js';
import type { ArraySource } from './array.js';
import type { Processes } from './checkpoint-files.js';
import { hasEntries, heldIn } from './entries.js';
import { freeName, type Part, positionsToSave, type SavedArray, wholePart } from './parts.js';
import { isSplit, ofRows, type ReadBlock, readParts } from './placed.js';

/** An object that can be saved: with stateDict and loadStateDict, as in torch, or state and load. */
export type Stateful =
  | { stateDict(): unknown; loadStateDict(state: never): unknown }
  | { state(): unknown; load(state: never): unknown };
/** Items to save, by name: objects with a state, and plain values (numbers, strings, lists, tensors). */
export type Items = Readonly<Record<string, unknown>>;
/** The name that the state of the random generator has. */
export const RNG = 'rng';

export interface Saved {
  /** Whether it is the state of something, and not a plain value. */
  readonly stateful: boolean;
  readonly tree: unknown;
  readonly arrays: Map<string, SavedArray>;
}
export type Snapshot = ReadonlyMap<string, Saved>;

const isObject = (x: unknown): x is object => typeof x === 'object' && x !== null;
export const isStateful = (x: unknown): x is Stateful =>
  isObject(x) && (('stateDict' in x && 'loadStateDict' in x) || ('state' in x && 'load' in x));

const stateOf = (x: unknown): unknown => (isStateful(x) ? ('stateDict' in x ? x.stateDict() : x.state()) : x);
const setStateOf = (x: Stateful, state: unknown): unknown =>
  'loadStateDict' in x ? x.loadStateDict(state as never) : x.load(state as never);

/** The states of all, and of the random generator, as they are now: it resolves when they are on the host. */
export function snapshot(items: Items): Promise<Snapshot> {
  const reader = new Reader();
  const saved = new Map<string, Saved>();
  const given: SavedArray[] = []; // arrays of the host's, which every process has
  for (const [item, x] of Object.entries({ ...items, [RNG]: defaultGenerator.state })) {
    const arrays = new Map<string, SavedArray>();
    if (isObject(x) && hasEntries(x)) {
      readEntries(x.stateEntries(), reader, arrays);
      saved.set(item, { stateful: true, tree: { $arrays: true }, arrays });
      continue;
    }
    const { tree, tensors } = encodeState(item, x, arrays);
    given.push(...[...arrays.values()].filter((array) => array.parts.length));
    for (const [name, t] of tensors)
      reader.read(t, (parts) => {
        arrays.get(name)!.parts = parts;
      });
    saved.set(item, { stateful: isStateful(x), tree, arrays });
  }
  return reader.done().then((process) => {
    if (process) for (const array of given) array.parts = []; // the first saves them
    return saved;
  });
}

/** A state as JSON has it, and its tensors by the names they have in a file; `arrays` is given a place for each. */
function encodeState(item: string, x: unknown, arrays: Map<string, SavedArray>) {
  const names = new Map<Tensor, string>(); // one that is there twice is saved once
  const put = (at: string, t: Tensor): { $tensor: string } => {
    const name = names.get(t) ?? freeName(at, arrays);
    names.set(t, name);
    arrays.set(name, { dtype: t.dtype, shape: t.shape, parts: [] }); // in the order of the state
    return { $tensor: name };
  };
  const tree = encode(item, stateOf(x), '', put, arrays);
  return { tree, tensors: [...names].map(([t, name]) => [name, t] as const) };
}

/** Reads the current values of tensors, even if they change before they are on the host: the parts this process saves. */
class Reader {
  readonly #wanted: { readonly expr: Expr; readonly use: (parts: readonly Part[]) => void }[] = [];
  read(tensor: Tensor, use: (parts: readonly Part[]) => void): void {
    const expr = tensor.wanted;
    hold(expr); // a step that changes the tensor leaves the old value be
    this.#wanted.push({ expr, use });
  }
  /** Gives the number of this process. */
  async done(): Promise<number> {
    const request = { cause: 'read', name: 'checkpoint' } as const;
    try {
      const missing = this.#wanted
        .map(({ expr }) => expr)
        .filter((expr) => !hasValue(expr) || nodeValue(expr) === PROMISED);
      if (missing.length) await evaluate(missing, request); // in one program
      const { index } = await processes();
      await Promise.all(this.#wanted.map(async ({ expr, use }) => use(await fetchParts(expr, request, index))));
      return index;
    } finally {
      for (const { expr } of this.#wanted) if (release(expr) === 0) freeValue(expr);
    }
  }
}

/** Which of the processes that train together this is. Without a mesh, there is one. */
export async function processes(): Promise<Processes> {
  if (!Mesh.exists) return { index: 0, count: 1 };
  const client = await defaultClient();
  return { index: client.processIndex, count: processesOf(client) };
}

/** What a process is to save of a node's value: the first of them, all that is whole. */
async function fetchParts(expr: Expr, request: Request, process: number): Promise<Part[]> {
  const value = nodeValue(expr);
  if (!(value instanceof ShardedArray && isSplit(value.sharding, expr.shape)))
    return process ? [] : [wholePart({ dtype: expr.dtype, shape: expr.shape, data: await fetchArray(expr, request) })];
  checkAlive(expr);
  const { client, sharding, shards } = value;
  const processOf = (id: number) => client.devices.find((d) => d.id === id)!.processIndex;
  const places = placesOf(client, sharding.mesh);
  const shape = sharding.shardShape(expr.shape);
  const read = async (position: number): Promise<Part> => {
    const shard = shards[places.findIndex(([p]) => p === position)]!;
    const data = await shard.toHost().catch((error) => {
      throw value.failure ?? error;
    });
    return { start: sharding.startOf(expr.shape, position), shape, data };
  };
  return Promise.all(positionsToSave(sharding, expr.shape, process, processOf).map(read));
}

/** A module's tensors: a stacked one is read once, and each layer is a part of it. */
function readEntries(entries: Iterable<StateEntry>, reader: Reader, arrays: Map<string, SavedArray>): void {
  for (const { tensor, names, shape, stacked } of heldIn(entries)) {
    const saved = names.map((name): SavedArray => {
      const array = { dtype: tensor.dtype, shape, parts: [] };
      arrays.set(name, array);
      return array;
    });
    reader.read(tensor, (parts) => {
      saved.forEach((array, row) => {
        const index = unravel(row, tensor.shape.slice(0, stacked));
        array.parts = index.reduce((parts, at) => parts.flatMap((part) => rowOf(part, at)), parts);
      });
    });
  }
}
/** A row of the whole array, as far as a part has it. */
function rowOf({ start: [first, ...start], shape: [count, ...shape], data }: Part, row: number): Part[] {
  const size = data.length / count!;
  const at = row - first!;
  return at >= 0 && at < count! ? [{ start, shape, data: data.subarray(at * size, (at + 1) * size) }] : [];
}

/** A state as JSON has it. */
function encode(
  item: string,
  x: unknown,
  at: string,
  put: (name: string, t: Tensor) => object,
  arrays: Map<string, SavedArray>,
): unknown {
  const inside = (key: string | number, value: unknown) =>
    encode(item, value, at ? `${at}.${key}` : String(key), put, arrays);
  if (x instanceof Tensor) return put(at || item, x);
  if (isHostArray(x)) {
    const name = freeName(at || item, arrays);
    const { dtype, shape } = x;
    arrays.set(name, { dtype, shape, parts: [wholePart({ dtype, shape, data: x.data.slice() })] }); // the caller may change it
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

/** The state of an item whose arrays are in a file. Shards of split arrays are read directly to their devices. */
export async function readState(item: string, x: unknown, tree: unknown, source: ArraySource): Promise<unknown> {
  const placed = Mesh.exists && isStateful(x) ? await readPlaced(placesIn(item, x), source) : undefined;
  const arrays = new Map<string, StateValue>();
  for (const name of source.entries.keys()) arrays.set(name, placed?.get(name) ?? (await source.read(name)));
  return decodeState(item, tree, arrays);
}

/** The tensors that something has now, by the names they have in a file. */
function placesIn(item: string, x: Stateful): readonly StateEntry[] {
  if (hasEntries(x)) return [...x.stateEntries()];
  return encodeState(item, x, new Map()).tensors.map(([name, tensor]) => ({ tensor, names: [name], stacked: 0 }));
}

/** Values for tensors that are split over devices, each read to the devices of its tensor. */
async function readPlaced(entries: readonly StateEntry[], source: ArraySource): Promise<Map<string, Tensor>> {
  const placed = new Map<string, Tensor>();
  const { readBlock } = source;
  for (const { tensor, names, stacked } of entries) {
    const { sharding } = tensor.cell;
    const found = names.map((name) => source.entries.get(name));
    const dtype = found[0]?.dtype;
    if (!isSplit(sharding, tensor.shape) || !dtype || !readBlock) continue;
    const type = { dtype, shape: tensor.shape.slice(stacked) };
    if (!found.every((entry) => entry && sameType(entry, type))) continue; // loadStateDict says what is wrong
    const readRow = async (row: number, start: Shape, block: Shape) =>
      (await readBlock.call(source, names[row]!, start, block)).data;
    const read: ReadBlock = stacked
      ? ofRows(dtype, tensor.shape.slice(0, stacked), readRow)
      : (start, block) => readRow(0, start, block);
    const whole = spare(await readParts(await defaultClient(), Aval.of(dtype, tensor.shape), sharding, read));
    const values = stacked ? spareRows(whole, stacked) : [whole];
    names.forEach((name, i) => void placed.set(name, values[i]!));
  }
  return placed;
}

/** The value that `encode` made JSON of. */
function decodeState(item: string, tree: unknown, arrays: ReadonlyMap<string, StateValue>): unknown {
  try {
    return decode(tree, arrays);
  } catch (e) {
    const what = e instanceof RangeError ? 'it is nested too deep' : messageOf(e);
    throw new CheckpointError(`cannot read the state of ${item}: ${what}`, { cause: e });
  }
}

const PAIRS = v.array(v.strictTuple([v.unknown(), v.unknown()]), 'a list of pairs');
const INTEGER = v.pipe(v.string('an integer'), v.regex(/^-?\d+$/, 'an integer'));
const SPECIAL = v.picklist(['NaN', 'Infinity', '-Infinity'], 'NaN, Infinity or -Infinity');

function decode(x: unknown, arrays: ReadonlyMap<string, StateValue>): unknown {
  if (!isObject(x)) return x;
  if (Array.isArray(x)) return x.map((value) => decode(value, arrays));
  const record = x as Record<string, unknown>;
  const has = (key: string) => Object.hasOwn(record, key);
  if (has('$arrays')) return arrays;
  if (has('$tensor')) {
    const found = arrays.get(record.$tensor as string);
    if (!found) throw new CheckpointError(`no array ${JSON.stringify(record.$tensor)}`);
    return found;
  }
  if (has('$bigint')) return BigInt(checkJson(record.$bigint, '$bigint', INTEGER));
  if (has('$number')) return Number(checkJson(record.$number, '$number', SPECIAL));
  if (has('$undefined')) return undefined;
  if (has('$map')) {
    const pairs = checkJson(record.$map, '$map', PAIRS);
    return new Map(pairs.map(([key, value]) => [decode(key, arrays), decode(value, arrays)]));
  }
  return Object.fromEntries(
    Object.entries(record).map(([key, value]) => [key.replace(/^\$\$/, '$$'), decode(value, arrays)]),
  );
}

/** Restores each item's state; returns the plain values. */
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
    if (rng) restoreGenerator(from, states.get(RNG));
  } catch (e) {
    for (const back of undo) back(); // all or nothing
    throw e;
  }
  return values;
}

function restoreGenerator(from: string, state: unknown): void {
  if (!isHostArray(state) || state.dtype !== 'u32')
    throw new CheckpointError(`${from} has no state of the random generator: pass { rng: false } to load it without`);
  try {
    defaultGenerator.setState(fromBuffer(state.data, { dtype: 'u32' }));
  } catch (e) {
    throw new CheckpointError(`${from}: ${RNG}: ${messageOf(e)}`, { cause: e });
  }
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
