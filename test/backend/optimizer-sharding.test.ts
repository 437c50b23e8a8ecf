// The optimizer where there are several devices: eight virtual ones.

import * as tx from 'tsxla';
import { KernelPyTorchConfig, TPUBackend, TPUConfig, TPUMemoryManager, TPUOptimizer } from 'tsxla/backend';
import { expect, test } from 'vitest';
import { count, stored } from '../spmd/support.js'; // first: it asks for them

const { nn } = tx;
const exact = { precision: 'float32', gradientCheckpointing: false } as const;
const optimizer = new TPUOptimizer(new TPUConfig(exact));
const mlp = () => new nn.Sequential(new nn.Linear(8, 512), new nn.ReLU(), new nn.Linear(512, 256));
const numbers = async (t: tx.Tensor) => Array.from(await t.data(), Number);
const sharded = (t: tx.Tensor) => String(tx.spmd.shardingOf(t));

test('devices share the batch, results stay, and undoing brings the weights back', async () => {
  const [model, x] = [mlp(), count([16, 8]).div(128)];
  const [weight, before] = [await numbers(model.parameters()[2]!), await numbers(model.forward(x))];
  const result = await optimizer.optimizeForTraining(model, x, 'aggressive', { runs: 1 });
  expect(result.changes.at(-1)).toMatchObject({
    name: 'sharding',
    status: 'applied',
    what: '8 devices share the batch if they divide it; each has all weights',
  });
  expect(result.comparison!.relativeError).toBeLessThan(1e-6);
  expect(model.parameters().map(sharded)).toEqual(Array(4).fill('replicated over 8 devices'));
  expect(sharded(x)).toBe('undefined'); // the user's own
  const forward = tx.compile((x: tx.Tensor) => model.forward(x));
  const parts = stored(await forward(x)).shards;
  expect(await Promise.all(parts.map(async (s) => (await s.toHost()).length))).toEqual(Array(8).fill(2 * 256));
  expect((await forward(count([3, 8]))).shape).toEqual([3, 256]); // which 8 does not divide

  result.undo();
  expect([...model.parameters(), x].map(sharded)).toEqual(Array(5).fill('undefined'));
  expect(await numbers(model.parameters()[2]!)).toEqual(weight);
  expect(await numbers(model.forward(x))).toEqual(before);
  expect(model.parameters().map((p) => p.peek()!.record!.value!.constructor.name)).toEqual(Array(4).fill('Buffer'));
});

test('weights that are too large for one device are split', async () => {
  const wide = Array.from({ length: 4 }, () => new nn.Linear(256, 256));
  const [model, x] = [
    new nn.Sequential(new nn.Linear(8, 256), ...wide.slice(0, 2), new nn.ReLU(), ...wide.slice(2)),
    count([16, 8]).div(128),
  ];
  const before = await numbers(model.forward(x));
  const small = { version: 'v6e', v6eMemoryGb: 2e6 / 2 ** 30, memoryFraction: 1 } as const; // the weights are 1,061,888 bytes
  const config = new KernelPyTorchConfig({ mode: 'inference', hardware: { tpu: { ...exact, ...small } } });
  const result = await new TPUOptimizer(config).optimizeForInference(model, x, 'aggressive', { runs: 1 });
  expect(result.changes.at(-1)!.what).toBe(
    '8 devices share the batch if they divide it; each has a part of the weights',
  );
  expect(sharded(model.parameters()[2]!)).toBe('[fsdp] over fsdp=8');
  expect(result.performanceMetrics!.after.memory).toBeLessThan(result.performanceMetrics!.before.memory);
  new TPUBackend(config).prepareModel(model); // which leaves what an optimizer has done
  expect(sharded(model.parameters()[2]!)).toBe('[fsdp] over fsdp=8');
  new TPUMemoryManager(); // all memory again
  result.undo();
  const text = tx.compile((x: tx.Tensor) => model.forward(x)).stablehlo([x]);
  expect(text).not.toContain('sdy');
  expect(await numbers(model.forward(x))).toEqual(before);
});
