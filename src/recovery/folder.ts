// The folder of a run: checkpoints, the last and the best adapters, metrics.
import fs from 'node:fs/promises';
import path from 'node:path';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { type Lock, waitForLock } from '../base/lock.js';
import { messageOf } from '../base/thrown.js';
import { CheckpointManager } from '../io/index.js';
import { MetricsFile } from './metrics.js';
import { fixed, flagOf, type Settings } from './options.js';

export class RunFolder {
  readonly checkpoints: CheckpointManager;
  readonly metrics: MetricsFile;
  /** The last adapters. */
  readonly adapters: string;
  readonly best: string;

  readonly #lock: Lock;

  private constructor(s: Settings, lock: Lock) {
    this.#lock = lock;
    this.checkpoints = new CheckpointManager(path.join(s.output, 'checkpoints'), {
      keep: s.keepCheckpoints,
      every: s.saveSteps,
      best: { metric: s.evalData ? 'evalLoss' : 'loss' },
    });
    this.metrics = new MetricsFile(path.join(s.output, 'metrics.jsonl'));
    this.adapters = path.join(s.output, 'adapters');
    this.best = path.join(s.output, 'best');
  }
  /** A new run does not write over another, and one that goes on must be the same. */
  static async open(s: Settings): Promise<RunFolder> {
    const lock = await lockOf(s);
    try {
      const folder = new RunFolder(s, lock);
      await folder.#check(s);
      return folder;
    } catch (e) {
      await lock.release();
      throw e;
    }
  }
  async #check(s: Settings): Promise<void> {
    if (s.overwrite) return;
    const { latest } = this.checkpoints;
    if (latest && !s.resume)
      throw new ArgumentError(
        `${s.output} has a run already, at step ${latest.step}: pass --resume to go on with it, --overwrite to begin anew, or another --output`,
      );
    if (latest) await checkSame(this.checkpoints, s);
  }
  /** Removes what a run left. */
  async clear(): Promise<void> {
    const { adapters, best, metrics, checkpoints } = this;
    for (const left of [adapters, best, metrics.path, checkpoints.dir])
      await fs.rm(left, { recursive: true, force: true });
    await fs.mkdir(checkpoints.dir);
  }
  async [Symbol.asyncDispose](): Promise<void> {
    this.checkpoints.close();
    await this.#lock.release();
  }
}

/** One run at a time writes to a folder. */
async function lockOf({ output }: Settings): Promise<Lock> {
  const cannot = (e: unknown): never => {
    throw new ArgumentError(`--output ${output} cannot be written: ${messageOf(e)}`);
  };
  await fs.mkdir(output, { recursive: true }).catch(cannot);
  const lock = await waitForLock(path.join(output, 'run')).catch(cannot);
  if (lock) return lock;
  throw new ArgumentError(`another run is writing to ${output}: wait until it is done, or use another --output`);
}

async function checkSame(checkpoints: CheckpointManager, s: Settings): Promise<void> {
  const { path: at, values } = (await checkpoints.load({}, { rng: false }))!;
  const was = values.settings as Readonly<Record<string, unknown>> | undefined;
  if (!was) throw new CheckpointError(`${at} is of another run: it has no settings: use another --output`);
  const now = fixed(s);
  const [first, ...more] = [...new Set([...Object.keys(was), ...Object.keys(now)])].filter(
    (name) => JSON.stringify(was[name]) !== JSON.stringify(now[name]),
  );
  if (!first) return;
  const shown = (x: unknown) => JSON.stringify(x) ?? 'not given';
  throw new CheckpointError(
    `${at} is of another run: its ${flagOf(first)} was ${shown(was[first])}, here it is ${shown(now[first])}${more.length ? ` (and ${more.length} more differ)` : ''}: use the same, or another --output`,
  );
}
