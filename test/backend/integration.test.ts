// Devices and collectives as KernelPyTorch has them, on eight virtual devices.
process.env.CPU_NUM_DEVICES = '8';
process.env.TSXLA_CACHE = 'off';

import * as tx from 'tsxla';
import {
  createXlaIntegration,
  TPUBackend,
  TPUConfig,
  TPUDeviceError,
  TPUDistributedError,
  XLACompiler,
  XLADeviceManager,
  XLADistributedTraining,
} from 'tsxla/backend';
import { expect, test } from 'vitest';

const list = async (t: tx.Tensor) => Array.from((await t.data()) as Float32Array);
const config = new TPUConfig({ mixedPrecision: false, precision: 'float32', gradientCheckpointing: false });
const [deviceManager, distributed, optimizations] = createXlaIntegration(config);
const split = (t: tx.Tensor) => tx.spmd.shardBatch(t, distributed.mesh);

test('there are eight devices, before the plugin is started and after', async () => {
  const eight = Array.from({ length: 8 }, (_, i) => `cpu:${i}`);
  const seen = () => [deviceManager.device, deviceManager.devices, deviceManager.worldSize, deviceManager.rank];
  expect(seen()).toEqual(['cpu:0', eight, 8, 0]);
  await tx.zeros([1]).data();
  expect(seen()).toEqual(['cpu:0', eight, 8, 0]);
  expect(distributed.isDistributed).toBe(true);
  expect(await deviceManager.getDeviceStats(7)).toMatchObject({ name: 'cpu:7', kind: 'cpu', processIndex: 0 });
  await expect(deviceManager.getDeviceStats(8)).rejects.toThrow(
    'there is no device 8: this process has 8, counted from 0',
  );
  await expect(deviceManager.getDeviceStats(8)).rejects.toThrow(TPUDeviceError);
  await deviceManager.syncAllDevices();
});

test('allReduce sums or averages the parts of a tensor, or as many copies', async () => {
  const values = Array.from({ length: 16 }, (_, i) => i);
  const parts = () => split(tx.tensor(values, { dtype: 'f32' }).reshape([16, 1]));
  const even = values.filter((v) => v % 2 === 0).reduce((a, b) => a + b);
  const odd = values.filter((v) => v % 2).reduce((a, b) => a + b);
  expect(await list(distributed.allReduce(parts(), 'sum'))).toEqual([even, odd]);
  expect(await list(distributed.allReduce(parts(), 'mean'))).toEqual([even / 8, odd / 8]);
  const whole = tx.tensor([1.5, -2]);
  expect(await list(distributed.allReduce(whole, 'mean'))).toEqual([1.5, -2]);
  expect(await list(distributed.allReduce(whole))).toEqual([12, -16]);
  expect(() => distributed.allReduce(whole, 'max' as never)).toThrow("allReduce: op is 'max': it must be sum, mean");
  expect(() => distributed.allReduce([1] as never)).toThrow(TPUDistributedError);
  const elsewhere = tx.spmd.shard(tx.ones([8]), new tx.spmd.Mesh([8], ['fsdp']), ['fsdp']);
  expect(() => distributed.allReduce(elsewhere)).toThrow(
    'allReduce: f32[8] is split over fsdp of another mesh, fsdp=8',
  );
  await distributed.barrier();
});

test("KernelPyTorch's training on eight devices gives the parameters of one device", async () => {
  const { nn, optim } = tx;
  const make = () => {
    tx.manualSeed(3);
    return new nn.Sequential(new nn.Linear(6, 16), new nn.Tanh(), new nn.Linear(16, 3));
  };
  tx.manualSeed(5);
  const batches = Array.from({ length: 4 }, () => [tx.randn([16, 6]), tx.randint(0, 3, [16])] as const);
  await tx.sync(...batches.flat());
  const train = async (
    model: tx.nn.Sequential,
    prepare: (b: readonly tx.Tensor[]) => readonly tx.Tensor[],
    reduce: boolean,
  ) => {
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
    for (const batch of batches) {
      const [data, target] = prepare(batch);
      optimizer.zeroGrad();
      const loss = nn.functional.crossEntropy(model.forward(data!), target!);
      loss.backward();
      if (reduce) for (const p of model.parameters()) if (p.grad) p.grad = distributed.allReduce(p.grad, 'mean');
      optimizer.step();
      await tx.sync(loss);
    }
    return (await Promise.all(model.parameters().map(list))).flat();
  };
  const one = await train(make(), (batch) => batch.map((t) => t.clone()), false);
  const backend = new TPUBackend(config);
  expect([backend.worldSize, backend.isDistributed]).toEqual([8, true]);
  const before = tx.metrics.counter('ExecuteReplicated') ?? 0;
  const model = new XLADistributedTraining(new XLADeviceManager(config)).wrapModel(backend.prepareModel(make()));
  const eight = await train(model, (batch) => backend.prepareData(batch.map((t) => t.clone())), true);
  expect((tx.metrics.counter('ExecuteReplicated') ?? 0) - before).toBe(4);
  for (const [i, v] of one.entries()) expect(Math.abs(v - eight[i]!)).toBeLessThan(1e-5);
  expect(tx.spmd.shardingOf(model.parameters()[0]!)?.mesh.shape).toEqual([8]);
});

test('compilationMode pjit splits over the devices', async () => {
  const model = new tx.nn.Sequential(new tx.nn.Linear(6, 4));
  const x = tx.randn([16, 6]);
  await tx.sync(x, ...model.parameters());
  const one = await list(await (await new XLACompiler().compileModel(model, x))(x));
  const compiled = await new XLACompiler(new TPUConfig({ compilationMode: 'pjit' })).compileModel(model, x.clone());
  const y = await compiled(x.clone());
  expect((await list(y)).every((v, i) => Math.abs(v - one[i]!) < 1e-6)).toBe(true);
  expect(tx.spmd.shardingOf(y)?.mesh.shape).toEqual([8]);
});

test('what is no device manager is refused', () => {
  expect(() => new XLADistributedTraining(new TPUConfig() as never)).toThrow(
    /takes an XLADeviceManager, got a TPUConfig: write new/,
  );
});

test('optimizations of a model by themselves', async () => {
  const model = new tx.nn.Sequential(new tx.nn.Linear(6, 4));
  const x = tx.randn([2, 6]);
  const before = await list(model.forward(x));
  expect(optimizations.optimizeModelForXla(model, 'conservative')).toBe(model);
  expect(await list(model.forward(x))).toEqual(before); // precision is float32 here: nothing is rounded
});
