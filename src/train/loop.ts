// The training loop that this process runs: who it is among the workers, its folders, and its turn among them.
import fs from 'node:fs/promises';
import path from 'node:path';
import { ArgumentError } from '../base/errors.js';
import { noticeOnce } from '../base/log.js';
import { type TemporaryFolder, temporaryFolder } from '../base/temporary.js';
import type { Mesh } from '../ir/mesh.js';
import type { Shards } from './data.js';
import type { Link } from './link.js';
import type { Metrics, WorkerSpec } from './protocol.js';
import { SAVING } from './storage.js';

/** Who a worker is. */
export interface TrainContext {
  readonly rank: number;
  readonly worldSize: number;
  /** Among the workers of its machine. */
  readonly localRank: number;
  readonly localWorldSize: number;
  readonly nodeRank: number;
  /** All devices, where XLA joins the workers; else this worker's. Undefined where there is one device. */
  readonly mesh: Mesh | undefined;
  /** The run's name and folder; undefined where that is an address, as gs://... is. */
  readonly trialName: string;
  readonly trialDir: string | undefined;
  /** How often the run was begun before. */
  readonly attempt: number;
}

/** A loop that is under way in this process. */
export class Loop {
  #folders = 0;
  /** A folder of this machine for checkpoints that are kept elsewhere. */
  #temporary: TemporaryFolder | undefined;
  /** Whether gradients are averaged, where each worker has its own. */
  isAveraged = false;
  #turn: Promise<unknown> = Promise.resolve();
  constructor(
    readonly context: TrainContext,
    readonly spec: WorkerSpec,
    readonly link: Link,
    readonly shards: Shards,
  ) {}

  /** `folder`: of a checkpoint that is finished. */
  async report(metrics: Metrics, folder: string | undefined): Promise<void> {
    if (this.isApart && !this.isAveraged && !this.context.rank)
      noticeOnce(
        `${this.context.worldSize} workers report, and gradients were never averaged: each trains a model of its own: ` +
          'use prepareOptimizer, or averageGradients',
      );
    await this.link.report(metrics, folder ? path.resolve(folder) : null);
    if (folder && this.#temporary && path.dirname(folder) === this.#temporary.path)
      await fs.rm(folder, { recursive: true, force: true });
  }

  /** Whether each worker has a model of its own, and the engine joins them. */
  get isApart(): boolean {
    return this.spec.reduce === 'engine';
  }
  /** Whether the first worker saves for this one. */
  get isSavedFor(): boolean {
    return this.isApart && this.context.rank > 0;
  }

  /** What workers do together, one after the other: the order in which a loop asks is the same in all of them. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  /** For a checkpoint of this worker; of all together, where XLA's devices are one mesh; none where the first worker's will do. */
  async newFolder(): Promise<string | undefined> {
    const { spec } = this;
    if (this.isSavedFor) return undefined;
    const name = `${spec.attempt}-${this.#folders++}`;
    if (spec.storage !== null) return path.join(spec.storage, SAVING, name);
    if (spec.reduce === 'xla')
      throw new ArgumentError(
        'Checkpoint.save: the devices of all workers are one mesh, and each writes its part into one folder: choose a storagePath that is a folder of all machines, not an address',
      );
    this.#temporary ??= await temporaryFolder('saving');
    return path.join(this.#temporary.path, name);
  }

  /** What was saved and not reported is of no use when the loop is over. */
  async clean(): Promise<void> {
    await this.#temporary?.remove();
    this.#temporary = undefined;
  }
}

let current: Loop | undefined;
/** The loop that is under way; `what` asks. */
export function currentLoop(what: string): Loop {
  if (current) return current;
  throw new ArgumentError(`${what}: there is no training loop: call it inside trainLoopPerWorker, while fit() runs it`);
}
/** Whether this is a worker for which the first one saves. */
export const isSavedFor = (): boolean => current?.isSavedFor ?? false;
/** Runs a loop: one at a time in a process. */
export async function withLoop(loop: Loop, run: () => unknown): Promise<void> {
  if (current) throw new ArgumentError('fit: a loop is under way in this process already: await it first');
  current = loop;
  try {
    await run();
  } finally {
    current = undefined;
    await loop.clean();
  }
}
