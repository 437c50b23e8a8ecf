// A loader that was stopped anywhere and resumed gives what an uninterrupted one gives, bit for bit.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Tensor } from 'tsxla';
import {
  ArrayDataset,
  chunkTokens,
  DataLoader,
  type DataLoaderOptions,
  DistributedSampler,
  IterableDataset,
  JsonlDataset,
  type LoaderState,
  ParquetDataset,
  packSequences,
  TextDataset,
} from 'tsxla/data';
import { afterAll, describe, expect, test } from 'vitest';
import { goldenPath } from '../support.js';

const items = Array.from({ length: 23 }, (_, i) => i);
const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-data-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (name: string, content: string | Uint8Array) => {
  writeFileSync(path.join(folder, name), content);
  return path.join(folder, name);
};

type Loader = DataLoader<never, unknown>;
/** All that a loader gives in two epochs, as text. `state` is kept after each batch. */
async function run(loader: Loader, states: LoaderState[] = [], until = 2): Promise<string[]> {
  const seen: string[] = [];
  while (loader.epoch < until) {
    for await (const batch of loader) {
      seen.push(await show(batch));
      states.push(JSON.parse(JSON.stringify(loader.state())));
    }
  }
  return seen;
}
async function show(x: unknown): Promise<string> {
  if (Array.isArray(x)) return `[${await Promise.all(x.map(show))}]`;
  if (typeof x === 'object' && x && 'tolist' in x) return JSON.stringify(await (x as Tensor).tolist({ numbers: true }));
  if (typeof x === 'object' && x) return show(Object.entries(x));
  return String(x);
}

/** Stops after each of the batches (or every third), and resumes in another loader. */
async function resumesEverywhere(
  make: () => Loader,
  { epochsDiffer, every = 1 }: { epochsDiffer?: boolean; every?: number } = {},
) {
  const states: LoaderState[] = [];
  const whole = await run(make(), states);
  expect(whole.length).toBeGreaterThan(4);
  if (epochsDiffer !== undefined) {
    const half = whole.length / 2;
    expect(String(whole.slice(0, half)) !== String(whole.slice(half))).toBe(epochsDiffer);
  }
  for (const [i, state] of states.entries()) {
    if (i % every) continue;
    const resumed = make();
    resumed.load(state);
    expect(await run(resumed)).toEqual(whole.slice(i + 1));
  }
}

const workers = { module: new URL('../fixtures/transform.mjs', import.meta.url), count: 2, data: { factor: 3 } };
const loader = (dataset: unknown, o: DataLoaderOptions<never, unknown> = {}) =>
  new DataLoader(dataset as ArrayDataset<never>, { batchSize: 4, ...o });

describe.each([
  ['without workers', {}, 1],
  ['with workers', { workers }, 3],
])('%s', (_, more, every) => {
  test('map-style', () =>
    resumesEverywhere(() => loader(new ArrayDataset(items), { dropLast: false, ...more }), {
      epochsDiffer: false,
      every,
    }));
  test('map-style, shuffled', () =>
    resumesEverywhere(() => loader(new ArrayDataset(items), { shuffle: true, seed: 5, ...more }), {
      epochsDiffer: true,
      every,
    }));
  test('iterable', () =>
    resumesEverywhere(() => loader(IterableDataset.from(items), { dropLast: false, ...more }), {
      epochsDiffer: false,
      every,
    }));
  test('iterable, shuffled in a buffer', () =>
    resumesEverywhere(() => loader(IterableDataset.from(() => items).shuffle(7, 3), more), {
      epochsDiffer: true,
      every,
    }));
});

test('one of several processes', () =>
  resumesEverywhere(() => loader(items, { sampler: new DistributedSampler(23, { rank: 1, world: 2, seed: 1 }) })));

describe('chains of transforms', () => {
  const twice = IterableDataset.from(items).map(async (x) => x * 2);
  test.each<[string, IterableDataset<unknown>]>([
    ['filter', twice.filter((x) => x % 3 !== 0)],
    ['take', twice.take(17)],
    ['batch', twice.batch(2, { dropLast: true })],
    ['shuffle, then take, map, shuffle', twice.shuffle(5).take(21).map(String).shuffle(4, 1)],
    ['shuffle of a buffer larger than all', twice.shuffle(1000)],
    ['packSequences', packSequences(documents(), { length: 8, window: 4 })],
    ['packSequences, split', packSequences(documents(), { length: 3, window: 3, tooLong: 'split' })],
    ['chunkTokens', chunkTokens(documents(), { length: 5, separator: 0 })],
    ['chunkTokens of long documents', chunkTokens([items, items, items], { length: 3 })],
  ])('%s', (_, dataset) => resumesEverywhere(() => loader(dataset, { batchSize: 2 })));
  function documents(): number[][] {
    return items.map((i) => Array.from({ length: 1 + ((i * 7) % 6) }, (_, j) => 10 * i + j + 1));
  }
});

describe('files', () => {
  const lines = (from: number, n: number) =>
    Array.from({ length: n }, (_, i) => `{"n": ${from + i}, "s": "é${i}"}\n`).join('');
  const a = file('a.jsonl', `\uFEFF${lines(0, 9)}\n\r\n${lines(9, 3)}`);
  const b = file('b.jsonl', lines(12, 5).trim());
  const c = file('c.jsonl.gz', gzipSync(lines(17, 8)));
  test('JSON Lines, packed and not', () =>
    resumesEverywhere(() => loader(new JsonlDataset([a, b, c]), { batchSize: 2 })));
  test('shuffled', () =>
    resumesEverywhere(() => loader(new JsonlDataset([a, b, c]).shuffle(6), { batchSize: 2 }), { epochsDiffer: true }));

  const poem = file('poem.txt', 'one\ntwo\n\n\nthree\n\nfour\r\nfive\r\n\r\nsix\n\nseven\n\neight');
  test('lines', () => resumesEverywhere(() => loader(new TextDataset(poem), { batchSize: 2 })));
  test('paragraphs', () =>
    resumesEverywhere(() => loader(new TextDataset([poem, poem], { by: 'paragraph' }), { batchSize: 2 })));
  test('Parquet', () =>
    resumesEverywhere(() =>
      loader(
        new ParquetDataset([goldenPath('parquet/zstd.parquet'), goldenPath('parquet/snappy.parquet')], {
          columns: ['id', 'score'],
        }),
        {
          batchSize: 9,
        },
      ),
    ));
});

describe('the state', () => {
  test('is of the next batch that was not taken, whatever was fetched ahead', async () => {
    const l = new DataLoader(items, { batchSize: 4, prefetch: 4 });
    for await (const _ of l) if (l.state().batch === 2) break;
    expect(l.state()).toEqual({
      epoch: 0,
      batch: 2,
      length: 23,
      batchSize: 4,
      seed: null,
      order: 'sequential',
      dropLast: true,
      batches: 5,
    });
  });

  test('after a break the next loop is a new epoch', async () => {
    const l = new DataLoader(items, { batchSize: 4, shuffle: true });
    for await (const _ of l) break;
    expect(l.epoch).toBe(0);
    for await (const _ of l) expect(l.epoch).toBe(1);
    expect(l.epoch).toBe(2);
  });

  test('of another loader is refused, and the error says what differs', async () => {
    const state = new DataLoader(items, { batchSize: 4, shuffle: true }).state();
    const refused = (array: number[], o: object, what: string) =>
      expect(() => new DataLoader(array, { batchSize: 4, shuffle: true, ...o }).load(state)).toThrow(
        `DataLoader: the state is from another loader: its ${what}`,
      );
    refused(items.slice(1), {}, 'number of items is 23, but here it is 22');
    refused(items, { batchSize: 5 }, 'batchSize is 4, but here it is 5');
    refused(items, { seed: 1 }, 'seed is 0, but here it is 1');
    refused(items, { shuffle: false }, 'seed is 0, but here it is null');
    refused(items, { dropLast: false }, 'dropLast is true, but here it is false');
    // Four processes that stopped after two batches have taken what two processes take in four.
    const among = (world: number) =>
      new DataLoader(items, { batchSize: 2, sampler: new DistributedSampler(items.length, { rank: 0, world }) });
    expect(() => among(2).load({ ...among(4).state(), batch: 2 })).toThrow(
      'its number of batches is 3, but here it is 6',
    );
    const { batches: _, ...older } = among(4).state();
    among(4).load(older);
    const shuffled = (seed: number) => new DataLoader(IterableDataset.from(items).shuffle(5, seed), { batchSize: 2 });
    const other = shuffled(1);
    const source = { size: 5, seed: 0, block: 1, given: 0, before: 5 };
    other.load({ ...other.state(), batch: 2, source });
    await expect(run(other as Loader)).rejects.toThrow(
      'shuffle: the state is from another dataset: its seed is 0, but here it is 1',
    );
    const files = loader(new TextDataset(file('x.txt', '1\n2\n3\n4\n5\n')));
    expect(() =>
      files.load({ ...files.state(), batch: 1, source: { file: 0, name: 'y.txt', byte: 2, line: 1 } }),
    ).not.toThrow();
    await expect(run(files)).rejects.toThrow(
      'TextDataset: the state is from file 0 named y.txt, but that file is x.txt here',
    );
  });
});
