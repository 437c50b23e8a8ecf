// The folder of a run: checkpoints, the last and the best adapters, metrics.
import fs from 'node:fs/promises';
import path from 'node:path';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { CheckpointManager } from '../io/index.js';
import { MetricsFile } from './metrics.js';
import { fixed, flagOf, type Settings } from './options.js';

export class RunFolder {
  readonly checkpoints: CheckpointManager;
  readonly metrics: MetricsFile;
  /** The last adapters. */
  readonly adapters: string;
  readonly best: string;
  /** Which the adapters are for, where it was quantized on the way. */
  readonly student: string;

  private constructor(s: Settings) {
    this.checkpoints = new CheckpointManager(path.join(s.output, 'checkpoints'), {
      keep: s.keepCheckpoints,
      every: s.saveSteps,
      best: { metric: s.evalData ? 'evalLoss' : 'loss' },
    });
    this.metrics = new MetricsFile(path.join(s.output, 'metrics.jsonl'));
    this.adapters = path.join(s.output, 'adapters');
    this.best = path.join(s.output, 'best');
    this.student = studentIn(s);
  }
  /** A new run does not write over another, and one that goes on must be the same. */
  static async open(s: Settings): Promise<RunFolder> {
    const folder = new RunFolder(s);
    const { latest } = folder.checkpoints;
    if (s.overwrite) return folder;
    if (latest && !s.resume)
      throw new ArgumentError(
        `${s.output} has a run already, at step ${latest.step}: pass --resume to go on with it, --overwrite to begin anew, or another --output`,
      );
    if (latest) await checkSame(folder.checkpoints, s);
    return folder;
  }
  /** Removes what a run before has left. */
  async clear(): Promise<void> {
    const { dir } = this.checkpoints;
    for (const old of [dir, this.adapters, this.best]) await fs.rm(old, { recursive: true, force: true });
    await fs.mkdir(dir);
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.checkpoints[Symbol.asyncDispose]();
  }
}
export const studentIn = ({ output }: Pick<Settings, 'output'>): string => path.join(output, 'student');

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
