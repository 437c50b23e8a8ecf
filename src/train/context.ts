// The functions for training loops: the worker's rank, its checkpoint and dataset shards, and `report`.
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe, isPlain, shown } from '../base/tree.js';
import type { RunLog } from '../observe/run-log.js';
import { Tensor } from '../tensor/tensor.js';
import { Checkpoint } from './checkpoint.js';
import type { Shards } from './data.js';
import { currentLoop, type TrainContext } from './loop.js';
import type { Metrics } from './protocol.js';

export const getContext = (): TrainContext => currentLoop('getContext').context;

/** The last checkpoint kept before this attempt, from which the loop must resume; undefined in a new run. */
export function getCheckpoint(): Checkpoint | undefined {
  const { checkpoint } = currentLoop('getCheckpoint').spec;
  return checkpoint === null ? undefined : Checkpoint.fromDirectory(checkpoint);
}

export interface ReportOptions {
  /** A Checkpoint, or the path of a complete folder. Default: none. */
  readonly checkpoint?: Checkpoint | string | undefined;
}
/**
 * Reports metrics; those of worker 0 become the metrics of the run. With a checkpoint, resolves once it is stored: after any
 * later failure the run resumes from it. All workers must report equally often.
 */
export async function report(metrics: Record<string, number | bigint>, options: ReportOptions = {}): Promise<void> {
  const loop = currentLoop('report');
  checkOptions('report', ['checkpoint'], options); // Ray's `report` takes the checkpoint itself here
  const { checkpoint } = options;
  if (checkpoint !== undefined && typeof checkpoint !== 'string' && !(checkpoint instanceof Checkpoint))
    throw new ArgumentError(
      `report: checkpoint is ${describe(checkpoint)}: give a Checkpoint, or the path of a folder`,
    );
  const numbers = checkMetrics(metrics);
  const kept = typeof checkpoint === 'string' ? Checkpoint.fromDirectory(checkpoint) : checkpoint;
  await loop.report(numbers, kept?.path);
}

function checkMetrics(metrics: Record<string, number | bigint>): Metrics {
  if (!isPlain(metrics))
    throw new ArgumentError(`report: the metrics are ${describe(metrics)}: give numbers by name, as in { loss: 0.5 }`);
  return Object.fromEntries(
    Object.entries(metrics).map(([name, n]) => {
      if (typeof n === 'number' || typeof n === 'bigint') return [name, Number(n)];
      const instead = (n as unknown) instanceof Tensor ? `. Read it first: await ${name}.item()` : '';
      throw new ArgumentError(`report: ${name} is ${shown(n)}: metrics must be numbers${instead}`);
    }),
  );
}

/** The log of the run, for samples, tables and marks that `tsxla board` shows. Only in worker 0; undefined in others. */
export const getRunLog = (): RunLog | undefined => currentLoop('getRunLog').watch?.log;

/** Waits until all workers have called it. */
export const barrier = async (): Promise<void> => {
  const loop = currentLoop('barrier');
  await loop.inTurn(() => loop.link.barrier());
};

/** This worker's shard of one of the trainer's datasets. Shards are disjoint; together they are the whole dataset. */
export const getDatasetShard: Shards['shard'] = (name, options) =>
  currentLoop('getDatasetShard').shards.shard(name, options);
