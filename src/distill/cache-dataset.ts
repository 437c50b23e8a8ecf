// Reads KD caches, tsxla's and the original's, with random access, so that loaders can shuffle the whole cache and resume exactly.
// By default only the sequences of a batch are in memory.
import fs from 'node:fs/promises';
import path from 'node:path';
import { type HostArray, sizeOf } from '../base/dtype.js';
import { ArgumentError, DataError } from '../base/errors.js';
import type { Dataset } from '../data/index.js';
import { resolveFolder } from '../io/hub-files.js';
import { locateTorch } from '../io/index.js';
import {
  type CacheSizes,
  type Field,
  isShard,
  MANIFEST,
  openShard,
  openTorchShard,
  readManifest,
  readOriginalMeta,
  readOriginalProgress,
  readSequences,
  type Shard,
  shardName,
} from './cache-format.js';

/** One sequence: L tokens, and for each of its S = L - 1 positions the teacher's logits of next tokens. */
export interface KDSequence {
  /** i32[L] */
  readonly inputIds: HostArray;
  /** u8[L]: 0 for the padding at the end. */
  readonly attentionMask: HostArray;
  /** u8[L]: 1 for tokens to predict; position i predicts token i + 1. */
  readonly lossMask: HostArray;
  /** i32[S, K]: the most likely tokens, in order. */
  readonly topkIdx: HostArray;
  /** [S, K]: the logits of topkIdx, not divided by a temperature. */
  readonly topkLogits: HostArray;
  /** i32[S, R]: random tokens, if the cache has them. */
  readonly randIdx?: HostArray;
  /** [S, R]: the logits of randIdx. */
  readonly randLogits?: HostArray;
}

/** The description of a cache. Fields are null if a cache of the original does not have them. */
export interface KDCacheInfo extends CacheSizes {
  readonly format: 'tsxla' | 'original';
  readonly sequences: number;
  readonly teacher: string | null;
  readonly tokenizer: string | null;
  readonly vocabSize: number | null;
  readonly complete: boolean;
}

export interface KDCacheOpenOptions {
  /** Keep the whole cache in memory. Default: false. */
  readonly preload?: boolean;
  /** Accept an unfinished cache and use what it has. Default: false. */
  readonly partial?: boolean;
  /** The student's requirements. Throws if the cache is known to differ. */
  readonly expect?: {
    /** Tokenizer.hash */
    readonly tokenizer?: string | null | undefined;
    readonly vocabSize?: number | undefined;
    readonly sequenceLength?: number | undefined;
  };
}

type Arrays = ReadonlyMap<Field, HostArray>;

export class KDCacheDataset implements Dataset<KDSequence> {
  readonly length: number;
  /** The number of sequences up to the end of each shard. */
  readonly #ends: number[] = [];

  private constructor(
    readonly folder: string,
    readonly info: KDCacheInfo,
    readonly shards: readonly Shard[],
    readonly preloaded: readonly Arrays[] | undefined,
    /** The student's vocabulary, or else the teacher's if it is known: token ids are checked against it. */
    readonly vocabSize: number | null,
  ) {
    let end = 0;
    for (const shard of shards) this.#ends.push((end += shard.sequences));
    this.length = end;
  }

  /** Opens the cache in a folder: all headers are read and checked. Sequences are checked when they are read. */
  static async open(folder: string, options: KDCacheOpenOptions = {}): Promise<KDCacheDataset> {
    const { info, shards } = await openKDCache(folder, options);
    const vocabSize = options.expect?.vocabSize ?? info.vocabSize;
    const read = (shard: Shard, count: number) => readSequences(shard, 0, count, vocabSize);
    // Torch files are read completely, so their checksums can be compared.
    if (options.preload && info.format === 'original')
      for (const shard of shards) await locateTorch(shard.path, { checksums: true });
    const preloaded = options.preload ? await Promise.all(shards.map((s) => read(s, s.sequences))) : undefined;
    // Without meta.json's vocab_size only the tokens show whether a cache has another vocabulary.
    if (!preloaded && info.vocabSize === null) for (const shard of shards) if (shard.sequences) await read(shard, 1);
    return new KDCacheDataset(folder, info, shards, preloaded, vocabSize);
  }

  async get(index: number): Promise<KDSequence> {
    if (!Number.isSafeInteger(index) || index < 0 || index >= this.length)
      throw new ArgumentError(`sequence ${index} is out of range: the cache has sequences 0 to ${this.length - 1}`);
    const which = this.#ends.findIndex((end) => index < end);
    const at = index - (this.#ends[which - 1] ?? 0);
    const kept = this.preloaded?.[which];
    const arrays = kept ?? (await readSequences(this.shards[which]!, at, 1, this.vocabSize));
    const row = ({ dtype, shape: [, ...shape], data }: HostArray): HostArray => {
      const start = kept ? at * sizeOf(shape) : 0;
      return { dtype, shape, data: data.subarray(start, start + sizeOf(shape)) };
    };
    return Object.fromEntries([...arrays].map(([field, array]) => [field, row(array)])) as unknown as KDSequence;
  }
}

export async function openKDCache(
  given: string,
  { partial = false, expect = {} }: KDCacheOpenOptions = {},
): Promise<{ info: KDCacheInfo; shards: Shard[] }> {
  const folder = await resolveFolder(given);
  const names = await fs.readdir(folder).catch(() => {
    throw new DataError(`there is no KD cache ${folder}: make one with \`tsxla kd-cache\``);
  });
  const {
    info: known,
    open,
    files,
    promised,
  } = names.includes(MANIFEST) ? await ours(folder, names) : await original(folder, names);
  check(folder, known, expect);
  if (!known.complete && !partial)
    throw new DataError(
      `${folder} is not finished: run the same command again to continue it, or pass { partial: true } to use what it has`,
    );
  const shards: Shard[] = [];
  let sequences = 0;
  for (const file of files) {
    const shard = await open(path.join(folder, file), sequences);
    if (shard.first !== sequences)
      throw new DataError(
        `${shard.path} begins with sequence ${shard.first} of the cache, but the shards before it have ${sequences}: it belongs to another cache, or to another position in this one`,
      );
    shards.push(shard);
    sequences += shard.sequences;
  }
  if (!sequences) throw new DataError(`${folder} has no sequences`);
  if (promised !== undefined && sequences !== promised)
    throw new DataError(
      `${folder} has only ${sequences} of ${promised} sequences: shards are missing; run the command again`,
    );
  return { info: { ...known, sequences }, shards };
}

type Found = {
  readonly info: KDCacheInfo;
  /** `first` is the number of sequences in the shards before it. */
  readonly open: (file: string, first: number) => Promise<Shard>;
  readonly files: readonly string[];
  /** The number of sequences that the cache should have. */
  readonly promised: number | undefined;
};

async function ours(folder: string, names: readonly string[]): Promise<Found> {
  const { settings, teacher, complete, sequences } = (await readManifest(folder))!;
  const { tokenizer, vocabSize, sequenceLength, topK, negatives } = settings;
  const files = names.filter(isShard).sort();
  const gap = files.findIndex((file, i) => file !== shardName(i));
  if (gap >= 0) throw new DataError(`${folder} has no ${shardName(gap)}: copy it again, or run the command again`);
  const sizes = { sequenceLength, topK, negatives };
  const info: KDCacheInfo = { format: 'tsxla', ...sizes, sequences, teacher, tokenizer, vocabSize, complete };
  return { info, open: (file) => openShard(file, settings), files, promised: complete ? sequences : undefined };
}

async function original(folder: string, names: readonly string[]): Promise<Found> {
  const files = names.filter((n) => n.endsWith('.pt')).sort();
  const [first] = files;
  if (!first) throw new DataError(`${folder} is not a KD cache: it has neither ${MANIFEST} nor .pt files`);
  const [meta, progress] = [await readOriginalMeta(folder), await readOriginalProgress(folder)];
  // Sizes come from the arrays, because meta.json may be missing.
  const places = await locateTorch(path.join(folder, first));
  const shapeOf = (name: string) => places.get(name)?.shape ?? [];
  if (shapeOf('topk_idx').length !== 3 || shapeOf('input_ids').length !== 2)
    throw new DataError(
      `${path.join(folder, first)} is not a shard of a KD cache: it needs input_ids [N, L] and topk_idx [N, S, K]`,
    );
  const sizes = {
    sequenceLength: shapeOf('input_ids')[1]!,
    topK: shapeOf('topk_idx')[2]!,
    negatives: shapeOf('rand_idx')[2] ?? 0,
  };
  const gap = files.findIndex((file, i) => /^shard_\d+\.pt$/.test(file) && Number(file.slice(6, -3)) !== i);
  if (gap >= 0) throw new DataError(`${folder} has no shard ${gap}: one is missing before ${files[gap]}`);
  const info: KDCacheInfo = {
    format: 'original',
    ...{ ...sizes, sequences: 0, complete: true, tokenizer: null },
    teacher: meta?.teacher_model ?? null,
    vocabSize: meta?.vocab_size ?? null,
  };
  return { info, open: (file, first) => openTorchShard(file, sizes, first), files, promised: progress?.n_written };
}

function check(folder: string, info: KDCacheInfo, expect: NonNullable<KDCacheOpenOptions['expect']>): void {
  const differs = (ours: unknown, theirs: unknown) =>
    (ours ?? undefined) !== undefined && theirs !== null && ours !== theirs;
  if (differs(expect.tokenizer, info.tokenizer))
    throw new ArgumentError(
      `${folder} was made with another tokenizer (${info.tokenizer?.slice(0, 8)}, the student's is ${expect.tokenizer?.slice(0, 8)}): ` +
        'its token ids have other meanings; make a cache with a teacher that has the same tokenizer',
    );
  if (differs(expect.vocabSize, info.vocabSize))
    throw new ArgumentError(
      `${folder} was made by a teacher with ${info.vocabSize} tokens, but the student has ${expect.vocabSize}: their vocabularies must be the same`,
    );
  if (differs(expect.sequenceLength, info.sequenceLength))
    throw new ArgumentError(
      `${folder} has sequences of ${info.sequenceLength} tokens, not of ${expect.sequenceLength} as requested: use ${info.sequenceLength}, or make another cache`,
    );
}
