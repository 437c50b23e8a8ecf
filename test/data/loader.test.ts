// The loader: what it gives, when it fetches, and what is left when it stops.
import * as tx from 'tsxla';
import { ArrayDataset, DataLoader, IterableDataset, MpDeviceLoader, stackCollate, TensorDataset } from 'tsxla/data';
import { describe, expect, test, vi } from 'vitest';

const items = Array.from({ length: 23 }, (_, i) => i);
const count = (name: string) => tx.metrics.counter(name) ?? 0;
const live = () => count('CreateDataHandles') - count('DestroyDataHandles');
const later = (ms = 20) => new Promise((resolve) => setTimeout(resolve, ms));
const vectors = (n: number) => new ArrayDataset(Array.from({ length: n }, (_, i) => Float32Array.of(i, i, i)));

/** How many buffers are alive when those of earlier tests have been collected. */
async function settled(): Promise<number> {
  for (let n = -1; n !== live(); ) {
    n = live();
    globalThis.gc!();
    await later();
  }
  return live();
}

async function all<T>(loader: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const batch of loader) seen.push(batch);
  return seen;
}

describe('batches', () => {
  test('of pairs, as tensors', async () => {
    const loader = new DataLoader(new TensorDataset(tx.arange(12, { dtype: 'f32' }).reshape([6, 2]), tx.arange(6)), {
      batchSize: 3,
    });
    expect(loader.length).toBe(2);
    const [[x, y], [x2]] = (await all(loader)) as [[tx.Tensor, tx.Tensor], [tx.Tensor, tx.Tensor]];
    expect([x!.shape, x!.dtype, y!.shape, y!.dtype]).toEqual([[3, 2], 'f32', [3], 'i64']);
    expect(await x2!.tolist()).toEqual([
      [6, 7],
      [8, 9],
      [10, 11],
    ]);
  });

  test('the types say what a batch is', async () => {
    const data = [{ x: Float32Array.of(1), label: 2, name: 'a', where: { at: true } }];
    for await (const { x, label, name, where } of new DataLoader(data)) {
      const tensors: tx.Tensor[] = [x, label, where.at];
      const names: string[] = name;
      expect([tensors.map((t) => t.dtype), names]).toEqual([['f32', 'i64', 'bool'], ['a']]);
    }
  });

  test('the last one is left out unless it is wanted, so that a step is compiled once', async () => {
    const sum = tx.compile((x: tx.Tensor) => x.sum());
    const programs = async (dropLast: boolean) => {
      const before = count('UncachedCompile');
      for await (const x of new DataLoader(vectors(10), { batchSize: 4, dropLast })) await sum(x);
      return count('UncachedCompile') - before;
    };
    expect(await programs(true)).toBe(1);
    expect(await programs(false)).toBe(1); // one more: the short batch
    expect((await all(new DataLoader(items, { batchSize: 4, dropLast: false }))).at(-1)!.shape).toEqual([3]);
  });

  test('that some are left out is said, unless it was asked for', () => {
    const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    new DataLoader(vectors(10), { batchSize: 4, dropLast: true });
    expect(write).not.toHaveBeenCalled();
    new DataLoader(vectors(10), { batchSize: 4 });
    expect(write.mock.calls.join()).toContain('the last 2 of 10 items do not fill a batch of 4 and are dropped');
    write.mockRestore();
  });

  test('of a collate function: arrays become tensors, the rest stays', async () => {
    const collate = (list: number[]) => ({
      ids: Int32Array.from(list),
      grid: { dtype: 'f32' as const, shape: [2, 1], data: Float32Array.from(list) },
      first: list[0]!,
      ready: tx.ones([2]),
      note: ['a', null],
    });
    const [batch] = await all(new DataLoader([1, 2], { batchSize: 2, collate }));
    const { ids, grid, ...rest } = batch!;
    expect([ids.dtype, ids.shape, grid.shape]).toEqual(['i32', [2], [2, 1]]);
    expect(rest).toMatchObject({ first: 1, note: ['a', null] });
  });

  test('a dtype that changes from batch to batch is told, not compiled', async () => {
    await expect(all(new DataLoader([1, 2, 2.5, 3], { batchSize: 2 }))).rejects.toThrow(
      "DataLoader: the batch was i64 and is now f32: use typed arrays, or pass a dtype (collate: stackCollate({ dtype: { '': 'f32' } }))",
    );
    const collate = stackCollate({ dtype: 'f32' });
    expect(await all(new DataLoader([1, 2, 2.5, 3], { batchSize: 2, collate }))).toHaveLength(2);
  });
});

describe('fetching ahead', () => {
  test('while the consumer is busy, two batches more are fetched and sent to the device; no more', async () => {
    const asked: number[] = [];
    const dataset = { length: 20, get: (i: number) => Float32Array.of(i, 1, asked.push(i)) };
    const uploads = count('SyncTensorsToData');
    for await (const x of new DataLoader(dataset, { batchSize: 2 })) {
      expect(x.shape).toEqual([2, 3]);
      await expect.poll(() => count('SyncTensorsToData') - uploads).toBe(3);
      await later();
      expect(asked).toEqual([0, 1, 2, 3, 4, 5]);
      expect(count('SyncTensorsToData') - uploads).toBe(3);
      break;
    }
  });

  test('a step finds its batch on the device: it uploads nothing', async () => {
    const step = tx.compile((x: tx.Tensor) => x.mul(2).sum());
    await step(tx.ones([2, 3]));
    for await (const x of new DataLoader(vectors(20), { batchSize: 2 })) {
      await later(5); // so that what is read ahead is not taken for the step's own
      const before = count('SyncTensorsToData');
      const running = step(x);
      expect(count('SyncTensorsToData')).toBe(before);
      await (await running).item();
    }
  });

  test("device: 'host' sends nothing, prefetch: 0 fetches nothing ahead", async () => {
    const uploads = count('SyncTensorsToData');
    await all(new DataLoader(vectors(8), { batchSize: 2, device: 'host' }));
    expect(count('SyncTensorsToData')).toBe(uploads);
    const asked: number[] = [];
    const dataset = { length: 6, get: (i: number) => asked.push(i) };
    let n = 0;
    for await (const _ of new DataLoader(dataset, { prefetch: 0 })) {
      await later(5);
      expect(asked).toHaveLength(++n);
    }
  });

  test('a slow item delays only its own batch: order is kept', async () => {
    const dataset = { length: 8, get: (i: number) => later(i === 0 ? 30 : 1).then(() => i) };
    const seen = await Promise.all(
      (await all(new DataLoader(dataset, { batchSize: 2 }))).map((t) => t.tolist({ numbers: true })),
    );
    expect(seen.flat()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });
});

describe('stopping', () => {
  test.each([
    ['map-style', () => vectors(40)],
    ['iterable', () => IterableDataset.from(vectors(40)).shuffle(8)],
  ])('breaking out stops fetching and frees what was fetched: %s', async (_, dataset) => {
    const before = await settled();
    for await (const x of new DataLoader(dataset(), { batchSize: 2, prefetch: 4 })) {
      await expect.poll(() => live() - before).toBe(5);
      x.dispose();
      break;
    }
    await expect.poll(live).toBe(before);
  });

  test('a generator is closed, even where it is in the middle of something', async () => {
    let closed = 0;
    const dataset = IterableDataset.from(async function* () {
      try {
        for (let i = 0; ; i++) {
          await later(1);
          yield i;
        }
      } finally {
        closed++;
      }
    });
    for await (const _ of new DataLoader(dataset, { batchSize: 3 })) break;
    await expect.poll(() => closed).toBe(1);
  });

  test('an error in the loop frees it, too', async () => {
    const before = await settled();
    const loop = async () => {
      for await (const x of new DataLoader(vectors(40), { batchSize: 2 })) {
        x.dispose();
        throw new Error('mine');
      }
    };
    await expect(loop()).rejects.toThrow('mine');
    await expect.poll(live).toBe(before);
  });
});

describe('errors', () => {
  test('of an item arrive with its number, after the batches before it', async () => {
    const get = (i: number) => {
      if (i === 5) throw new Error('picture 5 is broken');
      return i;
    };
    const loader = new DataLoader({ length: 8, get }, { batchSize: 2 });
    let batches = 0;
    const loop = async () => {
      for await (const _ of loader) batches++;
    };
    await expect(loop()).rejects.toThrow(new tx.DataError('item 5 of the dataset: picture 5 is broken'));
    expect(batches).toBe(2);
    expect(loader.state().batch).toBe(2);
    const stream = IterableDataset.from(items).map(get);
    await expect(all(new DataLoader(stream, { batchSize: 2 }))).rejects.toThrow(
      'item 5 of the dataset: picture 5 is broken',
    );
  });

  test('an empty dataset', async () => {
    expect(() => new DataLoader([])).toThrow('DataLoader: the dataset is empty: it has 0 items');
    await expect(all(new DataLoader(IterableDataset.from([])))).rejects.toThrow(
      'the dataset is empty: it gave no item',
    );
    const few = 'all 3 of 3 items do not fill a batch of 4: use a smaller batchSize, or { dropLast: false }';
    expect(() => new DataLoader([1, 2, 3], { batchSize: 4 })).toThrow(few);
    await expect(all(new DataLoader(IterableDataset.from([1, 2, 3]), { batchSize: 4 }))).rejects.toThrow(few);
  });

  test('options that cannot be right', () => {
    const made =
      (o: object, dataset: unknown = items) =>
      () =>
        new DataLoader(dataset as number[], o);
    expect(made({ batchsize: 4 })).toThrow("there is no option 'batchsize': it takes batchSize, shuffle");
    expect(made({ batchSize: 0 })).toThrow('DataLoader: batchSize is 0: it must be a whole number, at least 1');
    expect(made({ shuffle: true }, IterableDataset.from(items))).toThrow('use dataset.shuffle(bufferSize, seed)');
    expect(made({}, 5)).toThrow(
      'takes a dataset (length and get(i)), an array, or an IterableDataset, got the number 5',
    );
    expect(made({ device: 'cuda:1' })).toThrow("no device cuda:1: a process computes on one, 'xla:0'");
    expect(made({ shuffle: true, sampler: {} })).toThrow('give one of them');
  });
});

test('MpDeviceLoader ends a step with each batch', async () => {
  const w = tx.zeros([3]);
  const loader = new MpDeviceLoader(new DataLoader(vectors(8), { batchSize: 2 }), 'xla:0');
  expect(loader.length).toBe(4);
  const steps = count('MarkStep');
  const runs = count('ExecuteComputation');
  for await (const x of loader) tx.noGrad(() => w.add_(x.sum(0)));
  expect([count('MarkStep') - steps, count('ExecuteComputation') - runs]).toEqual([4, 4]);
  expect(tx.explain().at(-1)!.cause).toBe('torch_xla.sync in parallel loader at step end');
  expect(await w.tolist()).toEqual([28, 28, 28]);
  expect(loader.epoch).toBe(1);
  expect(() => new MpDeviceLoader(new DataLoader(items), 'cpu')).toThrow('no device cpu');
});
