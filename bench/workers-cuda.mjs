// Two workers that XLA joins against one: the losses of a small model, split in three ways, a worker killed in each. Both are on GPU 0;
// by NCCL_HOSTID they are on two machines for NCCL, which sums over the network then. It ends with 1 if losses differ by more than 1e-4.
//   node bench/workers-cuda.mjs            after npm run build; PJRT_DEVICE=CPU tries it anywhere: data alone, with the engine's sums
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const onCpu = process.env.PJRT_DEVICE === 'CPU';
const rank = process.env.RANK;
if (rank !== undefined) process.env.NCCL_HOSTID = `machine ${rank}`;
process.env.CUDA_VISIBLE_DEVICES = rank === undefined ? '0,1' : '0'; // the trainer counts them
const tx = await import('../dist/index.js');
const { DataLoader } = await import('../dist/data/index.js');
const { train, nn, optim } = tx;

const EPOCHS = 6;
const rows = Array.from({ length: 64 }, (_, i) => ({
  x: Float32Array.from({ length: 16 }, (_, j) => Math.sin(i * 3.1 + j * 1.7)),
  y: Float32Array.of(Math.cos(i)),
}));
const table = { '0.weight': 0, '0.bias': 0, '2.weight': 1 };

async function loop({ kill }) {
  const { rank, mesh, attempt } = train.getContext();
  tx.manualSeed(7);
  const layers = new nn.Sequential(new nn.Linear(16, 64), new nn.GELU(), new nn.Linear(64, 1));
  const model = await train.prepareModel(layers, mesh?.axisNames.includes('model') ? { table } : {});
  const optimizer = train.prepareOptimizer(new optim.AdamW(model.parameters(), { lr: 1e-2 }));
  // Of all workers 8: those that split the model alone load the same.
  const { count } = mesh ? await tx.spmd.batchShare(mesh) : { count: train.getContext().worldSize };
  const loader = train.prepareDataLoader(new DataLoader(rows, { batchSize: 8 / count, shuffle: true }));
  const gradients = tx.compile(function gradients(x, y) {
    optimizer.zeroGrad();
    const loss = tx.mseLoss(model.forward(x), y);
    loss.backward();
    return loss;
  });
  const saved = await train.getCheckpoint()?.load({ model, optimizer, loader });
  for (let epoch = 1 + Number(saved?.epoch ?? 0); epoch <= EPOCHS; epoch++) {
    let sum = 0;
    for await (const { x, y } of loader) {
      const loss = await gradients(x, y);
      await optimizer.step();
      sum += (await train.averageMetrics({ loss: await loss.item() })).loss;
      if (kill && epoch === 4 && rank === 1 && !attempt) process.kill(process.pid, 'SIGKILL');
    }
    const checkpoint = await train.Checkpoint.save({ model, optimizer, loader, epoch });
    await train.report({ loss: sum }, { checkpoint });
  }
}

const storagePath = path.join(os.tmpdir(), 'tsxla-workers-cuda');
async function losses(name, numWorkers, xlaSpmdConfig) {
  const { history } = await new train.TorchTrainer({
    trainLoopPerWorker: loop,
    trainLoopConfig: { kill: numWorkers > 1 },
    scalingConfig: { numWorkers, useGpu: !onCpu },
    ...(xlaSpmdConfig && { torchConfig: { xlaSpmdConfig } }),
    runConfig: { name, storagePath, failureConfig: { maxFailures: 1 } },
  }).fit();
  return history.map((m) => m.loss);
}

if (rank === undefined) fs.rmSync(storagePath, { recursive: true, force: true });
const ways = { data: { dataParallelSize: 2 }, fsdp: { fsdpSize: 2 }, model: { modelParallelSize: 2 } };
const found = {};
for (const [way, sizes] of Object.entries(onCpu ? { data: undefined } : ways)) found[way] = await losses(way, 2, sizes);
const one = await losses('one', 1);
console.log(`one worker: ${one.map((x) => x.toFixed(5)).join(' ')}`);
for (const [way, two] of Object.entries(found)) {
  const furthest = Math.max(...one.map((x, i) => Math.abs(x - two[i])));
  console.log(`two, ${way}: at most ${furthest.toExponential(1)} from it`);
  if (!(furthest < 1e-4)) process.exitCode = 1;
}
fs.rmSync(storagePath, { recursive: true, force: true });
