// What a rayDataset is asked to be, before a cluster is. test/slow/ray-data.test.ts runs it on one.
import path from 'node:path';
import { ArgumentError } from 'tsxla';
import { RayShard, rayDataset, TorchTrainer } from 'tsxla/train';
import { expect, test, vi } from 'vitest';

test('what Ray is asked for: whole paths, the reader by the ending', () => {
  expect(rayDataset(['a/*.parquet', 's3://bucket/b.parquet'], { columns: ['x'], seed: 3 }).request()).toEqual({
    paths: [path.resolve('a/*.parquet'), 's3://bucket/b.parquet'],
    format: 'parquet',
    columns: ['x'],
    shuffle: false,
    seed: 3,
    equal: false,
  });
  const formats = { 'a.JSONL': 'json', 'a.json': 'json', 'a.csv': 'csv', 'a.txt': 'text' };
  for (const [file, format] of Object.entries(formats)) expect(rayDataset(file).format).toBe(format);
  expect(rayDataset('folder', { format: 'csv', shuffle: 'files', equal: true }).request()).toMatchObject({
    format: 'csv',
    shuffle: 'files',
    equal: true,
  });
});

test.each([
  [[], 'the source is'],
  ['', 'the source is'],
  ['folder', 'unknown format: pass { format }, one of parquet, json, csv, text'],
  [['a.csv', 'a.json'], 'a.csv, a.json: unknown format'],
])('a source that is none: %s', (source, message) => {
  expect(() => rayDataset(source)).toThrow(ArgumentError);
  expect(() => rayDataset(source)).toThrow(message);
});

test.each([
  [{ format: 'xml' }, "format is the string 'xml'"],
  [{ columns: [] }, 'it must be a list of names'],
  [{ shuffle: 'rows' }, "it must be true, false or 'files'"],
  [{ seed: -1 }, 'seed'],
  [{ equal: 1 }, 'it must be true or false'],
  [{ batchSize: 3 }, "there is no option 'batchSize'"],
])('an option that is wrong: %o', (options, message) => {
  expect(() => rayDataset('a.csv', options as object)).toThrow(ArgumentError);
  expect(() => rayDataset('a.csv', options as object)).toThrow(message);
});

test('without a cluster it is refused; and a shard cannot resume within an epoch', async () => {
  vi.stubEnv('RAY_ADDRESS', '');
  const trainer = new TorchTrainer({ trainLoopPerWorker: () => {}, datasets: { train: rayDataset('a.csv') } });
  await expect(trainer.fit()).rejects.toThrow(
    "fit: the dataset 'train' is a rayDataset, which needs a Ray cluster: give its address (RAY_ADDRESS), or use the files themselves",
  );
  vi.unstubAllEnvs();
  const reads = new RayShard('train', undefined).read(0, 5)[Symbol.asyncIterator]();
  await expect(reads.next()).rejects.toThrow('cannot resume in the middle of an epoch: start the epoch again');
});
