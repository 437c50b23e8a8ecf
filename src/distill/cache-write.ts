// Writes KD caches. A shard is the unit of work: its header has the position in the data after it, so that one rename publishes
// both its values and the progress. After a kill, the next run continues after the last complete shard.
import { createHash } from 'node:crypto';
import fs from 'node:fs/promises';
import path from 'node:path';
import { checkWhole } from '../base/check.js';
import { type DType, type HostArray, hostArray, sizeOf } from '../base/dtype.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { holderOf, lockFileOf, waitForLock } from '../base/lock.js';
import { type Document, IterableDataset, type Read, type Source } from '../data/index.js';
import { openOutput } from '../io/file.js';
import { type HubOptions, resolveModel } from '../io/index.js';
import {
  AutoModelForCausalLM,
  type DecoderConfig,
  type DecoderForCausalLM,
  readFolder,
  type Tokenizer,
} from '../models/index.js';
import { checkFinite, showNonfinite } from '../nn/finite.js';
import { tensor } from '../tensor/create.js';
import type { Tensor } from '../tensor/tensor.js';
import {
  arrayTypes,
  bytesOfSequence,
  type CacheSettings,
  checkSizes,
  FIELDS,
  type Field,
  FORMAT,
  firstWrong,
  isShard,
  type LogitsDType,
  MANIFEST,
  type Manifest,
  openShard,
  readManifest,
  type ShardNote,
  shardName,
  type WrongValue,
  writeJsonFile,
  writeShard,
} from './cache-format.js';
import {
  type CacheRow,
  CacheRows,
  type DocumentOptions,
  documentsOf,
  endOfText,
  fractionOf,
  sourcesOf,
} from './cache-rows.js';
import { type Candidates, randomOf, teacherCandidates } from './cache-teacher.js';

export interface KDCacheOptions extends DocumentOptions {
  /** The teacher: the folder of a model, its name on the hub, or the model. */
  readonly teacher: string | DecoderForCausalLM;
  /** Files (.jsonl, .parquet, .txt), or documents of tokens. */
  readonly data: string | readonly string[] | Exclude<Source<Document>, readonly string[]>;
  /** Number of tokens in a sequence. Default: 1024. */
  readonly sequenceLength?: number;
  /** Number of most likely tokens to store for each position. Default: 128. */
  readonly topK?: number;
  /** Number of other, random tokens to store for each position. Default: 64. */
  readonly negatives?: number;
  /** The largest number of sequences. Default: all. A cache can be continued with more. */
  readonly sequences?: number;
  /** Number of sequences in a batch of the teacher. Changes the speed, not the cache. Default: 4. */
  readonly batchSize?: number;
  /** The dtype of stored logits. Default: 'f16'. */
  readonly logits?: LogitsDType;
  readonly seed?: number;
  /** Pack documents into sequences; false: one document per sequence. Default: true. */
  readonly pack?: boolean;
  /** Number of sequences in a shard; a killed run loses at most the current shard. Default: about 64 MiB. */
  readonly shardSequences?: number;
  /** Remove an existing cache instead of continuing it. Default: false. */
  readonly overwrite?: boolean;
  /** The teacher's dtype. Default: that of its files. */
  readonly dtype?: DType;
  /** Run the teacher's layers as one loop, which compiles faster. Default: true. */
  readonly scanLayers?: boolean;
  readonly onProgress?: (progress: KDCacheProgress) => void;
  /** Progress of the teacher's download. */
  readonly onFetch?: NonNullable<HubOptions['onProgress']>;
}

export interface KDCacheProgress {
  readonly sequences: number;
  /** The estimated number of sequences, from the part of the files read so far; undefined if unknown. */
  readonly total: number | undefined;
  readonly bytes: number;
  readonly totalBytes: number | undefined;
  /** The speed of this run; secondsLeft is the rest at that speed. */
  readonly tokensPerSecond: number | undefined;
  readonly secondsLeft: number | undefined;
}
export interface KDCacheResult {
  readonly folder: string;
  readonly sequences: number;
  readonly bytes: number;
  /** The number of sequences from earlier runs. */
  readonly resumedAt: number;
}

const SHARD_BYTES = 64 * 2 ** 20;

/** Runs a teacher over data, and writes its logits for each position into a folder. */
export async function writeKDCache(folder: string, options: KDCacheOptions): Promise<KDCacheResult> {
  const { batchSize = 4, sequences: limit = Number.POSITIVE_INFINITY, overwrite = false } = options;
  await openOutput(folder);
  const teacher = await findTeacher(options);
  const { settings, rows } = await plan(teacher, options);
  const record = bytesOfSequence(settings, settings.logits);
  const shardSequences =
    options.shardSequences ?? Math.max(1, Math.floor(SHARD_BYTES / record / batchSize)) * batchSize;
  const counts = { batchSize, shardSequences, ...(options.sequences !== undefined && { sequences: limit }) };
  for (const [name, n] of Object.entries(counts)) checkWhole(`kd-cache: ${name}`, n, 1);

  const lock = await lockFolder(folder);
  try {
    let manifest = await known(folder, settings, overwrite);
    const there = await wholeShards(folder, manifest);
    const resumedAt = there.sequences;
    const reads = rows.read(0, there.after)[Symbol.asyncIterator]();
    let next = await take(reads, Math.min(shardSequences, limit - there.sequences));
    if (!next.length && !resumedAt)
      throw new DataError('kd-cache: the data is empty: no document has two tokens or more');

    const finish = async (sequences: number): Promise<KDCacheResult> => {
      if (manifest) await writeJsonFile(path.join(folder, MANIFEST), { ...manifest, complete: true, sequences });
      return { folder, sequences, bytes: sequences * record, resumedAt };
    };
    if (!next.length) return await finish(there.sequences);

    const progress = new Progress(settings, record, resumedAt, limit, options.onProgress);
    progress.expect(there.sequences + next.length, next, shardSequences);
    const model = await teacher.load();
    const teacherHash = await hashOf(model);
    if (manifest && manifest.teacherHash !== teacherHash)
      throw new ArgumentError(`${folder} has a cache of another teacher (${manifest.teacher}): ${OTHERWISE}`);
    await checkFinite(`kd-cache: the teacher ${teacher.name}`, model);
    manifest ??= { format: FORMAT, teacher: teacher.name, teacherHash, settings, complete: false, sequences: 0 };
    const compute = shardComputer(model, settings, batchSize, progress);
    let first = there.sequences;
    let begun = false;
    let writing: Promise<void> | undefined; // the previous shard, while the device computes the next
    try {
      for (let shard = there.shards; next.length; shard++) {
        progress.expect(first + next.length, next, shardSequences);
        const rows = next.map((r) => r.item);
        const arrays = await compute(rows, first);
        await writing;
        lock.check();
        // Only when there is a shard to write: a run that fails at once leaves no files.
        if (!begun) await writeJsonFile(path.join(folder, MANIFEST), { ...manifest, complete: false, sequences: 0 });
        begun = true;
        const note: ShardNote = { first, after: next.at(-1)!.after };
        writing = writeShard(path.join(folder, shardName(shard)), arrays, note);
        writing.catch(() => undefined); // the error surfaces where `writing` is awaited
        first += next.length;
        next = await take(reads, Math.min(shardSequences, limit - first));
      }
    } finally {
      await writing; // also if the next shard failed: the computed one is kept
    }
    lock.check();
    return await finish(first);
  } finally {
    await lock.release();
  }
}

// ---- before anything is computed

interface FoundTeacher {
  readonly name: string;
  readonly config: DecoderConfig;
  readonly tokenizer: Tokenizer | null;
  load(): Promise<DecoderForCausalLM>;
}

/** Opens the teacher's config and tokenizer. Its weights are loaded after all other checks. */
async function findTeacher({ teacher, dtype, scanLayers = true, onFetch }: KDCacheOptions): Promise<FoundTeacher> {
  if (typeof teacher !== 'string') {
    const { config, tokenizer } = teacher;
    return { name: teacher.constructor.name, config, tokenizer, load: async () => teacher.eval() };
  }
  const folder = await resolveModel(teacher, onFetch ? { onProgress: onFetch } : {});
  const { config, tokenizer } = await readFolder(folder);
  const load = () => AutoModelForCausalLM.fromPretrained(folder, { scanLayers, ...(dtype && { dtype }) });
  return { name: path.basename(path.resolve(teacher)), config, tokenizer, load };
}

/** The settings of the cache, and the rows of its data. */
async function plan({ config, tokenizer }: FoundTeacher, options: KDCacheOptions) {
  const { data, sequenceLength = 1024, topK = 128, negatives = 64, logits = 'f16', seed = 0, pack = true } = options;
  const { vocabSize, maxPositionEmbeddings } = config;
  checkSizes('kd-cache', { sequenceLength, topK, negatives }, vocabSize);
  if (sequenceLength > maxPositionEmbeddings)
    throw new ArgumentError(
      `kd-cache: sequenceLength is ${sequenceLength}, but the teacher has only ${maxPositionEmbeddings} positions`,
    );
  if (!['f16', 'bf16', 'f32'].includes(logits))
    throw new ArgumentError(`kd-cache: logits is ${logits}: it must be f16, bf16 or f32`);
  checkWhole('kd-cache: seed', seed);
  const files =
    typeof data === 'string' ? [data] : Array.isArray(data) && typeof data[0] === 'string' ? data : undefined;
  const [configured = null] = [config.eosTokenId ?? []].flat();
  const { field = 'text', by = 'paragraph', separator = endOfText(tokenizer) ?? configured } = options;
  const documents = { field, by, separator };
  const source = files
    ? documentsOf(files as string[], tokenizer, documents)
    : IterableDataset.from(data as Source<Document>);
  const settings: CacheSettings = {
    tokenizer: tokenizer?.hash ?? null,
    ...{ vocabSize, sequenceLength, topK, negatives, logits, seed, pack },
    documents: files ? documents : null,
    sources: files ? await sourcesOf(files as string[]) : [],
  };
  const rows = new CacheRows(source, { length: sequenceLength, pack, vocabSize, padValue: config.padTokenId ?? 0 });
  return { settings, rows };
}

/** A hash of a small part of the weights that every training changes. */
async function hashOf(model: DecoderForCausalLM): Promise<string> {
  const { weight } = model.model.norm;
  const numbers = Float32Array.from(decodeFloats(weight.dtype, await weight.data()) as Float32Array);
  return createHash('sha256').update(new Uint8Array(numbers.buffer)).digest('hex');
}

// ---- existing caches

const OTHERWISE = 'use the same to continue it, --overwrite to replace it, or another folder';

/** The manifest of the cache to continue. Throws if its settings differ. */
async function known(folder: string, settings: CacheSettings, overwrite: boolean): Promise<Manifest | undefined> {
  const names = await fs.readdir(folder);
  for (const name of names.filter((n) => /^(shard-|manifest).*\.tmp$/.test(n))) await fs.rm(path.join(folder, name)); // of a killed run
  const shards = names.filter(isShard).sort();
  if (overwrite)
    for (const name of [...shards.reverse(), MANIFEST]) await fs.rm(path.join(folder, name), { force: true });
  const manifest = await readManifest(folder);
  if (!manifest && shards.length && !overwrite)
    throw new DataError(`${folder} has shards but no ${MANIFEST}: use --overwrite, or another folder`);
  if (!manifest) return undefined;
  const shown = (value: unknown) => JSON.stringify(value) ?? 'nothing';
  const differences = (Object.keys(settings) as (keyof CacheSettings)[])
    .map((key) => [key, shown(manifest.settings[key]), shown(settings[key])])
    .filter(([, theirs, ours]) => theirs !== ours)
    .map(([key, theirs, ours]) => `its ${key} is ${theirs}, here it is ${ours}`);
  if (differences.length)
    throw new ArgumentError(`${folder} has a cache with other settings (${differences.join('; ')}): ${OTHERWISE}`);
  return manifest;
}

/** The complete shards before the first missing or damaged one. All shards after it are computed again. */
async function wholeShards(folder: string, manifest: Manifest | undefined) {
  const there: { shards: number; sequences: number; after?: ShardNote['after'] } = { shards: 0, sequences: 0 };
  for (; manifest; there.shards++) {
    const file = path.join(folder, shardName(there.shards));
    const shard = await openShard(file, manifest.settings).catch(() => undefined);
    if (shard?.first !== there.sequences) break;
    there.sequences += shard.sequences;
    there.after = shard.after;
  }
  return there;
}

export const LOCK = lockFileOf(MANIFEST);
/** Locks a cache's folder: one process at a time writes to it. */
export async function lockFolder(folder: string) {
  const file = path.join(folder, MANIFEST);
  const lock = await waitForLock(file);
  if (lock) return lock;
  throw new DataError(`${folder} is being written by ${holderOf(file)}: wait until it is done, or use another folder`);
}

async function take<T>(reads: AsyncIterator<Read<T>>, n: number): Promise<Read<T>[]> {
  const taken: Read<T>[] = [];
  while (taken.length < n) {
    const { value, done } = await reads.next();
    if (done) break;
    taken.push(value);
  }
  return taken;
}

// ---- computing

/** Computes all arrays of a shard. The device computes a batch while the results of the previous one are fetched. */
function shardComputer(model: DecoderForCausalLM, settings: CacheSettings, batchSize: number, progress: Progress) {
  const reduce = teacherCandidates(model, settings, settings.logits);
  return async (rows: readonly CacheRow[], first: number): Promise<Map<Field, HostArray>> => {
    const arrays = new Map<Field, HostArray>();
    for (const [field, type] of arrayTypes(settings, settings.logits, rows.length))
      arrays.set(field, { ...type, data: hostArray(type) });
    const put = (field: Field, sequence: number, data: HostArray['data']) => {
      const { data: all, shape } = arrays.get(field)!;
      const size = sizeOf(shape.slice(1));
      all.set(data.subarray(0, (rows.length - sequence) * size) as never, sequence * size); // the rest of the batch is padding
    };
    rows.forEach((row, i) => {
      for (const field of ['inputIds', 'attentionMask', 'lossMask'] as const) put(field, i, row[field]);
    });
    let pending: (() => Promise<void>) | undefined;
    for (let at = 0; at < rows.length; at += batchSize) {
      const ids = new Int32Array(batchSize * settings.sequenceLength); // partial batches are padded: one program for all
      rows.slice(at, at + batchSize).forEach((row, i) => ids.set(row.inputIds, i * settings.sequenceLength));
      const inputs = () =>
        [
          tensor(ids, { shape: [batchSize, settings.sequenceLength] }),
          randomOf(first + at, settings, settings.seed),
        ] as const;
      const found = await reduce(...inputs());
      await pending?.();
      pending = async () => {
        for (const [field, x] of Object.entries(found) as [keyof Candidates, Candidates['topkIdx']][]) {
          put(field, at, await x.data());
          x.dispose();
        }
        const end = Math.min(at + batchSize, rows.length);
        const wrong = firstWrong(rowsOf(arrays, at, end), settings.vocabSize);
        if (wrong) throw new DataError(await reasonOf(wrong, first + at, model, settings, inputs));
        progress.report(first + end);
      };
    }
    await pending?.();
    return arrays;
  };
}
/** A range of sequences of arrays. */
const rowsOf = (arrays: ReadonlyMap<Field, HostArray>, start: number, end: number): Map<Field, HostArray> =>
  new Map(
    [...arrays].map(([field, { dtype, shape, data }]) => {
      const row = shape.slice(1);
      const size = sizeOf(row);
      return [field, { dtype, shape: [end - start, ...row], data: data.subarray(start * size, end * size) }];
    }),
  );

/** The reason why a value cannot be stored. The batch is computed again with logits in f32. */
async function reasonOf(
  { field, sequence, position, candidate, value }: WrongValue,
  first: number,
  model: DecoderForCausalLM,
  settings: CacheSettings,
  inputs: () => readonly [ids: Tensor, random: Tensor],
): Promise<string> {
  const { stored, kind } = FIELDS[field];
  const where = `kd-cache: sequence ${first + sequence}, position ${position}: ${stored} is`;
  if (kind !== 'logits') return `${where} ${value}, which is invalid in a cache`;
  const exact = (await teacherCandidates(model, settings, 'f32')(...inputs()))[field as 'topkLogits'];
  const [, positions, candidates] = exact.shape as [number, number, number];
  const logit = Number((await exact.data())[(sequence * positions + position) * candidates + candidate]);
  const anew = 'with --overwrite, or in another folder';
  if (Number.isFinite(logit))
    return `${where} ${logit}, which is too large for ${settings.logits}: make the cache with --logits f32, ${anew}`;
  const { dtype } = model.lmHead.weight;
  const remedy =
    dtype === 'f32' ? 'use another teacher, or leave this text out' : `compute in f32 (--dtype f32), ${anew}`;
  return `${where} ${showNonfinite(value)}, though all weights of the teacher are finite: its activations overflow ${dtype}: ${remedy}`;
}

class Progress {
  #total: number | undefined;
  #started: number | undefined; // time of the end of the first batch, so that compiling does not count
  #from = 0;
  constructor(
    readonly settings: CacheSettings,
    readonly record: number,
    readonly resumedAt: number,
    readonly limit: number,
    readonly tell: ((progress: KDCacheProgress) => void) | undefined,
  ) {}

  /** Estimates the number of sequences from those read so far. `last` was read last; fewer than `asked` means the end of the data. */
  expect(sequences: number, last: readonly Read<CacheRow>[], asked: number): void {
    const fraction = fractionOf(this.settings.sources, last.at(-1)!.after);
    if (last.length < asked)
      this.#total = sequences; // the end of the data
    else if (fraction) this.#total = Math.max(sequences, Math.min(this.limit, Math.round(sequences / fraction)));
    else if (Number.isFinite(this.limit)) this.#total = this.limit;
    if (this.#started === undefined) this.report(this.resumedAt);
  }

  report(sequences: number): void {
    const now = performance.now();
    const seconds = this.#started === undefined ? 0 : (now - this.#started) / 1e3;
    const rate = seconds > 0 ? (sequences - this.#from) / seconds : undefined;
    if (this.#started === undefined && sequences > this.resumedAt) [this.#started, this.#from] = [now, sequences];
    this.tell?.({
      sequences,
      total: this.#total,
      bytes: sequences * this.record,
      totalBytes: this.#total === undefined ? undefined : this.#total * this.record,
      tokensPerSecond: rate && rate * this.settings.sequenceLength,
      secondsLeft: rate && this.#total !== undefined ? (this.#total - sequences) / rate : undefined,
    });
  }
}
