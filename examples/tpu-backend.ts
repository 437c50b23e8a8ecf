// TorchBridge's TPU backend from end to end: the device; a model that is trained, optimized, compiled, saved and loaded; memory
// pools and errors. The same program runs on TPUs, GPUs and CPUs (docs/backend.md describes each class).
//   npx tsx examples/tpu-backend.ts [--out FOLDER]
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { compile, manualSeed, nn, optim, randn, sync, type Tensor } from 'tsxla';
import {
  createXlaIntegration,
  KernelPyTorchConfig,
  TPUBackend,
  TPUMemoryManager,
  TPUMemoryPoolError,
  TPUOptimizer,
  XLACompiler,
} from 'tsxla/backend';

const { values: args } = parseArgs({ options: { out: { type: 'string', default: 'out/tpu-backend' } } });
mkdirSync(args.out, { recursive: true });
manualSeed(0);
const section = (title: string) => console.log(`\n${title}`);

section('Device');
const config = new KernelPyTorchConfig({ mode: 'training' });
config.hardware.tpu.gradientCheckpointing = false; // three small layers: nothing to save
const backend = new TPUBackend(config);
const { deviceName } = await backend.getDeviceInfo();
console.log(`  ${backend.device} (${deviceName}), world size ${backend.worldSize}, rank ${backend.rank}`);
const [deviceManager, distributed] = createXlaIntegration(config.hardware.tpu);
console.log(`  devices ${deviceManager.devices}, distributed: ${distributed.isDistributed}`);

section('Training, products in bf16 and weights in f32');
// Which of ten random directions is nearest to a point: 4,096 points to learn from, 512 to test.
const [FEATURES, CLASSES, BATCH] = [64, 10, 256];
const directions = randn([FEATURES, CLASSES]);
const inputs = randn([4096 + 512, FEATURES]);
const labels = inputs.matmul(directions).argmax(1);
await sync(inputs, labels);

const newModel = () =>
  new nn.Sequential(
    new nn.Linear(FEATURES, 256),
    new nn.GELU(),
    new nn.Linear(256, 256),
    new nn.GELU(),
    new nn.Linear(256, CLASSES),
  );
const model = backend.prepareModel(newModel());
const optimizer = new optim.Adam(model.parameters(), { lr: 2e-3 });
const step = compile(function step(x: Tensor, y: Tensor) {
  optimizer.zeroGrad();
  const loss = nn.functional.crossEntropy(model.forward(x), y);
  loss.backward();
  optimizer.step();
  return loss;
});
for (let epoch = 1; epoch <= 5; epoch++) {
  let loss: Tensor | undefined;
  for (let from = 0; from < 4096; from += BATCH)
    loss = await step(...backend.prepareData([inputs.narrow(0, from, BATCH), labels.narrow(0, from, BATCH)] as const));
  console.log(`  epoch ${epoch}  loss ${(await loss!.item()).toFixed(3)}`);
}
await backend.synchronize();
const test = inputs.narrow(0, 4096, 512);
const accuracy = async (logits: Tensor) =>
  100 *
  (await logits
    .argmax(1)
    .eq(labels.narrow(0, 4096, 512))
    .to('f32')
    .mean()
    .item());
const trained = await accuracy(model.forward(test));
console.log(`  accuracy on points held back: ${trained.toFixed(1)}%`);

section('Save and load: a file that torch.load reads');
const file = path.join(args.out, 'model.pth');
await backend.saveModel(model, file, { saveOptimizer: true, optimizer });
const loaded = await backend.loadModel(backend.prepareModel(newModel()), file);
console.log(`  the loaded model has the same accuracy: ${(await accuracy(loaded.forward(test))) === trained}`);

section('Optimize for inference: each change is compared, and undone if results drift');
const inference = new KernelPyTorchConfig({ mode: 'inference' });
const result = await new TPUOptimizer(inference).optimize(loaded, test, 'aggressive');
for (const { name, status } of result.changes) console.log(`  ${name}: ${status}`);
const moved = Math.abs((await accuracy(result.optimizedModel.forward(test))) - trained);
console.log(`  accuracy moved by less than 2 points: ${moved < 2}`);

section('Compile, and find it again');
const compiler = new XLACompiler(inference.hardware.tpu);
for (let i = 0; i < 3; i++) {
  const compiled = await compiler.compileModel(loaded, test, { useCache: true });
  await compiled(test);
}
const { compilationCache } = compiler.getCompilationStats();
console.log(
  `  ${compilationCache.misses} miss, ${compilationCache.hits} hits, ${compilationCache.evictions} evictions`,
);

section('A pool of memory');
const manager = new TPUMemoryManager(config.hardware.tpu);
const pool = await manager.createMemoryPool(2, [512, 512]);
await manager.withTensor(pool, () =>
  console.log(`  one is lent: ${manager.getPoolStats().poolDetails[pool]!.available} of 2 left`),
);
const lent = [manager.getTensorFromPool(pool), manager.getTensorFromPool(pool)];
try {
  manager.getTensorFromPool(pool);
} catch (e) {
  if (e instanceof TPUMemoryPoolError) console.log('  a third: TPUMemoryPoolError');
  else throw e;
}
for (const tensor of lent) manager.returnTensorToPool(pool, tensor);
console.log(`  all are back: ${manager.getPoolStats().poolDetails[pool]!.available} of 2 left`);
manager.clearMemoryPools();

section('An error names what is wrong');
try {
  config.hardware.tpu.memoryFraction = 1.5;
} catch (e) {
  console.log(`  ${(e as Error).name}: ${(e as Error).message}`);
}
