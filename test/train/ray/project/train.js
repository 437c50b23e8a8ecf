// A model that is trained on 16 rows a step, however many workers share them. ARGS: steps, a name, milliseconds a step, and how
// often the run may fail. It prints its result as the last line. A worker that is told to end saves in SAVES, if that is given.
import * as tx from 'tsxla';
import { Checkpoint, getCheckpoint, getContext, prepareOptimizer, report, TorchTrainer } from 'tsxla/train';

const [steps = '9', name = 'run', ms = '0', maxFailures = '0'] = process.argv.slice(2);
const rows = Array.from({ length: 64 }, (_, i) => [Math.sin(i), Math.cos(i), 2 * Math.sin(i) - Math.cos(i * 3)]);

async function loop() {
  const { rank, worldSize } = getContext();
  tx.manualSeed(7);
  const model = new tx.nn.Sequential(new tx.nn.Linear(2, 8), new tx.nn.Tanh(), new tx.nn.Linear(8, 1));
  const optimizer = prepareOptimizer(new tx.optim.AdamW(model.parameters(), { lr: 0.02 }));
  const saves = process.env.SAVES && new tx.io.CheckpointManager(`${process.env.SAVES}/${rank}`, { every: 1e9 });
  const { step: done = 0 } = (await getCheckpoint()?.load({ model, optimizer })) ?? {};
  for (let step = Number(done) + 1; step <= Number(steps); step++) {
    const batch = rows.slice((step % 4) * 16, (step % 4) * 16 + 16).filter((_, i) => i % worldSize === rank);
    const x = tx.tensor(batch.map((row) => row.slice(0, 2)));
    const y = tx.tensor(batch.map((row) => row.slice(2)));
    optimizer.zeroGrad();
    const loss = tx.mseLoss(model.forward(x), y);
    loss.backward();
    const mean = await tx.train.averageMetrics({ loss: Number(await loss.item()) });
    await optimizer.step();
    await new Promise((resolve) => setTimeout(resolve, Number(ms)));
    const began = performance.now();
    const checkpoint = step % 3 === 0 ? await Checkpoint.save({ model, optimizer, step }) : undefined;
    await report({ step, ...mean }, { checkpoint });
    if (!checkpoint && step > 1)
      console.log(`step ${step}: reporting took ${(performance.now() - began).toFixed(3)} ms`);
    if (saves && (await saves.tick(step, { model, optimizer, step }))) break;
    if (step === Number(done) + 1) console.log(`first step at ${Date.now()}`);
  }
}

const began = Date.now();
const trainer = new TorchTrainer({
  trainLoopPerWorker: loop,
  scalingConfig: { numWorkers: 2, placementStrategy: 'SPREAD' },
  runConfig: { name, storagePath: process.env.STORAGE, failureConfig: { maxFailures: Number(maxFailures) } },
  ray: { env: { STORAGE: process.env.STORAGE ?? '', SAVES: process.env.SAVES ?? '' } },
});
const { history, path, checkpoint } = await trainer.fit();
console.log(JSON.stringify({ began, history, path, checkpoint: checkpoint?.path }));
