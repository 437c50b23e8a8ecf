// The first worker leaves, or is elsewhere when the other waits for it.
import { averageMetrics, barrier, getContext, TorchTrainer } from 'tsxla/train';

const loops = {
  leaves: [async () => {}, barrier],
  sums: [() => averageMetrics({ loss: 1 }), () => averageMetrics({ loss: 1, tokens: 2 })],
  meets: [barrier, () => averageMetrics({ loss: 1 })],
};
await new TorchTrainer({
  trainLoopPerWorker: () => loops[process.argv[2]][getContext().rank](),
  scalingConfig: { numWorkers: 2 },
  runConfig: { name: 'early', storagePath: process.env.STORAGE, failureConfig: { maxFailures: -1 } },
})
  .fit()
  .catch((e) => {
    console.log(e.message);
    process.exit(1);
  });
