// The state of the training loop that this process runs: its rank, its folders for checkpoints, and the order of its collectives.
import fs from 'node:fs/promises';
import path from 'node:path';
import { ArgumentError } from '../base/errors.js';
import { noticeOnce } from '../base/log.js';
import { type TemporaryFolder, temporaryFolder } from '../base/temporary.js';
import type { Mesh } from '../ir/mesh.js';
import { finishSteps } from '../step/plain.js';
import type { Shards } from './data.js';
import type { Link } from './link.js';
import type { Metrics, WorkerSpec } from './protocol.js';
import { SAVING } from './storage.js';
import type { Watch } from './watch.js';

/** The position of a worker in the run, and what it belongs to. */
export interface TrainContext {
  readonly rank: number;
  readonly worldSize: number;
  /** The rank among the workers of the same machine. */
  readonly localRank: number;
  readonly localWorldSize: number;
  readonly nodeRank: number;
  /** The mesh of all devices if XLA joins the workers, else of this worker's devices. Undefined for a single device. */
  readonly mesh: Mesh | undefined;
  /** The name of the run. */
  readonly trialName: string;
  /** The folder of the run; undefined if it is an address such as gs://... */
  readonly trialDir: string | undefined;
  /** The number of earlier attempts of this run. */
  readonly attempt: number;
}

/** A running training loop. */
export class Loop {
  #folders = 0;
  /** A local folder for checkpoints that are stored on other machines. */
  #temporary: TemporaryFolder | undefined;
  /** Whether the loop averages gradients, where each worker has its own model. */
  isAveraged = false;
  #turn: Promise<unknown> = Promise.resolve();
  constructor(
    readonly context: TrainContext,
    readonly spec: WorkerSpec,
    readonly link: Link,
    readonly shards: Shards,
    readonly watch?: Watch,
  ) {}

  /** `folder` is that of a complete checkpoint. */
  async report(metrics: Metrics, folder: string | undefined): Promise<void> {
    if (this.isApart && !this.isAveraged && !this.context.rank)
      noticeOnce(
        `${this.context.worldSize} workers report, but gradients were never averaged, so each worker trains a separate model: ` +
          'use prepareOptimizer or averageGradients',
      );
    const send = () => this.link.report(metrics, folder ? path.resolve(folder) : null);
    await (this.watch ? this.watch.report(metrics, send, folder !== undefined) : send());
    if (folder && this.#temporary && path.dirname(folder) === this.#temporary.path)
      await fs.rm(folder, { recursive: true, force: true });
  }

  /** Whether each worker has its own copy of the model and the engine averages gradients. */
  get isApart(): boolean {
    return this.spec.reduce === 'engine';
  }
  /** Whether worker 0 saves checkpoints for this one. */
  get isSavedFor(): boolean {
    return this.isApart && this.context.rank > 0;
  }

  /** Runs collectives one at a time, in the order of the calls, which is the same in all workers. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  /** A folder for the next checkpoint, shared by all workers if XLA joins them; undefined if worker 0 saves for this one. */
  async newFolder(): Promise<string | undefined> {
    const { spec } = this;
    if (this.isSavedFor) return undefined;
    const name = `${spec.attempt}-${this.#folders++}`;
    if (spec.storage !== null) return path.join(spec.storage, SAVING, name);
    if (spec.reduce === 'xla')
      throw new ArgumentError(
        'Checkpoint.save: the devices of all workers are one mesh, and each worker writes its part into one folder: set storagePath to a folder that all machines share, not an address',
      );
    this.#temporary ??= await temporaryFolder('saving');
    return path.join(this.#temporary.path, name);
  }

  /** Removes checkpoints that were saved but not reported. */
  async clean(): Promise<void> {
    await this.#temporary?.remove();
    this.#temporary = undefined;
  }
}

let current: Loop | undefined;
/** The running loop. `what` is the calling function, for the error. */
export function currentLoop(what: string): Loop {
  if (current) return current;
  throw new ArgumentError(`${what}: no training loop is running: call it inside trainLoopPerWorker`);
}
/** Whether worker 0 saves checkpoints for this worker. */
export const isSavedFor = (): boolean => current?.isSavedFor ?? false;
/** Runs a loop. A process runs one at a time. */
export async function withLoop(loop: Loop, run: () => unknown): Promise<void> {
  if (current) throw new ArgumentError('fit: a training loop is already running in this process: await it first');
  current = loop;
  try {
    await run();
    await finishSteps(); // errors of steps that the loop did not await fail the run
  } finally {
    current = undefined;
    await loop.clean();
  }
}
