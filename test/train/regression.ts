// A small training run, as a user writes it: regression.ts '{"workers": 2, "steps": 12, ...}'. Its last line is the result.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import * as train from 'tsxla/train';

interface Options {
  readonly workers?: number;
  readonly steps: number;
  readonly storage: string;
  /** Of all workers together. */
  readonly batch?: number;
  /** Steps between checkpoints. */
  readonly every?: number;
  readonly maxFailures?: number;
  /** Each step writes the worker's process id here, for the test that kills it. */
  readonly pids?: string;
  readonly pause?: number;
}
const options: Options = JSON.parse(process.argv[2]!);
const { workers = 1, batch = 8, every = 4, storage } = options;

const rows = Array.from({ length: 64 }, (_, i) => ({
  x: Float32Array.from({ length: 6 }, (_, k) => Math.sin(i * 7 + k * 3)),
  y: Float32Array.of(Math.cos(i)),
}));

async function loop({ steps }: { steps: number }): Promise<void> {
  tx.manualSeed(3);
  const net = new tx.nn.Sequential(new tx.nn.Linear(6, 16), new tx.nn.GELU(), new tx.nn.Linear(16, 1));
  const model = await train.prepareModel(net);
  const optimizer = train.prepareOptimizer(new tx.optim.AdamW(model.parameters(), { lr: 0.02 }));
  const schedule = new tx.optim.CosineLR(optimizer, { totalSteps: steps, warmup: 2 });
  const whole = new tx.data.DataLoader(rows, { batchSize: batch / workers, shuffle: true, seed: 5 });
  const loader = train.prepareDataLoader(whole);
  const gradients = tx.compile(function gradients(x: tx.Tensor, y: tx.Tensor) {
    optimizer.zeroGrad();
    const loss = tx.mseLoss(model.forward(x), y);
    loss.backward();
    return loss;
  });
  const saved = await train.getCheckpoint()?.load({ model, optimizer, schedule, loader });
  let step = Number(saved?.step ?? 0);
  const { rank } = train.getContext();
  if (options.pids) fs.writeFileSync(path.join(options.pids, `rank-${rank}`), String(process.pid));
  while (step < steps) {
    for await (const { x, y } of loader) {
      const loss = await gradients(x, y);
      await optimizer.step();
      schedule.step();
      step++;
      // eslint-disable-next-line tsxla/no-read-in-loop -- every step reports its loss
      const metrics = await train.averageMetrics({ step, loss: Number(await loss.item()) });
      const isDue = step % every === 0;
      const checkpoint = isDue ? await train.Checkpoint.save({ model, optimizer, schedule, loader, step }) : undefined;
      await train.report(metrics, { checkpoint });
      if (options.pause) await new Promise((resolve) => setTimeout(resolve, options.pause));
      if (step === steps) break;
    }
  }
}

const trainer = new train.TorchTrainer({
  trainLoopPerWorker: loop,
  trainLoopConfig: { steps: options.steps },
  scalingConfig: { numWorkers: workers },
  runConfig: {
    name: 'regression',
    storagePath: storage,
    failureConfig: { maxFailures: options.maxFailures ?? 0 },
    checkpointConfig: { numToKeep: 2 },
  },
});
const { history, checkpoint, metrics } = await trainer.fit();
console.log(JSON.stringify({ metrics, losses: history.map((m) => m.loss), checkpoint: checkpoint?.path }));
