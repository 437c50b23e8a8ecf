// Data among workers: no item in two parts, none missing, and every part resumes where it was.
import { inspect } from 'node:util';
import * as tx from 'tsxla';
import { DataLoader, IterableDataset } from 'tsxla/data';
import { describe, expect, test } from 'vitest';
import { Shards, shardOf, shareLoader } from '../../dist/train/data.js';
import { scratch } from '../scratch.js';
import { goldenPath } from '../support.js';

const folders = scratch('train-data');
const items = Array.from({ length: 23 }, (_, i) => ({ i }));
const jsonl = folders.file('rows.jsonl', items.map((x) => JSON.stringify(x)).join('\n'));

/** All of a part, in order. */
async function all(part: tx.train.Shard<unknown>): Promise<unknown[]> {
  const list: unknown[] = [];
  if (part instanceof IterableDataset) for await (const item of part) list.push(item);
  else for (let i = 0; i < part.length; i++) list.push(await part.get(i));
  return list;
}
const sorted = (parts: readonly (readonly unknown[])[]) =>
  parts
    .flat()
    .map((x) => inspect(x))
    .sort();

describe('parts of a dataset are disjoint and complete', () => {
  const sources: Record<string, tx.train.DatasetSource> = {
    items,
    'a dataset': { length: 23, get: async (i: number) => ({ i }) },
    'an iterable': IterableDataset.from(async function* () {
      yield* items;
    }),
    JSONL: jsonl,
    Parquet: goldenPath('parquet/snappy.parquet'),
  };
  test.each(Object.entries(sources))('%s', async (_, source) => {
    const [whole, ...others] = await Promise.all(
      [
        [0, 1],
        [0, 3],
        [1, 3],
        [2, 3],
      ].map(async ([index, count]) => all((await Shards.open({ train: source }, index!, count!)).shard())),
    );
    expect(whole!.length).toBeGreaterThan(3);
    expect(sorted(others)).toEqual(sorted([whole!])); // each once
    const sizes = others.map((part) => part.length);
    expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThan(2);
  });

  test('even: the same number each, and what is left out is less than a row of all', async () => {
    for (const source of [new tx.data.ArrayDataset(items), IterableDataset.from(items)]) {
      const parts = await Promise.all([0, 1, 2].map((index) => all(shardOf(source, index, 3, true))));
      expect(parts.map((p) => p.length)).toEqual([7, 7, 7]);
      expect(new Set(sorted(parts)).size).toBe(21);
    }
  });

  test('a part resumes after its last item, at the same place for all workers', async () => {
    const { read } = await readAll(new tx.data.JsonlDataset(jsonl), 1, 3);
    for (const [n, { after }] of read.entries()) {
      const rest = await readAll(new tx.data.JsonlDataset(jsonl), 1, 3, after);
      expect(rest.read.map((r) => r.item)).toEqual(read.slice(n + 1).map((r) => r.item));
      const other = await readAll(new tx.data.JsonlDataset(jsonl), 0, 3, after);
      expect(other.read.length).toBe(8 - (n + 1));
    }
  });
  const readAll = async (source: IterableDataset<unknown>, index: number, count: number, from?: tx.data.State) => {
    const read: tx.data.Read<unknown>[] = [];
    for await (const r of (shardOf(source, index, count) as IterableDataset<unknown>).read(0, from)) read.push(r);
    return { read };
  };

  test('parts that differ by an item have loaders whose states are good for each other', async () => {
    const whole = [new tx.data.ArrayDataset(items), IterableDataset.from(items)];
    for (const source of whole) {
      const [first, second] = [0, 1].map(
        (index) => new DataLoader(shardOf(source, index, 2) as never, { batchSize: 5 }),
      );
      for await (const _ of first!) break;
      second!.load(first!.state());
      let rest = 0;
      for await (const _ of second!) rest++;
      expect(rest).toBe(1);
    }
  });

  test('what cannot be opened', async () => {
    const open = (source: unknown) => Shards.open({ train: source as string }, 0, 1);
    await expect(open('/nowhere.jsonl')).rejects.toThrow("the dataset 'train': there is no /nowhere.jsonl");
    await expect(open(folders.file('rows.csv', ''))).rejects.toThrow('is neither .jsonl, .jsonl.gz nor .parquet');
    await expect(open(3)).rejects.toThrow(
      "the dataset 'train' is the number 3: give items, a dataset, or the path of one",
    );
    expect(() => shardOf(new tx.data.ArrayDataset([1]), 1, 2)).toThrow(
      '1 items for 2 workers: worker 1 would have none',
    );
  });
});

describe('batches', () => {
  const collate = (rows: { i: number }[]) => ({ ids: rows.map((r) => r.i).join() });
  const batches = async (loader: AsyncIterable<{ ids: string }>) => {
    const list: string[] = [];
    for await (const { ids } of loader) list.push(ids);
    return list;
  };
  const numbers = (list: readonly string[]) => list.flatMap((ids) => ids.split(',').map(Number)).sort((a, b) => a - b);

  test.each(['shuffled', 'in order', 'streamed'])(
    "two workers' batches of 3 are one worker's of 6: %s",
    async (kind) => {
      const of = (batchSize: number) =>
        kind === 'streamed'
          ? new DataLoader(new tx.data.JsonlDataset<{ i: number }>(jsonl), { batchSize, collate, dropLast: true })
          : new DataLoader(items, { batchSize, collate, shuffle: kind === 'shuffled', seed: 4, dropLast: true });
      const whole = of(6);
      const shares = [0, 1].map((index) => shareLoader(of(3), index, 2, undefined));
      for (let epoch = 0; epoch < 2; epoch++) {
        const [one, ...both] = await Promise.all([whole, ...shares].map(batches));
        expect(both.map((b) => b.length)).toEqual([3, 3]);
        for (const [n, ids] of one!.entries()) expect(numbers([both[0]![n]!, both[1]![n]!])).toEqual(numbers([ids]));
      }
      // The state of one worker's loader is good for all.
      for await (const _ of shares[0]!) break;
      shares[1]!.load(shares[0]!.state());
      expect(await batches(shares[1]!)).toHaveLength(2);
      // So it is for more or fewer workers whose batches are together as large.
      const [rest, ...thirds] = [of(6), ...[0, 1, 2].map((index) => shareLoader(of(2), index, 3, undefined))];
      for await (const _ of shares[0]!) break;
      for (const loader of [rest!, ...thirds]) loader.load(shares[0]!.state());
      const [one, ...three] = await Promise.all([rest!, ...thirds].map(batches));
      expect(one).toHaveLength(2);
      for (const [n, ids] of one!.entries()) expect(numbers(three.map((b) => b[n]!))).toEqual(numbers([ids]));
      expect(() => of(3).load(shares[0]!.state())).toThrow('its batchSize is 6, but here it is 3');
      expect(() => shareLoader(of(6), 0, 2, undefined).load(shares[0]!.state())).toThrow(
        'its batchSize is 6, but here it is 12, 2 workers with 6 each: use 3',
      );
    },
  );

  test('a sampler that shares already', () => {
    const sampler = new tx.data.DistributedSampler(23, { rank: 0, world: 2 });
    expect(() => shareLoader(new DataLoader(items, { sampler, collate }), 0, 2, undefined)).toThrow(
      "the loader's sampler is a DistributedSampler, and its part would be split by 2 workers again",
    );
  });

  test('a batchSampler: its batches in turn', async () => {
    const batchSampler = new tx.data.BatchSampler(new tx.data.SequentialSampler(23), 5);
    const shares = [0, 1].map((index) =>
      shareLoader(new DataLoader(items, { batchSampler, collate }), index, 2, undefined),
    );
    expect(await batches(shares[0]!)).toEqual(['0,1,2,3,4', '10,11,12,13,14']);
    expect(await batches(shares[1]!)).toEqual(['5,6,7,8,9', '15,16,17,18,19']);
  });

  test('what cannot be shared', () => {
    expect(() => shareLoader(new DataLoader(items, { batchSize: 4, dropLast: false }), 0, 2, undefined)).toThrow(
      'dropLast is false, but a shorter last batch cannot be split evenly over 2 workers',
    );
    expect(() => shareLoader(new DataLoader(items, { batchSize: 12 }), 0, 2, undefined)).toThrow(
      '23 items are too few for one batch of 12 on each of 2 workers: use a smaller batchSize',
    );
    expect(() => shareLoader(new DataLoader(items, { batchSize: 4 }), 0, 1, undefined)).not.toThrow();
    for (const source of [new tx.data.ArrayDataset(items), IterableDataset.from(items)])
      expect(() => shareLoader(new DataLoader(shardOf(source, 0, 2) as never), 0, 2, undefined)).toThrow(
        "the loader's dataset is already this worker's shard (getDatasetShard) and would be split by 2 again",
      );
  });
});

test('a KD cache is a dataset by its folder', async () => {
  const folder = folders.newFolder();
  const data = folders.file('text.txt', Array.from({ length: 30 }, () => 'the fox jumps over a lazy dog').join('\n\n'));
  await tx.distill.writeKDCache(folder, {
    teacher: goldenPath('qwen3/tied'),
    data,
    sequenceLength: 16,
    topK: 4,
    negatives: 2,
    sequences: 5,
  });
  const parts = await Promise.all(
    [0, 1].map(async (index) => (await Shards.open({ kd: folder }, index, 2)).shard('kd')),
  );
  expect(parts.map((p) => p.length)).toEqual([3, 2]);
  const first = (await (parts[1] as tx.data.Dataset<tx.distill.KDSequence>).get(0)).inputIds;
  const whole = await tx.distill.KDCacheDataset.open(folder);
  expect(first).toEqual((await whole.get(1)).inputIds);
});
