// CheckpointManager: checkpoints of a training run. Each is a folder, written under a temporary name and renamed when complete, so
// that the last good one always exists. It saves anything with a state: models, optimizers, schedules, loaders, averages.
import fs from 'node:fs';
import path from 'node:path';
import { checkWhole } from '../base/check.js';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { makeFolder } from '../base/folder.js';
import { holderOf, type Lock, waitForLock } from '../base/lock.js';
import { notice } from '../base/log.js';
import { checkOptions } from '../base/options.js';
import { onSignals, STOP_SIGNALS } from '../base/signals.js';
import { messageOf } from '../base/thrown.js';
import {
  type CheckpointInfo,
  cleanUp,
  FOLDER,
  folderOf,
  type Manifest,
  readManifest,
  removeCheckpoint,
  WRITER,
  withArrays,
  writeCheckpoint,
} from './checkpoint-files.js';
import { type Items, isStateful, processes, RNG, readState, restore, type Snapshot, snapshot } from './state.js';

export interface CheckpointOptions {
  /** The number of newest checkpoints to keep. */
  readonly keep?: number;
  /** Also keeps the best checkpoint by a metric. `mode`: whether lower or higher is better. */
  readonly best?: { readonly metric: string; readonly mode?: 'min' | 'max' };
  /** Whether files are written while training continues; otherwise `save` waits for them. */
  readonly background?: boolean;
  /** `tick` saves when the step is a multiple of this. */
  readonly every?: number;
  /** Disables writing: for workers of which only the first one saves. */
  readonly readOnly?: boolean;
}

export interface TickOptions {
  readonly metrics?: Readonly<Record<string, number>>;
  /** Whether this is the last step. Default: whether the process received SIGTERM or SIGINT. */
  readonly stop?: boolean;
}

export interface LoadOptions {
  /** The step to load. Default: the newest. */
  readonly step?: number | 'best';
  /** Whether to restore the random generator too. false if a checkpoint is only inspected. */
  readonly rng?: boolean;
}

export interface Restored extends CheckpointInfo {
  /** The plain values that were saved. */
  readonly values: Readonly<Record<string, unknown>>;
}

const ITEM = /^\w[\w.-]*$/;

export class CheckpointManager {
  readonly #options: Required<Omit<CheckpointOptions, 'best'>> & {
    readonly best: CheckpointOptions['best'] | undefined;
  };
  /** The last call of `save`: each waits for the previous one. */
  #saving: Promise<unknown> = Promise.resolve();
  #writing: Promise<void> = Promise.resolve();
  #failure: Error | undefined;
  /** The reason to stop: the signal. */
  #stop: string | undefined;
  #lock: Promise<Lock> | undefined;
  #unlisten: (() => void) | undefined;

  /** Creates the folder if it does not exist, and removes unfinished checkpoints of earlier runs. */
  constructor(
    readonly dir: string,
    options: CheckpointOptions = {},
  ) {
    checkOptions('CheckpointManager', ['keep', 'best', 'background', 'every', 'readOnly'], options);
    const { keep = 3, background = true, every = 1000, readOnly = false, best } = options;
    for (const [name, n] of Object.entries({ keep, every })) checkWhole(`CheckpointManager: ${name}`, n, 1);
    this.#options = { keep, background, every, readOnly, best };
    if (readOnly) return;
    try {
      makeFolder(path.resolve(dir));
      cleanUp(dir);
    } catch (e) {
      throw new CheckpointError(`cannot use ${dir} for checkpoints: ${messageOf(e)}`, { cause: e });
    }
  }

  /** The existing checkpoints, in the order in which they were saved. */
  list(): CheckpointInfo[] {
    return this.#folders()
      .flatMap(({ path, manifest: m }) =>
        m ? [{ path, step: m.step, metrics: m.metrics, time: m.time, order: m.order }] : [],
      )
      .sort((a, b) => a.order - b.order)
      .map(({ order, ...info }) => info);
  }
  /** Each checkpoint with its manifest, or the error of reading it. */
  #folders(): { readonly path: string; readonly manifest?: Manifest; readonly error?: Error }[] {
    const names = fs.existsSync(this.dir) ? fs.readdirSync(this.dir) : [];
    return names
      .filter((name) => FOLDER.test(name))
      .map((name) => {
        const folder = path.join(this.dir, name);
        try {
          return { path: folder, manifest: readManifest(folder) };
        } catch (error) {
          return { path: folder, error: error as Error };
        }
      });
  }
  get latest(): CheckpointInfo | undefined {
    return this.list().at(-1);
  }
  /** The best by the metric of the options; the newest of equal ones. */
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
   * Saves these items and the state of the random generator as the checkpoint of a step. Resolves when their values are on the
   * host: training may continue while files are written. Errors of writing are thrown by the next call, or by `done`.
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
          `CheckpointManager.save: ${JSON.stringify(name)} is not a valid file name: use letters, digits, _ - and .`,
        );
    if (this.#options.readOnly) return;
    if (RNG in items)
      throw new ArgumentError(
        `CheckpointManager.save: the name ${RNG} is reserved for the random generator: use another name`,
      );
    const values = snapshot(items); // their current values
    values.catch(() => {}); // thrown below
    const saving = this.#saving.then(async () => {
      await this.#written(); // one at a time
      const state = await values;
      this.#writing = this.#write(step, state, metrics).catch((error: Error) => {
        this.#failure = error;
      });
      if (!this.#options.background) await this.#written();
    });
    this.#saving = saving.catch(() => {});
    await saving;
  }

  /** Waits until all saved checkpoints are on disk. */
  async done(): Promise<void> {
    await this.#saving;
    await this.#written();
  }
  async #written(): Promise<void> {
    await this.#writing;
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure) throw failure;
  }

  async #write(step: number, state: Snapshot, metrics: Readonly<Record<string, number>>): Promise<void> {
    const among = await processes();
    try {
      if (!among.index) (await this.#locked()).check();
      const order = this.latest ? readManifest(this.latest.path).order + 1 : 0;
      await writeCheckpoint(this.dir, { step, metrics, order }, state, among);
    } catch (e) {
      const last = this.latest;
      const kept = last ? `the last good one is ${last.path}` : 'no checkpoint was saved before';
      throw new CheckpointError(`cannot save the checkpoint of step ${step} in ${this.dir}: ${messageOf(e)}; ${kept}`, {
        cause: e,
      });
    }
    if (!among.index) await this.#prune(); // one of them does
  }

  /** Locks the folder: another process that saves in it would remove checkpoints that this one keeps. */
  #locked(): Promise<Lock> {
    this.#lock ??= shareLock(this.dir);
    this.#lock.catch(() => {
      this.#lock = undefined;
    });
    return this.#lock;
  }

  async #prune(): Promise<void> {
    const all = this.list();
    const spared = new Set([...all.slice(-this.#options.keep), this.best].map((c) => c?.path));
    for (const { path: folder } of all) {
      if (spared.has(folder)) continue;
      await removeCheckpoint(this.dir, folder);
    }
  }

  /**
   * Restores items from a checkpoint: the newest complete one by default, that of a step, or the 'best'. Resolves to undefined if
   * there is none. Files are verified before anything is changed. Tensors that are split over devices are read in parts.
   */
  async load(items: Items = {}, { step, rng = true }: LoadOptions = {}): Promise<Restored | undefined> {
    checkItems('load', items);
    await this.done();
    const all = this.list();
    const wanted =
      step === undefined ? [...all].reverse() : [step === 'best' ? this.best : all.find((c) => c.step === step)];
    for (const { path: folder, error } of this.#folders()) {
      if (!error) continue;
      if (!all.length || folder === folderOf(this.dir, Number(step))) throw error; // an error, as a checkpoint exists
      notice(`${error.message}; it is skipped`);
    }
    if (step === 'best' && all.length && !wanted[0])
      throw new CheckpointError(
        `no checkpoint in ${this.dir} has the metric ${this.#options.best?.metric ?? '(none is named: pass best: { metric })'}: they have ${[...new Set(all.flatMap((c) => Object.keys(c.metrics)))].join(', ') || 'none'}`,
      );
    if (step !== undefined && !wanted[0])
      throw new CheckpointError(
        `${this.dir} has no checkpoint of step ${step}: it has ${all.map((c) => c.step).join(', ') || 'none'}`,
      );
    for (const [i, info] of wanted.entries()) {
      const found = await readStates(info!.path, items).catch((e: Error) => {
        if (step !== undefined || i === wanted.length - 1 || !(e instanceof CheckpointError)) throw e;
        notice(`${e.message}; loading the checkpoint before it`);
      });
      if (!found) continue;
      const left = readManifest(info!.path).stateful.filter((item) => !(item in items));
      if (left.length && Object.keys(items).length)
        notice(`${info!.path} also has ${left.join(', ')}, which were not requested`);
      return { ...info!, values: restore(info!.path, items, found, rng) };
    }
    return undefined;
  }

  /** Whether `tick` would save now. */
  isDue(step: number): boolean {
    return this.isTold || step % this.#options.every === 0;
  }
  /** Whether the process received SIGTERM or SIGINT since the first `tick`. */
  get isTold(): boolean {
    return this.#stop !== undefined;
  }
  /**
   * Call it after every step. It saves at the configured interval, and when the process received SIGTERM or SIGINT; then it
   * resolves to true once all is on disk: leave the loop. Workers that must stop together agree on that and pass `stop`.
   */
  async tick(step: number, items: Items, options: TickOptions = {}): Promise<boolean> {
    this.#unlisten ??= this.#listen();
    const { stop = this.isTold } = options;
    if (stop || step % this.#options.every === 0) await this.save(step, items, options);
    if (!stop) return false;
    await this.done();
    if (!this.#options.readOnly)
      notice(`${this.#stop ?? 'another worker is stopping'}: saved the checkpoint of step ${step} in ${this.dir}`);
    this.close();
    return true;
  }
  #listen(): () => void {
    return onSignals(STOP_SIGNALS, (signal) => {
      if (this.#stop) {
        this.close();
        process.kill(process.pid, signal);
        return;
      }
      this.#stop ??= signal;
      notice(`${signal} received: saving a checkpoint after this step; send it again to exit now`);
    });
  }
  /** Restores the handling of signals from before the first `tick`. */
  close(): void {
    this.#unlisten?.();
    this.#unlisten = undefined;
  }
  [Symbol.dispose](): void {
    this.close();
  }
  /** The same, after waiting until all saved checkpoints are on disk. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    await this.#saving;
    await this.#writing;
    await (await this.#lock?.catch(() => undefined))?.release();
    this.#lock = undefined;
  }
}

/** Managers of one process share the lock of a folder. */
const shared = new Map<string, SharedLock>();
class SharedLock {
  #users = 0;
  #lock: Lock | undefined;
  readonly #taken: Promise<Lock>;
  constructor(
    readonly thing: string,
    dir: string,
  ) {
    this.#taken = lockOf(thing, dir).then((lock) => (this.#lock = lock));
  }
  /** Fails if its folder was removed, even if it was created again. */
  get isGone(): boolean {
    return this.#lock?.isHeld() === false;
  }
  async join(): Promise<Lock> {
    this.#users++;
    const release = async () => {
      if (--this.#users) return;
      if (shared.get(this.thing) === this) shared.delete(this.thing);
      await this.#lock?.release();
    };
    try {
      return { ...(await this.#taken), release };
    } catch (e) {
      await release();
      throw e;
    }
  }
}
function shareLock(dir: string): Promise<Lock> {
  const thing = path.join(fs.realpathSync(dir), WRITER);
  const known = shared.get(thing);
  const lock = known && !known.isGone ? known : new SharedLock(thing, dir);
  shared.set(thing, lock);
  return lock.join();
}
async function lockOf(thing: string, dir: string): Promise<Lock> {
  const lock = await waitForLock(thing);
  if (lock) return lock;
  throw new CheckpointError(`${holderOf(thing)} saves checkpoints in ${dir}: use another folder`);
}

function checkItems(method: string, items: Items): void {
  if (isStateful(items))
    throw new ArgumentError(
      `CheckpointManager.${method}: got a ${items.constructor.name}: pass an object with items by name: { model }`,
    );
}

/** All states of a checkpoint, verified. */
const readStates = (folder: string, items: Items): Promise<Map<string, unknown>> =>
  withArrays(folder, async (manifest, arraysOf) => {
    const states = new Map<string, unknown>();
    for (const [item, tree] of Object.entries(manifest.items))
      states.set(item, await readState(item, items[item], tree, await arraysOf(item)));
    return states;
  });
