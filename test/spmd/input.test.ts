// Batches that arrive split over a mesh: every device is sent its own rows and nothing else, before they are asked for. Eight virtual
// devices in one process; what another process would have to load is arithmetic, and is checked as such.
process.env.CPU_NUM_DEVICES = '8';

import * as tx from 'tsxla';
import { DataLoader, type DataLoaderOptions, MpDeviceLoader } from 'tsxla/data';
import { describe, expect, test } from 'vitest';
import { ShardedArray } from '../../dist/runtime/sharded.js';
import { defaultClient } from '../../dist/runtime/value.js';
import { localShards, shareOf } from '../../dist/spmd/processes.js';

const { Mesh, Sharding, batchShare, dataParallel, fromLocal, processCount, processIndex } = tx.spmd;
const data8 = new Mesh([8], ['data']);
const data4 = new Mesh([4, 2], ['data', 'model']);

const ITEMS = Array.from({ length: 84 }, (_, i) => ({ x: Float32Array.of(i, i + 0.5), y: Float32Array.of(i / 10) }));
/** What each device has of a tensor. */
async function onDevices(t: tx.Tensor): Promise<number[][]> {
  const { value } = t.peek()!.record!;
  expect(value).toBeInstanceOf(ShardedArray); // already there
  const arrays = await Promise.all((value as ShardedArray).shards.map((s) => s.toHost()));
  return arrays.map((a) => [...a].map(Number));
}
async function first<B>(loader: AsyncIterable<B>): Promise<B> {
  for await (const batch of loader) return batch;
  throw new Error('no batch');
}

describe('a DataLoader with a mesh', () => {
  test('sends each device its rows', async () => {
    const { x, y } = await first(new DataLoader(ITEMS, { batchSize: 8, sharding: data8 }));
    expect(x.shape).toEqual([8, 2]);
    expect(await onDevices(x)).toEqual(Array.from({ length: 8 }, (_, i) => [i, i + 0.5]));
    expect(await onDevices(y)).toEqual(Array.from({ length: 8 }, (_, i) => [Math.fround(i / 10)]));
    expect(await x.narrow(0, 6, 2).tolist()).toEqual([
      [6, 6.5],
      [7, 7.5],
    ]);
  });

  test('splits rows along data, and sequences along the axis that is named', async () => {
    const rows = Array.from({ length: 4 }, (_, i) => Int32Array.of(4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3));
    const sharding = { mesh: data4, sequence: 'model' };
    const ids = await first(new DataLoader(rows, { batchSize: 4, sharding }));
    expect(await onDevices(ids)).toEqual(Array.from({ length: 8 }, (_, i) => [2 * i, 2 * i + 1]));
    const numbers = await first(new DataLoader([1, 2, 3, 4], { batchSize: 4, sharding })); // of one dimension
    expect(await onDevices(numbers)).toEqual([[1], [1], [2], [2], [3], [3], [4], [4]]);
  });

  test('trains to the losses of one device, with one program, and leaves the last items out', async () => {
    const losses = async (options: DataLoaderOptions<(typeof ITEMS)[number], never>, split: boolean) => {
      const model = new tx.nn.Linear(2, 1);
      tx.noGrad(() => model.weight.fill_(0.01));
      tx.noGrad(() => model.bias!.fill_(0));
      if (split) dataParallel(model, data8);
      const opt = new tx.optim.SGD(model.parameters(), { lr: 1e-4 });
      const train = tx.compile((x: tx.Tensor, y: tx.Tensor) => {
        opt.zeroGrad();
        const loss = tx.mseLoss(model.forward(x), y);
        loss.backward();
        opt.step();
        return loss;
      });
      await tx.sync();
      const loader = new DataLoader(ITEMS, { batchSize: 16, shuffle: true, dropLast: true, ...options });
      const seen: number[] = [];
      const compiles: number[] = [];
      while (loader.epoch < 2)
        for await (const { x, y } of loader) {
          seen.push(Number(await (await train(x, y)).item()));
          compiles.push(tx.metrics.metricData('CompileTime')!.total);
        }
      expect(seen.length).toBe(10); // 84 items: five batches of 16 an epoch
      expect(compiles.at(-1)).toBe(compiles[0]);
      return seen;
    };
    const one = await losses({}, false);
    expect(one[0]! - one.at(-1)!).toBeGreaterThan(1);
    const eight = await losses({ sharding: data8 }, true);
    eight.forEach((loss, i) => expect(loss).toBeCloseTo(one[i]!, 5));
  });

  test('refuses batches that do not divide, with the arithmetic', async () => {
    await expect(first(new DataLoader(ITEMS, { batchSize: 12, dropLast: true, sharding: data8 }))).rejects.toThrow(
      "DataLoader: the batch's leaf .x, [12, 2] cannot be split as [data] over data=8: dimension 0 has size 12, which is not divisible by 8",
    );
    const rest = new DataLoader(ITEMS.slice(0, 12), { batchSize: 8, dropLast: false, sharding: data8 });
    const all = async () => {
      for await (const _ of rest);
    };
    await expect(all()).rejects.toThrow('dimension 0 has size 4, which is not divisible by 8');
    expect(() => new DataLoader(ITEMS, { sharding: { axes: ['data'] } as never })).toThrow(
      'DataLoader: sharding is an object: give a Mesh, or { mesh, axes, sequence }',
    );
  });

  test('that is left early keeps nothing on the devices', async () => {
    const client = await defaultClient();
    await client.synchronize();
    const before = client.live.buffers;
    for await (const { x, y } of new DataLoader(ITEMS, { batchSize: 8, sharding: data8 })) {
      expect(client.live.buffers).toBeGreaterThanOrEqual(before + 16);
      x.dispose();
      y.dispose();
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(client.live.buffers).toBe(before);
  });
});

describe("MpDeviceLoader's inputSharding", () => {
  const loader = () => new DataLoader(ITEMS, { batchSize: 8, dropLast: true });

  test('is for tensors with as many dimensions as its spec', async () => {
    const rows = Array.from({ length: 8 }, (_, i) => ({ x: Float32Array.of(i, -i), label: i }));
    const plain = new DataLoader(rows, { batchSize: 8 });
    const split = new MpDeviceLoader(plain, 'xla:0', { inputSharding: { mesh: data8, spec: ['data', null] } });
    const { x, label } = await first(split);
    expect(await onDevices(x)).toEqual(rows.map((row) => [...row.x]));
    expect(tx.spmd.shardingOf(label)).toBe(undefined);
  });

  test('is a spec for each key', async () => {
    const inputSharding = { x: { mesh: data4, spec: ['data', 'model'] }, y: null };
    const { x, y } = await first(new MpDeviceLoader(loader(), 'xla:0', { inputSharding }));
    expect((await onDevices(x)).map((part) => part.length)).toEqual(Array(8).fill(2)); // two rows, one column
    expect(tx.spmd.shardingOf(y)).toBe(undefined);
    const local = { x: { mesh: data4, spec: ['data', null], minibatch: true }, y: null };
    const own = await first(new MpDeviceLoader(loader(), 'xla:0', { inputSharding: local }));
    expect((await onDevices(own.x)).map((part) => part.length)).toEqual(Array(8).fill(4));
  });

  test('names what it lacks, as PyTorch/XLA does', async () => {
    const inputSharding = { x: { mesh: data8, spec: ['data', null] } };
    await expect(first(new MpDeviceLoader(loader(), 'xla:0', { inputSharding }))).rejects.toThrow(
      "Keys: ['y'] are missing from input_sharding.",
    );
    const list = new DataLoader(
      ITEMS.map(({ x }) => x),
      { batchSize: 8, dropLast: true },
    );
    await expect(first(new MpDeviceLoader(list, 'xla:0', { inputSharding }))).rejects.toThrow(
      'MpDeviceLoader: input batch should be an object when inputSharding is one',
    );
    const both = new DataLoader(ITEMS, { batchSize: 8, dropLast: true, sharding: data8 });
    expect(() => new MpDeviceLoader(both, 'xla:0', { inputSharding })).toThrow(
      "MpDeviceLoader: inputSharding and the DataLoader's sharding are both set: give one of them",
    );
  });
});

describe('processes', () => {
  test('here is one, and it loads everything', async () => {
    expect([await processIndex(), await processCount()]).toEqual([0, 1]);
    expect(await batchShare(data4)).toEqual({ index: 0, count: 1 });
    const batch = { x: tx.arange(16).reshape([8, 2]), n: tx.tensor(3) };
    const whole = await fromLocal(batch, data4);
    expect(whole.x).toBe(batch.x);
    await tx.sync(whole.x);
    expect(await onDevices(whole.x)).toEqual([0, 0, 1, 1, 2, 2, 3, 3].map((i) => [0, 1, 2, 3].map((k) => 4 * i + k)));
    expect(await whole.n.item()).toBe(3);
    await expect(fromLocal(tx.ones([6]), data4)).rejects.toThrow(
      'fromLocal: the batch, [6] cannot be split as [data] over data=4, model=2: dimension 0 has size 6, which is not divisible by 4',
    );
    await expect(fromLocal(tx.ones([6]), new Mesh([9], ['data']))).rejects.toThrow(
      'the mesh data=9 needs 9 devices, but cpu has 8',
    );
  });

  const two = [0, 0, 0, 0, 1, 1, 1, 1];
  const four = [0, 0, 1, 1, 2, 2, 3, 3];
  test.each([
    ['their halves', data8, ['data'], two, 1, { index: 1, count: 2 }],
    ['their quarters', data8, ['data'], four, 2, { index: 2, count: 4 }],
    ['two axes', new Mesh([2, 2, 2], ['data', 'fsdp', 'model']), ['data', 'fsdp'], two, 1, { index: 1, count: 2 }],
    [
      'the same where the model is split between them',
      new Mesh([2, 4], ['data', 'model']),
      ['data'],
      four,
      1,
      { index: 0, count: 2 },
    ],
    ['the same where only the model is split', new Mesh([8], ['model']), [], two, 1, { index: 0, count: 1 }],
  ] as const)('load %s', (_, mesh, axes, owners, me, share) => {
    expect(shareOf(mesh, axes, owners, me)).toEqual(share);
  });

  test('load parts that lie together, of equal size', () => {
    expect(() => shareOf(data8, ['data'], [0, 1, 0, 1, 0, 1, 0, 1], 0)).toThrow(
      'the mesh data=8 gives process 0 the parts 0, 2, 4, 6 of 8 along data: processes load equal parts that lie together: order the devices',
    );
    expect(() => shareOf(data8, ['data'], [0, 0, 0, 0, 0, 0, 1, 1], 1)).toThrow(
      'the mesh data=8 gives process 0 the parts 0, 1, 2, 3, 4, 5 of 8 along data, and process 1 2 of them: processes load equal parts',
    );
    expect(() => shareOf(data8, ['data'], two, 2)).toThrow('process 2 has no device of the mesh data=8');
  });

  test('have the parts of their own rows only', async () => {
    const client = await defaultClient();
    const sharding = Sharding.of(data4, ['data', 'model'], [8, 2]);
    const aval = tx.ones([8, 2]).expr.aval;
    const rows = Float32Array.of(8, 9, 10, 11, 12, 13, 14, 15); // the second four of eight, two columns
    const places = [4, 5, 6, 7].map((p) => [p, client.addressableDevices[p]!] as const);
    const shards = localShards(client, rows, aval, sharding, { index: 1, count: 2 }, places);
    expect(await Promise.all(shards.map(async (s) => [...(await s.toHost())]))).toEqual([
      [8, 10],
      [9, 11],
      [12, 14],
      [13, 15],
    ]);
    expect(shards.map((s) => s.device.id)).toEqual([4, 5, 6, 7]);
  });
});
