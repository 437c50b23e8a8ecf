// What a training loop can ask and do: who it is among the workers, its checkpoint, and reporting.
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe, isPlain, shown } from '../base/tree.js';
import { Tensor } from '../tensor/tensor.js';
import { Checkpoint } from './checkpoint.js';
import type { Shards } from './data.js';
import { currentLoop, type TrainContext } from './loop.js';
import type { Metrics } from './protocol.js';

export const getContext = (): TrainContext => currentLoop('getContext').context;

/** The last checkpoint that was kept before this attempt: where the loop has to go on; undefined at the beginning. */
export function getCheckpoint(): Checkpoint | undefined {
  const { checkpoint } = currentLoop('getCheckpoint').spec;
  return checkpoint === null ? undefined : Checkpoint.fromDirectory(checkpoint);
}

export interface ReportOptions {
  /** A Checkpoint, or the path of a folder that is finished. undefined: none. */
  readonly checkpoint?: Checkpoint | string | undefined;
}
/**
 * Reports numbers; the first worker's are the run's. With a checkpoint it resolves when that is kept: whatever happens then, the
 * run goes on from there. All workers report equally often.
 */
export async function report(metrics: Record<string, number | bigint>, options: ReportOptions = {}): Promise<void> {
  const loop = currentLoop('report');
  checkOptions('report', ['checkpoint'], options); // Ray's own takes the checkpoint itself there
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
      const instead = (n as unknown) instanceof Tensor ? `: read it first: await ${name}.item()` : '';
      throw new ArgumentError(`report: ${name} is ${shown(n)}, and metrics are numbers${instead}`);
    }),
  );
}

/** Waits until all workers are here. */
export const barrier = async (): Promise<void> => {
  const loop = currentLoop('barrier');
  await loop.inTurn(() => loop.link.barrier());
};

/** This worker's part of a dataset that the trainer was given: no item is in two of them, and none is left out. */
export const getDatasetShard: Shards['shard'] = (name, options) =>
  currentLoop('getDatasetShard').shards.shard(name, options);
