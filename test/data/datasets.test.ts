// Datasets by number, and the orders they are read in.
import * as tx from 'tsxla';
import {
  ArrayDataset,
  BatchSampler,
  ConcatDataset,
  DistributedSampler,
  RandomSampler,
  randomSplit,
  SequentialSampler,
  Subset,
  TensorDataset,
  WeightedRandomSampler,
} from 'tsxla/data';
import { describe, expect, test } from 'vitest';

const numbers = (n: number) => new ArrayDataset(Array.from({ length: n }, (_, i) => i));
const all = async <T>(d: { length: number; get(i: number): T | Promise<T> }) =>
  Promise.all(Array.from({ length: d.length }, (_, i) => d.get(i)));

describe('datasets', () => {
  test('TensorDataset gives row i of each tensor', async () => {
    const d = new TensorDataset(tx.arange(6).reshape([3, 2]), tx.tensor([7, 8, 9], { dtype: 'i32' }));
    expect(d.length).toBe(3);
    expect(await d.get(1)).toEqual([
      { dtype: 'i64', shape: [2], data: BigInt64Array.of(2n, 3n) },
      { dtype: 'i32', shape: [], data: Int32Array.of(8) },
    ]);
    expect(() => new TensorDataset(tx.ones([2]), tx.ones([3]))).toThrow(
      'TensorDataset: the tensors differ in length: f32[2] and f32[3]',
    );
    expect(
      () => new TensorDataset(tx.ones([2]), { dtype: 'f32', shape: [2], data: new Float32Array(2) } as never),
    ).toThrow('TensorDataset: argument 2 is a host array { dtype, shape, data }: pass tx.tensor(array)');
    await expect(d.get(3)).rejects.toThrow('item 3 is out of range: the dataset has items 0 to 2');
  });

  test('ConcatDataset and Subset', async () => {
    const d = new ConcatDataset([numbers(2), numbers(0), numbers(3)]);
    expect(await all(d)).toEqual([0, 1, 0, 1, 2]);
    expect(await all(new Subset(d, [4, 0]))).toEqual([2, 0]);
    expect(() => new Subset(d, [5])).toThrow('item 5 is out of range: the dataset has items 0 to 4');
  });

  test('randomSplit takes lengths or fractions, and gives every item once', async () => {
    const parts = randomSplit(numbers(11), [0.8, 0.2], { seed: 1 });
    expect(parts.map((p) => p.length)).toEqual([9, 2]);
    expect((await Promise.all(parts.map(all))).flat().sort((a, b) => a - b)).toEqual(await all(numbers(11)));
    expect(randomSplit(numbers(5), [2, 3]).map((p) => p.length)).toEqual([2, 3]);
    expect(() => randomSplit(numbers(5), [2, 2])).toThrow('the lengths add up to 4: they must add up to the 5 items');
  });
});

describe('samplers', () => {
  test('a random order has every item, depends on seed and epoch, and on nothing else', () => {
    const order = (seed: number, epoch: number) => [...new RandomSampler(100, { seed }).order(epoch)];
    expect(order(0, 0).toSorted((a, b) => a - b)).toEqual([...new SequentialSampler(100).order()]);
    expect(order(3, 5)).toEqual(order(3, 5));
    const orders = [order(0, 0), order(0, 1), order(1, 0), order(1, 1), order(2 ** 32, 0)].map(String);
    expect(new Set(orders).size).toBe(5);
  });

  test('a shuffle is fair: each item comes to each place about as often', () => {
    const counts = Array.from({ length: 5 }, () => [0, 0, 0, 0, 0]);
    for (let epoch = 0; epoch < 5000; epoch++) {
      [...new RandomSampler(5, { seed: 9 }).order(epoch)].forEach((item, place) => counts[place]![item]!++);
    }
    const deviation = Math.max(...counts.flat().map((n) => Math.abs(n - 1000)));
    expect(deviation).toBeLessThan(130); // 28 is one standard deviation
  });

  test('with replacement, and fewer samples', () => {
    const drawn = [...new RandomSampler(4, { replacement: true, numSamples: 4000 }).order(0)];
    for (const item of [0, 1, 2, 3]) expect(Math.abs(drawn.filter((x) => x === item).length - 1000)).toBeLessThan(150);
    expect([...new RandomSampler(10, { numSamples: 3 }).order(0)]).toHaveLength(3);
    expect(() => new RandomSampler(4, { numSamples: 5 })).toThrow('5 samples of 4 items: pass { replacement: true }');
  });

  test('weights', () => {
    const drawn = [...new WeightedRandomSampler([1, 0, 3], 4000).order(0)];
    expect(drawn.filter((x) => x === 1)).toEqual([]);
    expect(Math.abs(drawn.filter((x) => x === 2).length - 3000)).toBeLessThan(150);
    const once = [...new WeightedRandomSampler([1, 0, 3, 5], 3, { replacement: false }).order(2)];
    expect(once.toSorted()).toEqual([0, 2, 3]);
    expect(() => new WeightedRandomSampler([1, -1], 1)).toThrow('weight 1 is -1: it must be a number from 0');
    expect(() => new WeightedRandomSampler([0, 1], 2, { replacement: false })).toThrow(
      '2 samples without replacement of 1 items whose weight is not 0',
    );
  });

  test('processes share all items evenly', () => {
    const share = (rank: number, more = {}) => [
      ...new DistributedSampler(10, { rank, world: 3, seed: 4, ...more }).order(1),
    ];
    const shares = [share(0), share(1), share(2)];
    expect(shares.map((s) => s.length)).toEqual([4, 4, 4]);
    expect(new Set(shares.flat()).size).toBe(10);
    expect(share(1, { shuffle: false })).toEqual([1, 4, 7, 0]); // as torch's: the first ones again
    expect(share(1, { shuffle: false, dropLast: true })).toEqual([1, 4, 7]);
    expect(() => share(3)).toThrow('rank is 3: for 3 processes it must be 0 to 2');
  });

  test('batches', () => {
    const sampler = new SequentialSampler(5);
    expect([...new BatchSampler(sampler, 2).batches(0)]).toEqual([
      [0, 1],
      [2, 3],
    ]);
    expect(new BatchSampler(sampler, 2, false).length).toBe(3);
    expect([...new BatchSampler(sampler, 2, false).batches(0)].at(-1)).toEqual([4]);
  });
});
