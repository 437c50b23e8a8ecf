// The workers of a recovery run: a single process, or one of several workers under the trainer (trainer.ts).
import type { Mesh } from '../ir/mesh.js';
import type { Share } from '../spmd/index.js';
import { tensor } from '../tensor/create.js';
import { defaultGenerator } from '../tensor/random.js';
import { shareOf } from '../train/data.js';
import { anyWorker, barrier } from '../train/index.js';
import { currentLoop } from '../train/loop.js';

export interface Workers {
  readonly isFirst: boolean;
  readonly rank: number;
  readonly count: number;
  /** Each worker has its own copy of the student and gradients are averaged between programs (CPUs). Else XLA joins the workers. */
  readonly apart: boolean;
  /** The part of every batch that this worker loads. */
  share(mesh: Mesh | undefined): Promise<Share>;
  /** Gives this worker its own random numbers from now on. */
  ownRandom(): void;
  /** Whether `says` is true in any worker. */
  any(says: boolean): Promise<boolean>;
  /** Waits until all workers have called it. */
  meet(): Promise<void>;
}

export const ALONE: Workers = {
  isFirst: true,
  rank: 0,
  count: 1,
  apart: false,
  share: async () => ({ index: 0, count: 1 }),
  ownRandom: () => {},
  any: async (says) => says,
  meet: async () => {},
};

/** The workers of the running training loop. */
export function workersHere(): Workers {
  const { context, spec, isApart: apart } = currentLoop('trainRecoveryLora');
  const { rank, worldSize: count } = context;
  return {
    isFirst: rank === 0,
    rank,
    count,
    apart,
    share: (mesh) => shareOf(spec, context, mesh),
    ownRandom: () => {
      // A different key; the counter stays that of all workers.
      if (apart && rank)
        defaultGenerator.setState(defaultGenerator.state.add(tensor([0, rank, 0, 0], { dtype: 'u32' })));
    },
    any: anyWorker,
    meet: barrier,
  };
}
