// TorchTrainer with XLA SPMD, after Ray Train's example for TPUs: one loop for CPU workers, GPUs and TPU slices, which resumes
// from its last checkpoint. Only the configuration depends on the device (docs/train.md).
//   npx tsx examples/torch-tpu.ts                                            two workers on CPUs
//   CPU_NUM_DEVICES=4 npx tsx examples/torch-tpu.ts --workers 1 --mesh 2x2   one worker, its devices as a mesh
//   npx tsx examples/torch-tpu.ts --tpu --workers 1                          one TPU VM
//   RAY_ADDRESS=http://head:8265 npx tsx examples/torch-tpu.ts --tpu --workers 2 --topology 2x2x2 --type TPU-V4 --out /mnt/shared
import { parseArgs } from 'node:util';
import * as tx from 'tsxla';
import { DataLoader } from 'tsxla/data';
import * as train from 'tsxla/train';

const { values: args } = parseArgs({
  options: {
    tpu: { type: 'boolean', default: false },
    gpu: { type: 'boolean', default: false },
    workers: { type: 'string', default: '2' },
    topology: { type: 'string' }, // of a slice with several hosts: 2x2x2
    type: { type: 'string' }, // of its TPUs: TPU-V4
    mesh: { type: 'string' }, // data x model
    epochs: { type: 'string', default: '8' },
    out: { type: 'string', default: 'out/torch-tpu' },
  },
});
const BATCH = 64; // of all workers together

/** Points on two spirals, with their labels: the same in all workers, without a file. */
const points = Array.from({ length: 1024 }, (_, i) => {
  const [arm, along] = [i % 2, (i >> 1) / 512];
  const angle = Math.PI * (2 * along + arm);
  return {
    x: Float32Array.of((0.2 + along) * Math.cos(angle), (0.2 + along) * Math.sin(angle)),
    y: Int32Array.of(arm),
  };
});

class Network extends tx.nn.Module {
  readonly up = new tx.nn.Linear(2, 64);
  readonly middle = new tx.nn.Linear(64, 64);
  readonly down = new tx.nn.Linear(64, 2);
  override forward(x: tx.Tensor): tx.Tensor {
    return this.down.forward(this.middle.forward(this.up.forward(x).gelu()).gelu());
  }
}
/** The dimension of each parameter that is split along the mesh's 'model' axis: the outputs of up, then the inputs of middle. */
const TABLE = { 'up.weight': 0, 'up.bias': 0, 'middle.weight': 1 };

async function trainLoopPerWorker({ epochs }: { epochs: number }): Promise<void> {
  const { rank, worldSize, mesh } = train.getContext();
  tx.manualSeed(0);
  const model = await train.prepareModel(new Network(), { table: TABLE });
  const optimizer = train.prepareOptimizer(new tx.optim.AdamW(model.parameters(), { lr: 5e-3 }));
  const loader = train.prepareDataLoader(
    new DataLoader(points, { batchSize: BATCH / worldSize, shuffle: true, seed: 1 }),
  );
  if (rank === 0) console.log(`${worldSize} worker(s) on ${tx.device()}, mesh ${mesh?.shape.join(' x ') ?? 'none'}`);

  const gradients = tx.compile(function gradients(x: tx.Tensor, y: tx.Tensor) {
    optimizer.zeroGrad();
    const logits = model.forward(x);
    const loss = tx.nn.functional.crossEntropy(logits, y.squeeze(1));
    loss.backward();
    return tx.stack([loss, logits.argmax(1).eq(y.squeeze(1)).to('f32').mean()]);
  });

  const saved = await train.getCheckpoint()?.load({ model, optimizer, loader }); // after a failure, or if a named run is resumed
  for (let epoch = Number(saved?.epoch ?? 0) + 1; epoch <= epochs; epoch++) {
    const values: tx.Tensor[] = []; // loss and accuracy of each batch
    for await (const { x, y } of loader) {
      values.push(await gradients(...(await train.toDevice(x, y))));
      await optimizer.step(); // with the mean of all workers' gradients
    }
    const [ownLoss, ownAccuracy] = (await tx.stack(values).mean(0).tolist()) as [number, number]; // one read an epoch
    const { loss, accuracy } = await train.averageMetrics({ loss: ownLoss, accuracy: ownAccuracy });
    const checkpoint = await train.Checkpoint.save({ model, optimizer, loader, epoch });
    await train.report({ epoch, loss: loss!, accuracy: accuracy! }, { checkpoint });
  }
}

const [data, model] = args.mesh?.split('x').map(Number) ?? [];
const trainer = new train.TorchTrainer({
  trainLoopPerWorker,
  trainLoopConfig: { epochs: Number(args.epochs) },
  scalingConfig: {
    numWorkers: Number(args.workers),
    useTpu: args.tpu,
    useGpu: args.gpu,
    ...(args.topology && { topology: args.topology }),
    ...(args.type && { acceleratorType: args.type }),
  },
  torchConfig: {
    backend: args.tpu ? 'xla_tpu' : 'xla',
    ...(args.mesh && {
      xlaSpmdConfig: { meshShape: [data!, model!], dataParallelSize: data!, modelParallelSize: model! },
    }),
  },
  runConfig: {
    name: 'spirals',
    storagePath: args.out,
    failureConfig: { maxFailures: 2 },
    checkpointConfig: { numToKeep: 2 },
  },
});
const { history, checkpoint } = await trainer.fit();
for (const { epoch, loss, accuracy } of history)
  console.log(`epoch ${epoch}  loss ${loss!.toFixed(4)}  accuracy ${(100 * accuracy!).toFixed(1)}%`);
console.log(`gradients: ${trainer.scale.reduce}, checkpoint ${checkpoint!.path}`);
