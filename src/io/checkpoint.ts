// Checkpoints of a training run: a folder a checkpoint, written aside and renamed when it is whole, so that whatever happens
// the last good one is there. What is saved is anything with a state: models, optimizers, schedules, loaders, averages.
import { createHash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import fsp from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { checkWhole } from '../base/check.js';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { notice } from '../base/log.js';
import { checkOptions } from '../base/options.js';
import { messageOf } from '../base/thrown.js';
import type { HostArray } from './array.js';
import { flushFolder } from './file.js';
import { readSafetensors, writeSafetensors } from './safetensors.js';
import { decode, type Items, isStateful, RNG, restore, type Snapshot, snapshot } from './state.js';

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

export interface LoadOptions {
  /** The newest unless told. */
  readonly step?: number | 'best';
  /** Whether the random generator goes on from where it was, too; false where a checkpoint is only looked at. */
  readonly rng?: boolean;
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
  /** Larger than that of every checkpoint that was there before: a run may go back to an earlier step. */
  readonly order: number;
  /** The items that are states of something. */
  readonly stateful: readonly string[];
  /** Each item, with { $tensor: name } where an array is. */
  readonly items: Readonly<Record<string, unknown>>;
  readonly files: Readonly<Record<string, { readonly bytes: number; readonly sha256: string }>>;
}

const MANIFEST = 'checkpoint.json';
const FOLDER = /^step-(\d+)$/;
/** A folder that is being written, or has made room for another: .unfinished-HOST-PID-ID */
const LEFT = /^\.unfinished-(\w+)-(\d+)-/;
const FORMER = '-former';
const ITEM = /^\w[\w.-]*$/;

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
    checkOptions('CheckpointManager', ['keep', 'best', 'background', 'every'], options);
    const { keep = 3, background = true, every = 1000, best } = options;
    for (const [name, n] of Object.entries({ keep, every })) checkWhole(`CheckpointManager: ${name}`, n, 1);
    this.#options = { keep, background, every, best };
    try {
      fs.mkdirSync(dir, { recursive: true });
      for (const name of fs.readdirSync(dir)) if (isAbandoned(name)) cleanUp(dir, name);
    } catch (e) {
      throw new CheckpointError(`cannot use ${dir} for checkpoints: ${messageOf(e)}`, { cause: e });
    }
  }

  /** The checkpoints that are there, in the order in which they were saved. */
  list(): CheckpointInfo[] {
    return (fs.existsSync(this.dir) ? fs.readdirSync(this.dir) : [])
      .filter((name) => FOLDER.test(name))
      .flatMap((name) => {
        const folder = path.join(this.dir, name);
        try {
          const { step, metrics, time, order } = readManifest(folder);
          return [{ order, info: { step, metrics, time, path: folder } }];
        } catch {
          return [];
        }
      })
      .sort((a, b) => a.order - b.order)
      .map(({ info }) => info);
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
    checkWhole('CheckpointManager.save: the step', step);
    checkItems('save', items);
    for (const name of Object.keys(items))
      if (!ITEM.test(name))
        throw new ArgumentError(
          `CheckpointManager.save: ${JSON.stringify(name)} cannot be the name of a file: use letters, digits, _ - and .`,
        );
    if (RNG in items)
      throw new ArgumentError(`CheckpointManager.save: ${RNG} is the random generator's: use another name`);
    const values = snapshot(items); // as they are now
    values.catch(() => {}); // thrown below
    await this.done(); // one at a time
    const state = await values;
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
    const target = folderOf(this.dir, step);
    const name = newName();
    const [folder, former] = [path.join(this.dir, name), path.join(this.dir, name + FORMER)];
    underWay.add(name);
    try {
      await fsp.mkdir(folder);
      const files: Record<string, { bytes: number; sha256: string }> = {};
      for (const [item, { arrays }] of state) {
        if (!arrays.size) continue;
        const file = `${item}.safetensors`;
        await writeSafetensors(path.join(folder, file), arrays);
        files[file] = await digest(path.join(folder, file));
      }
      const trees = Object.fromEntries([...state].map(([item, { tree }]) => [item, tree]));
      const manifest: Manifest = {
        format: 'tsxla-checkpoint',
        version: 1,
        step,
        order: this.latest ? readManifest(this.latest.path).order + 1 : 0,
        time: Date.now(),
        metrics,
        stateful: [...state].flatMap(([item, { stateful }]) => (stateful ? [item] : [])),
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
      await flushFolder(folder);
      // Of a run that was resumed before this step; it goes when the new one is there.
      await fsp.rename(target, former).catch(() => {});
      await fsp.rename(folder, target);
      await flushFolder(this.dir);
      await fsp.rm(former, { recursive: true, force: true });
    } catch (e) {
      await fsp.rm(folder, { recursive: true, force: true }).catch(() => {});
      const last = this.latest;
      const kept = last ? `the last good one is ${last.path}` : 'there is none yet';
      throw new CheckpointError(`cannot save the checkpoint of step ${step} in ${this.dir}: ${messageOf(e)}; ${kept}`, {
        cause: e,
      });
    } finally {
      underWay.delete(name);
    }
    await this.#prune();
  }

  async #prune(): Promise<void> {
    const all = this.list();
    const spared = new Set([...all.slice(-this.#options.keep), this.best].map((c) => c?.path));
    for (const { path: folder } of all) {
      if (spared.has(folder)) continue;
      const going = path.join(this.dir, newName()); // a process that ends while it removes it leaves no half of a checkpoint
      await fsp.rename(folder, going);
      await fsp.rm(going, { recursive: true, force: true });
    }
  }

  /**
   * Gives these the states of a checkpoint: of the newest that is whole unless a step is named, or 'best'. Undefined if there
   * is none. Every file is verified before anything is changed.
   */
  async load(items: Items = {}, { step, rng = true }: LoadOptions = {}): Promise<Restored | undefined> {
    checkItems('load', items);
    await this.done();
    const all = this.list();
    const wanted =
      step === undefined ? [...all].reverse() : [step === 'best' ? this.best : all.find((c) => c.step === step)];
    if (step === 'best' && all.length && !wanted[0])
      throw new CheckpointError(
        `no checkpoint in ${this.dir} has the metric ${this.#options.best?.metric ?? '(none is named: pass best: { metric })'}: they have ${[...new Set(all.flatMap((c) => Object.keys(c.metrics)))].join(', ') || 'none'}`,
      );
    if (step !== undefined && !wanted[0])
      throw new CheckpointError(
        `${this.dir} has no checkpoint of step ${step}: it has ${all.map((c) => c.step).join(', ') || 'none'}`,
      );
    for (const [i, info] of wanted.entries()) {
      const found = await read(info!.path).catch((e: Error) => {
        if (step !== undefined || i === wanted.length - 1) throw e;
        notice(`${e.message}; going back to the one before`);
      });
      if (!found) continue;
      const left = readManifest(info!.path).stateful.filter((item) => !(item in items));
      if (left.length && Object.keys(items).length) notice(`${info!.path} also has ${left.join(', ')}: not asked for`);
      return { ...info!, values: restore(info!.path, items, found, rng) };
    }
    return undefined;
  }

  /** Whether `tick` would save now. */
  isDue(step: number): boolean {
    return this.#stop !== undefined || step % this.#options.every === 0;
  }
  /**
   * To be called after every step: saves when it is time to, or when the process was told to end (SIGTERM, SIGINT). Then it
   * gives true, once all is on the disk: leave the loop.
   */
  async tick(step: number, items: Items, options: { readonly metrics?: Readonly<Record<string, number>> } = {}) {
    this.#unlisten ??= this.#listen();
    if (this.isDue(step)) await this.save(step, items, options);
    if (!this.#stop) return false;
    await this.done();
    notice(`${this.#stop}: saved the checkpoint of step ${step} in ${this.dir}`);
    this.close();
    return true;
  }
  #listen(): () => void {
    const signals = ['SIGTERM', 'SIGINT'] as const;
    const stop = (signal: NodeJS.Signals) => {
      if (this.#stop) {
        this.close();
        process.kill(process.pid, signal);
        return;
      }
      this.#stop ??= signal;
      notice(`${signal}: saves after this step; once more ends it now`);
    };
    for (const signal of signals) process.on(signal, stop);
    return () => {
      for (const signal of signals) process.off(signal, stop);
    };
  }
  /** From now on signals end the process as they did before the first `tick`. */
  close(): void {
    this.#unlisten?.();
    this.#unlisten = undefined;
  }
  [Symbol.dispose](): void {
    this.close();
  }
  /** The same, once what was saved is on the disk. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    await this.#writing;
  }
}

function checkItems(method: string, items: Items): void {
  if (isStateful(items))
    throw new ArgumentError(
      `CheckpointManager.${method}: this is a ${items.constructor.name}: it takes what is saved by name: { model }`,
    );
}
const folderOf = (dir: string, step: number): string => path.join(dir, `step-${String(step).padStart(8, '0')}`);
/** Removes what a process left behind; a checkpoint that had just made room for another of its step is put back. */
function cleanUp(dir: string, name: string): void {
  const left = path.join(dir, name);
  if (name.endsWith(FORMER)) {
    const target = folderOf(dir, readManifest(left).step);
    if (!fs.existsSync(target)) {
      fs.renameSync(left, target);
      return;
    }
  }
  fs.rmSync(left, { recursive: true });
}
/** Folders that are being written by this process. */
const underWay = new Set<string>();
const HOST = os.hostname().replace(/\W/g, '_');
const newName = (): string => `.unfinished-${HOST}-${process.pid}-${randomUUID()}`;
/** Whether a folder was left by a process of this machine that is gone. Of others nothing is known. */
const isAbandoned = (name: string): boolean => {
  const [, host, pid] = name.match(LEFT) ?? [];
  if (host !== HOST || underWay.has(name.replace(FORMER, ''))) return false;
  return Number(pid) === process.pid || !isAlive(Number(pid));
};
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (e) {
    return (e as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function digest(file: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256');
  await pipeline(fs.createReadStream(file, { highWaterMark: 2 ** 20 }), hash);
  return { bytes: (await fsp.stat(file)).size, sha256: hash.digest('hex') };
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
