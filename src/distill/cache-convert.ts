// KD caches from one format to the other, shard by shard.
import fs from 'node:fs/promises';
import path from 'node:path';
import { DataError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { writeTorch } from '../io/index.js';
import { openKDCache } from './cache-dataset.js';
import {
  type CacheSettings,
  FIELDS,
  FORMAT,
  type LogitsDType,
  MANIFEST,
  type Manifest,
  ORIGINAL_FORMAT,
  type OriginalMeta,
  readManifest,
  readSequences,
  shardName,
  writeJsonFile,
} from './cache-format.js';
import { writeShard } from './cache-write.js';

export interface ConvertOptions {
  /** For caches of the original, which do not name it: Tokenizer.hash of the teacher's. */
  readonly tokenizer?: string | null;
  /** The same, where meta.json is missing. */
  readonly vocabSize?: number;
}

/** Writes a cache of ours from one of the original's. */
export async function importKDCache(from: string, to: string, options: ConvertOptions = {}): Promise<number> {
  const { info, shards } = await openKDCache(from);
  if (info.format !== 'original') throw new DataError(`${from} is a cache of ours already`);
  const vocabSize = info.vocabSize ?? options.vocabSize;
  if (!vocabSize) throw new DataError(`${from} does not say how many tokens its teacher has: pass vocabSize`);
  await empty(to);
  const { sequenceLength, topK, negatives } = info;
  const settings: CacheSettings = {
    tokenizer: options.tokenizer ?? null,
    ...{ vocabSize, sequenceLength, topK, negatives },
    logits: shards[0]!.fields.get('topkLogits')!.dtype as LogitsDType,
    seed: 0,
    pack: true,
    documents: { imported: ORIGINAL_FORMAT },
    sources: [],
  };
  let first = 0;
  for (const [i, shard] of shards.entries()) {
    const arrays = await readSequences(shard, 0, shard.sequences);
    await writeShard(path.join(to, shardName(i)), arrays, { first, after: null });
    first += shard.sequences;
  }
  const manifest: Manifest = {
    format: FORMAT,
    ...{ teacher: info.teacher ?? 'unknown', teacherHash: null, settings, complete: true, sequences: first },
  };
  await writeJsonFile(path.join(to, MANIFEST), manifest); // last: without it, it is no cache
  return first;
}

/** Writes a cache that the original reads. */
export async function exportKDCache(from: string, to: string): Promise<number> {
  const manifest = await readManifest(from);
  const { info, shards } = await openKDCache(from);
  if (!manifest) throw new DataError(`${from} is a cache of the original already`);
  await empty(to);
  for (const [i, shard] of shards.entries()) {
    const arrays = await readSequences(shard, 0, shard.sequences);
    const named = new Map([...arrays].map(([field, array]) => [FIELDS[field].stored, array]));
    await writeTorch(path.join(to, `shard_${String(i).padStart(5, '0')}.pt`), named);
  }
  const { sequences, topK, negatives, sequenceLength, vocabSize } = info;
  const meta: OriginalMeta & Record<string, unknown> = {
    format: ORIGINAL_FORMAT,
    teacher_model: manifest.teacher,
    tokenizer: manifest.teacher,
    max_length: sequenceLength,
    ...{ topk: topK, top_k: topK, rand_neg: negatives, random_negatives: negatives },
    ...{ num_sequences: sequences, total_sequences: sequences },
    ...(vocabSize && { vocab_size: vocabSize }),
    created_utc: new Date().toISOString(),
  };
  await writeJsonFile(path.join(to, 'meta.json'), meta);
  await writeJsonFile(path.join(to, 'progress.json'), {
    n_written: sequences,
    next_shard_id: shards.length,
    done: true,
  });
  return sequences;
}

async function empty(folder: string): Promise<void> {
  await fs.mkdir(folder, { recursive: true });
  const there = await fs.readdir(folder);
  if (there.length) throw new DataError(`${folder} has ${plural(there.length, 'file')}: give an empty folder`);
}
