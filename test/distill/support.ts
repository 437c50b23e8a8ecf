// What the tests of KD caches share: a small teacher, its text, folders that go away.
import { KDCacheDataset, type KDCacheOptions, type KDSequence } from 'tsxla/distill';
import { folderOf } from '../models/support.js';
import { scratch } from '../scratch.js';

export const { newFolder, file } = scratch('kd');

const WORDS = 'the quick brown fox jumps over a lazy dog and runs far away from home'.split(' ');
export const sentence = (i: number): string =>
  `${i} ${Array.from({ length: 3 + (i % 9) }, (_, j) => WORDS[(i * 7 + j * 3) % WORDS.length]).join(' ')}`;
export const jsonl = file(
  'text.jsonl',
  Array.from({ length: 24 }, (_, i) => JSON.stringify({ text: sentence(i) })).join('\n'),
);

/** Sequences of 16 tokens of which 5 likely and 4 other tokens are kept. */
export const small: KDCacheOptions = {
  ...{ teacher: folderOf('tied'), data: jsonl, dtype: 'f32', logits: 'f32', scanLayers: false },
  ...{ sequenceLength: 16, topK: 5, negatives: 4, batchSize: 2, shardSequences: 4, seed: 7 },
};

export const plain = (s: KDSequence): Record<string, number[]> =>
  Object.fromEntries(Object.entries(s).map(([name, a]) => [name, Array.from(a.data as Float32Array)]));
/** All sequences of a cache, as plain numbers. */
export async function sequencesOf(folder: string, options = {}): Promise<Record<string, number[]>[]> {
  const cache = await KDCacheDataset.open(folder, options);
  return Promise.all(Array.from({ length: cache.length }, async (_, i) => plain(await cache.get(i))));
}
