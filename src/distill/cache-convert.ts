// Converts KD caches between tsxla's format and the original's, shard by shard.
import fs from 'node:fs/promises';
import path from 'node:path';
import { DataError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { openOutput } from '../io/file.js';
import { locateTorch, writeTorch } from '../io/index.js';
import { openKDCache } from './cache-dataset.js';
import {
  type CacheSettings,
  FIELDS,
  FORMAT,
  type LogitsDType,
  MANIFEST,
  type Manifest,
  ORIGINAL_FORMAT,
  readManifest,
  readSequences,
  shardName,
  writeJsonFile,
  writeShard,
} from './cache-format.js';
import { LOCK, lockFolder } from './cache-write.js';

export interface ConvertOptions {
  /** Tokenizer.hash of the teacher's tokenizer, which caches of the original do not have. */
  readonly tokenizer?: string | null;
  /** The teacher's vocabulary, if meta.json is missing. */
  readonly vocabSize?: number;
}

/** Converts a cache of the original to tsxla's format. Returns the number of sequences. */
export async function importKDCache(from: string, to: string, options: ConvertOptions = {}): Promise<number> {
  const { info, shards } = await openKDCache(from);
  if (info.format !== 'original') throw new DataError(`${from} is already a cache in tsxla's format`);
  const vocabSize = info.vocabSize ?? options.vocabSize;
  if (!vocabSize) throw new DataError(`${from} has no vocabulary size of its teacher: pass vocabSize`);
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
  return writeInto(to, async (write) => {
    let first = 0;
    for (const [i, shard] of shards.entries()) {
      await locateTorch(shard.path, { checksums: true }); // checks whole files: these formats have no checksums of single sequences
      const arrays = await readSequences(shard, 0, shard.sequences, vocabSize);
      await write(shardName(i), (file) => writeShard(file, arrays, { first, after: null }));
      first += shard.sequences;
    }
    const manifest: Manifest = {
      format: FORMAT,
      ...{ teacher: info.teacher ?? 'unknown', teacherHash: null, settings, complete: true, sequences: first },
    };
    await write(MANIFEST, (file) => writeJsonFile(file, manifest)); // last: it makes the folder a valid cache
    return first;
  });
}

/** Converts a cache to the original's format. Returns the number of sequences. */
export async function exportKDCache(from: string, to: string): Promise<number> {
  const manifest = await readManifest(from);
  const { info, shards } = await openKDCache(from);
  if (!manifest) throw new DataError(`${from} is already a cache in the original's format`);
  const { sequences, topK, negatives, sequenceLength, vocabSize } = info;
  const meta = {
    format: ORIGINAL_FORMAT,
    teacher_model: manifest.teacher,
    tokenizer: manifest.teacher,
    max_length: sequenceLength,
    ...{ topk: topK, top_k: topK, rand_neg: negatives, random_negatives: negatives },
    ...{ num_sequences: sequences, total_sequences: sequences },
    ...(vocabSize && { vocab_size: vocabSize }),
    created_utc: new Date().toISOString(),
  };
  return writeInto(to, async (write) => {
    for (const [i, shard] of shards.entries()) {
      const arrays = await readSequences(shard, 0, shard.sequences, vocabSize);
      const named = new Map([...arrays].map(([field, array]) => [FIELDS[field].stored, array]));
      await write(`shard_${String(i).padStart(5, '0')}.pt`, (file) => writeTorch(file, named));
    }
    await write('meta.json', (file) => writeJsonFile(file, meta));
    const progress = { n_written: sequences, next_shard_id: shards.length, done: true };
    await write('progress.json', (file) => writeJsonFile(file, progress));
    return sequences;
  });
}

type WriteNamed = (name: string, write: (file: string) => Promise<void>) => Promise<void>;

/** Fills an empty folder, under a lock. On failure the files written so far are removed. */
async function writeInto<T>(folder: string, fill: (write: WriteNamed) => Promise<T>): Promise<T> {
  await openOutput(folder, 'the folder to write');
  const lock = await lockFolder(folder);
  const written: string[] = [];
  try {
    const there = (await fs.readdir(folder)).filter((name) => name !== LOCK);
    if (there.length) throw new DataError(`${folder} has ${plural(there.length, 'file')}: give an empty folder`);
    return await fill(async (name, write) => {
      lock.check();
      const file = path.join(folder, name);
      written.push(file);
      await write(file);
    });
  } catch (e) {
    if (!lock.lost.aborted) for (const file of written) await fs.rm(file, { force: true });
    throw e;
  } finally {
    await lock.release();
  }
}
