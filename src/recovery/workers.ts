// Who else learns: a run is one process, or one of several workers under the trainer (trainer.ts).
import type { Mesh } from '../ir/mesh.js';
import type { Share } from '../spmd/index.js';
import { tensor } from '../tensor/create.js';
import { defaultGenerator } from '../tensor/random.js';
import { shareOf } from '../train/data.js';
import { anyWorker, barrier } from '../train/index.js';
import { currentLoop } from '../train/loop.js';

export interface Workers {
  readonly isFirst: boolean;
  readonly count: number;
  /** Each has a student of its own and a share of every batch; gradients meet between programs (CPUs). Else XLA joins them. */
  readonly apart: boolean;
  /** Which part of every batch this one loads. */
  share(mesh: Mesh | undefined): Promise<Share>;
  /** From here on this one draws its own random numbers. */
  ownRandom(): void;
  /** Whether one of them says so. */
  any(says: boolean): Promise<boolean>;
  /** Waits until all are here. */
  meet(): Promise<void>;
}

export const ALONE: Workers = {
  isFirst: true,
  count: 1,
  apart: false,
  share: async () => ({ index: 0, count: 1 }),
  ownRandom: () => {},
  any: async (says) => says,
  meet: async () => {},
};

/** Those of the training loop that is under way. */
export function workersHere(): Workers {
  const { context, spec, isApart: apart } = currentLoop('trainRecoveryLora');
  const { rank, worldSize: count } = context;
  return {
    isFirst: rank === 0,
    count,
    apart,
    share: (mesh) => shareOf(spec, context, mesh),
    ownRandom: () => {
      // The key is another one, the counter that of all.
      if (apart && rank)
        defaultGenerator.setState(defaultGenerator.state.add(tensor([0, rank, 0, 0], { dtype: 'u32' })));
    },
    any: anyWorker,
    meet: barrier,
  };
}
