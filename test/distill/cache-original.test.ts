// The original's caches of .pt shards (scripts/golden/kd_cache.py): read, imported, and written so that torch reads them.
import fs from 'node:fs';
import path from 'node:path';
import * as tx from 'tsxla';
import { exportKDCache, importKDCache, KDCacheDataset } from 'tsxla/distill';
import { locateTorch, readTorch, writeTorch } from 'tsxla/io';
import { expect, test } from 'vitest';
import { goldenPath } from '../support.js';
import { newFolder, sequencesOf } from './support.js';

const folder = goldenPath('kd-cache');
const each = <T>(n: number, f: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => f(i));

test('every number is where it belongs, random negatives too, in memory or not', async () => {
  for (const preload of [false, true]) {
    const cache = await KDCacheDataset.open(folder, { preload });
    expect(cache.info).toEqual({
      ...{ format: 'original', sequenceLength: 8, topK: 4, negatives: 3, sequences: 5, complete: true },
      ...{ teacher: 'Qwen/Qwen3-32B', tokenizer: null, vocabSize: 352 },
    });
    for (const n of [0, 2, 3, 4]) {
      const sequence = await cache.get(n);
      const numbers = Object.fromEntries(
        await Promise.all(
          Object.entries(sequence).map(
            async ([k, { dtype, shape, data }]) => [k, await tx.tensor(data, { dtype, shape }).tolist()] as const,
          ),
        ),
      );
      expect(numbers).toEqual({
        inputIds: each(8, (l) => (31 * n + 7 * l) % 352),
        attentionMask: each(8, (l) => (n === 4 && l >= 5 ? 0 : 1)),
        lossMask: each(8, (l) => (n === 4 && l >= 5 ? 0 : 1)), // the original has none: all but padding is learnt
        topkIdx: each(7, (s) => each(4, (k) => 40 * n + 5 * s + k)),
        topkLogits: each(7, (s) => each(4, (k) => 8 - k - s / 8 + n / 64)),
        randIdx: each(7, (s) => each(3, (r) => 300 + 9 * n + s + r)),
        randLogits: each(7, (s) => each(3, (r) => -1 - r - s / 8 - n / 64)),
      });
      expect([sequence.topkLogits.dtype, sequence.topkIdx.dtype]).toEqual(['f16', 'i32']);
    }
  }
});

test('imported and exported again, it is the same', async () => {
  const [ours, theirs] = [newFolder(), newFolder()];
  expect(await importKDCache(folder, ours, { tokenizer: 'abc' })).toBe(5);
  expect((await KDCacheDataset.open(ours)).info).toMatchObject({ format: 'tsxla', tokenizer: 'abc', vocabSize: 352 });
  expect(await sequencesOf(ours)).toEqual(await sequencesOf(folder));
  expect(await exportKDCache(ours, theirs)).toBe(5);
  expect(await sequencesOf(theirs)).toEqual(await sequencesOf(folder));
  const before = (await readTorch(path.join(folder, 'shard_00001.pt'))) as Map<string, unknown>;
  const after = (await readTorch(path.join(theirs, 'shard_00001.pt'))) as Map<string, unknown>;
  for (const [name, array] of before) expect(after.get(name)).toEqual(array);
  const meta = JSON.parse(fs.readFileSync(path.join(theirs, 'meta.json'), 'utf8'));
  expect(meta).toMatchObject({ format: 'qwen_kd_topk_cache_v1', max_length: 8, topk: 4, rand_neg: 3, vocab_size: 352 });
  await expect(importKDCache(folder, ours)).rejects.toThrow(/has 3 files: give an empty folder/);
});

test('shards that are missing, cut off or of something else are named', async () => {
  const copy = (name: string) => {
    const to = newFolder();
    fs.cpSync(folder, to, { recursive: true });
    return { to, file: path.join(to, name) };
  };
  const refuses = (to: string, text: RegExp) => expect(KDCacheDataset.open(to)).rejects.toThrow(text);
  const cut = copy('shard_00001.pt');
  fs.truncateSync(cut.file, 2000);
  await refuses(cut.to, /shard_00001.pt is not a torch file: /);
  const first = copy('shard_00000.pt');
  fs.rmSync(first.file);
  await refuses(first.to, /has no shard 0: one is missing before shard_00001.pt/);
  const last = copy('shard_00001.pt');
  fs.rmSync(last.file);
  await refuses(last.to, /has only 3 of 5 sequences: shards are missing/);
  const other = copy('shard_00001.pt');
  await writeTorch(other.file, new Map([['input_ids', tx.ones([2, 8], { dtype: 'i32' })]]));
  await refuses(other.to, /shard_00001.pt has no attention_mask; it has input_ids/);
});

test('a torch file of tensors and arrays that is written here is one', async () => {
  const file = path.join(newFolder(), 'x.pt');
  fs.mkdirSync(path.dirname(file));
  const bits = { dtype: 'bf16', shape: [3], data: Uint16Array.of(1, 2, 3) } as const;
  await writeTorch(
    file,
    new Map<string, tx.Tensor | typeof bits>([
      ['größe', tx.ones([2, 1])],
      ['b', bits],
    ]),
  );
  const read = (await readTorch(file)) as Map<string, unknown>;
  expect([...read]).toEqual([
    ['größe', { dtype: 'f32', shape: [2, 1], data: Float32Array.of(1, 1) }],
    ['b', bits],
  ]);
  const { position } = (await locateTorch(file)).get('b')!;
  expect(Array.from(fs.readFileSync(file).subarray(position, position + 6))).toEqual([1, 0, 2, 0, 3, 0]);
});
