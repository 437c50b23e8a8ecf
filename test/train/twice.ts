// Two runs of one script, the second of which needs what the first came to: twice.ts STORAGE.
import * as train from 'tsxla/train';

const storagePath = process.argv[2]!;
const run = (name: string, trainLoopPerWorker: () => unknown) =>
  new train.TorchTrainer({
    trainLoopPerWorker,
    scalingConfig: { numWorkers: 2 },
    runConfig: { name, storagePath },
  }).fit();

const first = await run('first', async () => {
  await train.report({ lr: 0.5, loss: Number.NaN }, { checkpoint: await train.Checkpoint.save({ answer: 42 }) });
});
const failed = await run('failed', () => {
  throw new RangeError('as it should');
}).catch((e: train.TrainingFailedError) => e);
const second = await run('second', async () => {
  const { answer } = await first.checkpoint!.load();
  const { lr, loss } = first.metrics!;
  await train.report({ answer: Number(answer), lr: lr!, isNaN: Number(Number.isNaN(loss)) });
});
console.log(JSON.stringify({ metrics: second.metrics, failed: failed instanceof Error ? failed.message : '' }));
