// Checkpoints of a training run: a folder a checkpoint, written aside and renamed when it is whole, so that whatever happens
// the last good one is there. What is saved is anything with a state: models, optimizers, schedules, loaders, averages.
import { createHash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import fsp from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { hostArray } from '../base/dtype.js';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { notice } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { describe } from '../base/tree.js';
import { fromBuffer } from '../tensor/create.js';
import { defaultGenerator } from '../tensor/random.js';
import { sync } from '../tensor/sync.js';
import { Tensor } from '../tensor/tensor.js';
import type { HostArray, ReadLater } from './array.js';
import { readSafetensors, writeSafetensors } from './safetensors.js';
import { hasEntries, stateArrays } from './state.js';

/** Something that can be saved: it has stateDict and loadStateDict, as torch's, or state and load. */
export type Stateful =
  | { stateDict(): unknown; loadStateDict(state: never): unknown }
  | { state(): unknown; load(state: never): unknown };
/** What is saved, by name: things with a state, and plain values (numbers, texts, lists, tensors). */
export type Items = Readonly<Record<string, unknown>>;

export interface CheckpointOptions {
  /** How many of the newest are kept. */
  readonly keep?: number;
  /** The best is kept, too: by which metric, and whether less is better. */
  readonly best?: { readonly metric: string; readonly mode?: 'min' | 'max' };
  /** Files are written while training goes on; else `save` waits for them. */
  readonly background?: boolean;
  /** `tick` saves when the step's number is a multiple of it. */
  readonly every?: number;
}

export interface CheckpointInfo {
  readonly step: number;
  readonly path: string;
  readonly metrics: Readonly<Record<string, number>>;
  /** Milliseconds since 1970. */
  readonly time: number;
}
export interface Restored extends CheckpointInfo {
  /** The plain values that were saved. */
  readonly values: Readonly<Record<string, unknown>>;
}

interface Manifest extends Omit<CheckpointInfo, 'path'> {
  readonly format: 'tsxla-checkpoint';
  readonly version: 1;
  /** Each item, with { $tensor: name } where an array is. */
  readonly items: Readonly<Record<string, unknown>>;
  readonly files: Readonly<Record<string, { readonly bytes: number; readonly sha256: string }>>;
}

const MANIFEST = 'checkpoint.json';
const FOLDER = /^step-(\d+)$/;
const UNFINISHED = '.unfinished-';
const RNG = 'rng';

export class CheckpointManager {
  readonly #options: Required<Omit<CheckpointOptions, 'best'>> & {
    readonly best: CheckpointOptions['best'] | undefined;
  };
  #writing: Promise<void> = Promise.resolve();
  #failure: Error | undefined;
  #stop: NodeJS.Signals | undefined;
  #unlisten: (() => void) | undefined;

  /** The folder is made if need be. What an earlier run left unfinished in it is removed. */
  constructor(
    readonly dir: string,
    options: CheckpointOptions = {},
  ) {
    const { keep = 3, background = true, every = 1000, best } = options;
    for (const [name, n] of Object.entries({ keep, every }))
      if (!(Number.isSafeInteger(n) && n >= 1))
        throw new ArgumentError(`CheckpointManager: ${name} is ${n}: it must be a whole number, at least 1`);
    this.#options = { keep, background, every, best };
    try {
      fs.mkdirSync(dir, { recursive: true });
      for (const name of fs.readdirSync(dir))
        if (isAbandoned(name)) fs.rmSync(path.join(dir, name), { recursive: true });
    } catch (e) {
      throw new CheckpointError(`cannot use ${dir} for checkpoints: ${messageOf(e)}`, { cause: e });
    }
  }

  /** The checkpoints that are there, oldest first. */
  list(): CheckpointInfo[] {
    const steps = fs.readdirSync(this.dir).flatMap((name) => (FOLDER.test(name) ? [name] : []));
    return steps
      .flatMap((name) => {
        const folder = path.join(this.dir, name);
        try {
          const { step, metrics, time } = readManifest(folder);
          return [{ step, metrics, time, path: folder }];
        } catch {
          return [];
        }
      })
      .sort((a, b) => a.step - b.step);
  }
  get latest(): CheckpointInfo | undefined {
    return this.list().at(-1);
  }
  /** By the metric of the options; the newest of equal ones. */
  get best(): CheckpointInfo | undefined {
    const { best } = this.#options;
    if (!best) return undefined;
    const sign = best.mode === 'max' ? -1 : 1;
    const value = (c: CheckpointInfo) => sign * (c.metrics[best.metric] ?? Number.NaN);
    return this.list()
      .filter((c) => !Number.isNaN(value(c)))
      .reduce<CheckpointInfo | undefined>((a, b) => (a && value(a) < value(b) ? a : b), undefined);
  }

  /**
   * Saves these, and the state of the random generator, as the checkpoint of a step. Resolves when their values are on the
   * host: training may go on while they are written. What goes wrong then is thrown by the next call, or by `done`.
   */
  async save(
    step: number,
    items: Items,
    { metrics = {} }: { readonly metrics?: Readonly<Record<string, number>> } = {},
  ) {
    if (!Number.isSafeInteger(step) || step < 0)
      throw new ArgumentError(`CheckpointManager.save: the step is ${step}: it must be a whole number, 0 or more`);
    if (RNG in items)
      throw new ArgumentError(`CheckpointManager.save: ${RNG} is the random generator's: use another name`);
    await this.done(); // one at a time
    const state = await snapshot({ ...items, [RNG]: defaultGenerator.state });
    this.#writing = this.#write(step, state, metrics).catch((error: Error) => {
      this.#failure = error;
    });
    if (!this.#options.background) await this.done();
  }

  /** Waits until what was saved is on the disk. */
  async done(): Promise<void> {
    await this.#writing;
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure) throw failure;
  }

  async #write(step: number, state: Snapshot, metrics: Readonly<Record<string, number>>): Promise<void> {
    const target = path.join(this.dir, `step-${String(step).padStart(8, '0')}`);
    const folder = path.join(this.dir, `${UNFINISHED}${process.pid}-${randomUUID()}`);
    try {
      await fsp.mkdir(folder);
      const files: Record<string, { bytes: number; sha256: string }> = {};
      for (const [item, { arrays }] of state) {
        if (!arrays.size) continue;
        const name = `${item}.safetensors`;
        await writeSafetensors(path.join(folder, name), arrays);
        files[name] = await digest(path.join(folder, name));
      }
      const trees = Object.fromEntries([...state].map(([item, { tree }]) => [item, tree]));
      const manifest: Manifest = {
        format: 'tsxla-checkpoint',
        version: 1,
        step,
        time: Date.now(),
        metrics,
        items: trees,
        files,
      };
      const file = await fsp.open(path.join(folder, MANIFEST), 'wx');
      try {
        await file.writeFile(JSON.stringify(manifest, null, 1));
        await file.sync();
      } finally {
        await file.close();
      }
      await syncFolder(folder);
      await fsp.rm(target, { recursive: true, force: true }); // of a run that was resumed before this step
      await fsp.rename(folder, target);
      await syncFolder(this.dir);
    } catch (e) {
      await fsp.rm(folder, { recursive: true, force: true }).catch(() => {});
      const last = this.latest;
      const kept = last ? `the last good one is ${last.path}` : 'there is none yet';
      throw new CheckpointError(`cannot save the checkpoint of step ${step} in ${this.dir}: ${messageOf(e)}; ${kept}`, {
        cause: e,
      });
    }
    await this.#prune();
  }

  async #prune(): Promise<void> {
    const all = this.list();
    const spared = new Set([...all.slice(-this.#options.keep), this.best].map((c) => c?.path));
    for (const { path: folder } of all) if (!spared.has(folder)) await fsp.rm(folder, { recursive: true, force: true });
  }

  /**
   * Gives these the states of a checkpoint: of the newest that is whole unless a step is named, or 'best'. Undefined if there
   * is none. Every file is verified before anything is changed.
   */
  async load(items: Items = {}, { step }: { readonly step?: number | 'best' } = {}): Promise<Restored | undefined> {
    await this.done();
    const all = this.list();
    const wanted =
      step === undefined ? [...all].reverse() : [step === 'best' ? this.best : all.find((c) => c.step === step)];
    if (step !== undefined && !wanted[0])
      throw new CheckpointError(
        `${this.dir} has no checkpoint of step ${step}: it has ${all.map((c) => c.step).join(', ') || 'none'}`,
      );
    for (const [i, info] of wanted.entries()) {
      const found = await read(info!.path).catch((e: Error) => {
        if (step !== undefined || i === wanted.length - 1) throw e;
        notice(`${e.message}; going back to the one before`);
      });
      if (found) return { ...info!, values: restore(info!, items, found) };
    }
    return undefined;
  }

  /**
   * To be called after every step: saves when it is time to, or when the process was told to end (SIGTERM, SIGINT). Then it
   * gives true, once all is on the disk: leave the loop.
   */
  async tick(step: number, items: Items, options: { readonly metrics?: Readonly<Record<string, number>> } = {}) {
    this.#unlisten ??= this.#listen();
    if (this.#stop || step % this.#options.every === 0) await this.save(step, items, options);
    if (!this.#stop) return false;
    await this.done();
    notice(`${this.#stop}: saved the checkpoint of step ${step} in ${this.dir}`);
    this.close();
    return true;
  }
  #listen(): () => void {
    const signals = ['SIGTERM', 'SIGINT'] as const;
    const stop = (signal: NodeJS.Signals) => {
      this.#stop ??= signal;
    };
    for (const signal of signals) process.on(signal, stop);
    return () => {
      for (const signal of signals) process.off(signal, stop);
    };
  }
  /** Signals are no more its business. */
  close(): void {
    this.#unlisten?.();
    this.#unlisten = undefined;
  }
}

const isAbandoned = (name: string): boolean => {
  const pid = name.startsWith(UNFINISHED) && Number(name.slice(UNFINISHED.length).split('-')[0]);
  return Boolean(pid) && !(pid !== process.pid && isAlive(pid as number));
};
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (e) {
    return (e as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await fsp.open(folder).catch(() => undefined); // not everywhere can a folder be opened
  await handle?.sync().catch(() => {});
  await handle?.close();
}

async function digest(file: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256');
  await pipeline(fs.createReadStream(file, { highWaterMark: 2 ** 20 }), hash);
  return { bytes: (await fsp.stat(file)).size, sha256: hash.digest('hex') };
}

// ---- states as JSON, with their arrays beside

interface Saved {
  readonly tree: unknown;
  readonly arrays: Map<string, HostArray>;
}
type Snapshot = ReadonlyMap<string, Saved>;

const isObject = (x: unknown): x is object => typeof x === 'object' && x !== null;
const isStateful = (x: unknown): x is Stateful =>
  isObject(x) && (('stateDict' in x && 'loadStateDict' in x) || ('state' in x && 'load' in x));

/** The values of all, on the host. */
async function snapshot(items: Items): Promise<Snapshot> {
  await sync(); // so that all is computed in one program
  const saved = new Map<string, Saved>();
  const reading: Promise<void>[] = [];
  for (const [item, x] of Object.entries(items)) {
    const arrays = new Map<string, HostArray>();
    const put = (name: string, t: ReadLater): { $tensor: string } => {
      arrays.set(name, { dtype: t.dtype, shape: t.shape, data: hostArray({ dtype: t.dtype, shape: [0] }) }); // its place
      reading.push(t.data().then((data) => void arrays.set(name, { dtype: t.dtype, shape: t.shape, data })));
      return { $tensor: name };
    };
    if (isObject(x) && hasEntries(x)) for (const [name, array] of stateArrays(x.stateEntries())) put(name, array);
    const state = isStateful(x) ? ('stateDict' in x ? x.stateDict() : x.state()) : x;
    const tree = isObject(x) && hasEntries(x) ? { $arrays: true } : encode(item, state, '', put, arrays);
    saved.set(item, { tree, arrays });
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
    arrays.set(at || item, x);
    return { $tensor: at || item };
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
    return Object.fromEntries(Object.entries(x).map(([key, value]) => [key, inside(key, value)]));
  throw new ArgumentError(
    `CheckpointManager.save: ${item}${at && ` at ${at}`} is ${describe(x)}: save something with stateDict() and loadStateDict(), or plain values`,
  );
}
const isHostArray = (x: unknown): x is HostArray =>
  isObject(x) && 'dtype' in x && 'shape' in x && 'data' in x && ArrayBuffer.isView(x.data);

function decode(x: unknown, arrays: ReadonlyMap<string, HostArray>): unknown {
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
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, decode(value, arrays)]));
}

// ---- loading

function readManifest(folder: string): Manifest {
  const file = path.join(folder, MANIFEST);
  const bad = (what: string, cause?: unknown) =>
    new CheckpointError(`${folder} is not a whole checkpoint: ${what}`, { cause });
  let manifest: Manifest;
  try {
    manifest = JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch (e) {
    throw bad(`its ${MANIFEST} cannot be read (${messageOf(e)})`, e);
  }
  if (manifest?.format !== 'tsxla-checkpoint') throw bad(`its ${MANIFEST} is of something else`);
  if (manifest.version !== 1) throw bad(`it has version ${manifest.version}, this tsxla reads 1`);
  return manifest;
}

/** All states of a checkpoint, verified. */
async function read(folder: string): Promise<Map<string, unknown>> {
  const { items, files } = readManifest(folder);
  const bad = (what: string) => new CheckpointError(`${folder} is not a whole checkpoint: ${what}`);
  for (const [name, { bytes, sha256 }] of Object.entries(files)) {
    const now = await digest(path.join(folder, name)).catch(() => undefined);
    if (!now) throw bad(`${name} is missing`);
    if (now.bytes !== bytes) throw bad(`${name} has ${now.bytes} bytes, and had ${bytes} when it was saved`);
    if (now.sha256 !== sha256) throw bad(`${name} has changed since it was saved`);
  }
  const states = new Map<string, unknown>();
  for (const [item, tree] of Object.entries(items)) {
    const name = `${item}.safetensors`;
    const arrays = name in files ? await readSafetensors(path.join(folder, name)) : new Map<string, HostArray>();
    states.set(item, decode(tree, arrays));
  }
  return states;
}

/** Gives each item its state; the plain values are the result. */
function restore(info: CheckpointInfo, items: Items, states: ReadonlyMap<string, unknown>): Record<string, unknown> {
  const missing = Object.keys(items).filter((item) => isStateful(items[item]) && !states.has(item));
  if (missing.length)
    throw new CheckpointError(`${info.path} has no ${missing.join(', ')}: it has ${[...states.keys()].join(', ')}`);
  const values: Record<string, unknown> = {};
  for (const [item, state] of states) {
    const x = items[item];
    if (item === RNG) defaultGenerator.setState(fromBuffer((state as HostArray).data, { dtype: 'u32' }));
    else if (!isStateful(x)) values[item] = state;
    else if ('loadStateDict' in x) x.loadStateDict(state as never);
    else x.load(state as never);
  }
  return values;
}
