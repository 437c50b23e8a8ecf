// The first worker leaves, and the other waits for it.
import { barrier, getContext, TorchTrainer } from 'tsxla/train';

await new TorchTrainer({
  trainLoopPerWorker: async () => {
    if (getContext().rank) await barrier();
  },
  scalingConfig: { numWorkers: 2 },
  runConfig: { name: 'early', storagePath: process.env.STORAGE, failureConfig: { maxFailures: -1 } },
})
  .fit()
  .catch((e) => {
    console.log(e.message);
    process.exit(1);
  });
