// A training run on a mesh: node checkpoint-case.ts DIR MESH STEPS, where MESH is 2x4, 4 or 1 (one device, no mesh). It resumes
// from the newest checkpoint of DIR, and saves its last step. It prints a hash of all it began with, and the loss of each step.
process.env.CPU_NUM_DEVICES = String(process.argv[3]!.split('x').reduce((n, k) => n * Number(k), 1));

import { createHash } from 'node:crypto';
import type * as TX from 'tsxla';

const tx = await import('tsxla');
const xm = await import('tsxla/xm');
const [dir, shape, steps] = [process.argv[2]!, process.argv[3]!, Number(process.argv[4])];
const { nn } = tx;

tx.manualSeed(7);
class Net extends nn.Module {
  first = new nn.Linear(8, 16);
  layers = new nn.LayerStack([0, 1, 2].map(() => new nn.Linear(16, 16)));
  drop = new nn.Dropout(0.2);
  last = new nn.Linear(16, 8);
  override forward(x: TX.Tensor): TX.Tensor {
    return this.last.forward(this.drop.forward(this.layers.forward(this.first.forward(x).gelu())));
  }
}
const model = new Net();
const optimizer = new tx.optim.AdamW(model.parameters(), { lr: 0.01 });

/** By mesh and parameter; others are whole on every device. */
const SPECS: Record<string, Record<string, TX.spmd.PartitionSpec>> = {
  '2x4': {
    'first.weight': ['fsdp', 'model'],
    'layers.*.weight': [null, 'model', 'fsdp'],
    'layers.*.bias': [null, 'fsdp'],
    'last.weight': [['fsdp', 'model']],
  },
  '4': { 'first.weight': [null, 'fsdp'], 'layers.*.weight': [null, 'fsdp'], 'last.bias': ['fsdp'] },
};
if (shape in SPECS) {
  const sizes = shape.split('x').map(Number);
  const mesh = new tx.spmd.Mesh(sizes, ['fsdp', 'model'].slice(0, sizes.length));
  for (const [name, p] of model.namedParameters()) tx.spmd.markSharding(p, mesh, SPECS[shape]![name] ?? []);
}

const train = tx.compile((x: TX.Tensor) => {
  const loss = model.forward(x).sub(x).pow(2).mean();
  loss.backward();
  optimizer.step();
  optimizer.zeroGrad();
  return loss;
});
const hashOf = async () => {
  const hash = createHash('sha256');
  const put = async (t: TX.Tensor) => hash.update(new Uint8Array((await t.data()).buffer));
  const moments = Object.values(optimizer.stateDict().state).flatMap((state) => Object.values(state));
  const all = [...model.parameters(), ...moments, xm.getRngState()];
  await tx.sync(...all);
  for (const t of all) await put(t);
  return hash.digest('hex');
};

const manager = new tx.io.CheckpointManager(dir);
let step = (await manager.load({ model, optimizer }))?.step ?? 0;
console.log(`from ${step}${step ? ` hash ${await hashOf()}` : ''}`);
const end = step + steps;
while (step < end) {
  step++;
  const x = tx.tensor(Float32Array.from({ length: 32 }, (_, i) => Math.sin(i * 0.1 + step))).reshape([4, 8]);
  // eslint-disable-next-line tsxla/no-read-in-loop -- the parent process reads every loss
  console.log(`loss ${await (await train(x)).item()}`);
}
if (steps) await manager.save(step, { model, optimizer });
console.log(`ends with hash ${await hashOf()}`);
await manager.done();
