// The output folder of recovery training (--output): checkpoints, the last and the best adapters, metrics.
import fs from 'node:fs/promises';
import path from 'node:path';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { holderOf, type Lock, waitForLock } from '../base/lock.js';
import { openOutput } from '../io/file.js';
import { CheckpointManager } from '../io/index.js';
import { EVENTS } from '../observe/run-log.js';
import { Curves } from './curves.js';
import { MetricsFile } from './metrics.js';
import { defaultOf, fixed, flagOf, placed, type Settings } from './options.js';
import type { Workers } from './workers.js';

/** The files and folders of a run in its output folder. */
export const pathsIn = ({ output }: Pick<Settings, 'output'>) => ({
  checkpoints: path.join(output, 'checkpoints'),
  adapters: path.join(output, 'adapters'),
  best: path.join(output, 'best'),
  metrics: path.join(output, 'metrics.jsonl'),
  events: path.join(output, EVENTS),
});
/** The folder of the student that --quantize makes before the run. */
export const studentIn = ({ output }: Pick<Settings, 'output'>): string => path.join(output, 'student');

/** A file that exists once --overwrite has removed the earlier run: restarted workers then resume instead of overwriting. */
export const clearedIn = ({ output }: Pick<Settings, 'output'>): string => path.join(output, '.cleared');

/** The output folder of a run. One run at a time writes to it; of workers with equal students, only the first. */
export class OutputFolder {
  readonly checkpoints: CheckpointManager;
  readonly metrics: MetricsFile;
  readonly paths: ReturnType<typeof pathsIn>;
  readonly #lock: Lock | undefined;

  private constructor(
    s: Settings,
    readonly writes: boolean,
    lock?: Lock,
  ) {
    this.#lock = lock;
    this.paths = pathsIn(s);
    this.checkpoints = new CheckpointManager(this.paths.checkpoints, {
      keep: s.keepCheckpoints,
      every: s.saveSteps,
      best: { metric: s.evalData ? 'evalLoss' : 'loss' },
      readOnly: !writes,
    });
    this.metrics = new MetricsFile(this.paths.metrics, lock, new Curves(s)); // only worker 0 has the lock: the metrics of all are equal
  }
  /** Locks the folder. Throws if it has another run and --overwrite is not given, or if a resumed run has other settings. */
  static async open(s: Settings, { isFirst, apart }: Workers): Promise<OutputFolder> {
    if (!isFirst) return new OutputFolder(s, !apart); // where XLA joins workers, each writes its part of checkpoints
    const lock = await lockOf(s);
    try {
      const folder = new OutputFolder(s, true, lock);
      if (s.overwrite) await fs.rm(clearedIn(s), { force: true });
      else await checkSame(folder.checkpoints, s);
      return folder;
    } catch (e) {
      await lock.release();
      throw e;
    }
  }
  /** To be called before each write: throws if another run has taken over the folder. */
  check(): void {
    this.#lock?.check();
  }
  /** Removes the files of an earlier run. */
  async clear(s: Settings): Promise<void> {
    if (!this.#lock) return;
    this.check();
    for (const left of Object.values(this.paths)) await fs.rm(left, { recursive: true, force: true });
    await fs.mkdir(this.paths.checkpoints);
    await fs.writeFile(clearedIn(s), '');
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.checkpoints[Symbol.asyncDispose](); // waits until checkpoints are on the disk
    await this.metrics.curves[Symbol.asyncDispose]();
    await this.#lock?.release();
  }
}

async function lockOf({ output }: Settings): Promise<Lock> {
  await openOutput(output);
  const run = path.join(output, 'run');
  const lock = await waitForLock(run);
  if (lock) return lock;
  throw new ArgumentError(
    `another run is writing to ${output} (${holderOf(run)}): wait until it is done, or use another --output`,
  );
}

async function checkSame(checkpoints: CheckpointManager, s: Settings): Promise<void> {
  const { latest } = checkpoints;
  if (!latest) return;
  if (!s.resume)
    throw new ArgumentError(
      `${s.output} already has a run, at step ${latest.step}: pass --resume to continue it, --overwrite to replace it, or another --output`,
    );
  const { path: at, values } = (await checkpoints.load({}, { rng: false }))!;
  const saved = values.settings as Readonly<Record<string, unknown>> | undefined;
  if (!saved)
    throw new CheckpointError(
      `${at} is not a checkpoint of recovery training: it has no settings: use another --output`,
    );
  const [was, now] = [placed(saved), placed(fixed(s))]; // absolute paths: a folder has many names
  const before = (name: string) => (name in was ? was[name] : defaultOf(name)); // older runs lack newer flags
  const [first, ...more] = [...new Set([...Object.keys(was), ...Object.keys(now)])].filter(
    (name) => JSON.stringify(before(name)) !== JSON.stringify(now[name]),
  );
  if (!first) return;
  const shown = (x: unknown) => JSON.stringify(x) ?? 'not given';
  throw new CheckpointError(
    `${at} is a checkpoint of a run with other options: its ${flagOf(first)} was ${shown(before(first))}, here it is ${shown(now[first])}${more.length ? ` (${more.map(flagOf).join(', ')} ${more.length === 1 ? 'differs' : 'differ'}, too)` : ''}: use the same options, or another --output`,
  );
}
