// A training run that can be killed at any moment: node checkpoint-case.ts DIR STEPS EVERY. Its last line is a hash of all
// it learned; before, a line a step. Dropout, batch norm, momentum, a schedule and a shuffle all have a state.
import { createHash } from 'node:crypto';
import * as tx from 'tsxla';

const [dir, steps, every] = [process.argv[2]!, Number(process.argv[3]), Number(process.argv[4])];
tx.manualSeed(7);
const { nn } = tx;
const model = new nn.Sequential(
  new nn.Linear(6, 16),
  new nn.BatchNorm1d(16),
  new nn.GELU(),
  new nn.Dropout(0.3),
  new nn.Linear(16, 1),
);
const optimizer = new tx.optim.AdamW(model.parameters(), { lr: 0.01 });
const schedule = new tx.optim.CosineLR(optimizer, { totalSteps: steps, warmup: 4 });
const items = Array.from({ length: 50 }, (_, i) => ({
  x: Float32Array.from({ length: 6 }, (_, k) => Math.sin(i * 7 + k * 3)),
  y: Float32Array.of(Math.cos(i)),
}));
const loader = new tx.data.DataLoader(items, { batchSize: 8, shuffle: true, seed: 3 });
const train = tx.compile((x: tx.Tensor, y: tx.Tensor) => {
  optimizer.zeroGrad();
  const loss = nn.functional.mseLoss(model.forward(x), y);
  loss.backward();
  optimizer.step();
  return loss;
});

const manager = new tx.io.CheckpointManager(dir, { every, keep: 2 });
const state = { model, optimizer, schedule, loader };
let step = (await manager.load(state))?.step ?? 0;
console.log(`from ${step}`);
outer: while (step < steps) {
  for await (const { x, y } of loader) {
    const loss = await train(x as tx.Tensor, y as tx.Tensor);
    schedule.step();
    step++;
    // eslint-disable-next-line tsxla/no-read-in-loop -- the parent process reads every loss
    console.log(`${step} ${await loss.item()}`);
    if ((await manager.tick(step, state)) || step === steps) break outer;
  }
}
await manager.done();
const hash = createHash('sha256');
for (const [name, t] of model.stateDict()) hash.update(name).update(new Uint8Array((await t.data()).buffer));
console.log(`hash ${hash.digest('hex')}`);
