// KD caches: what a teacher says of sequences, in a folder. Ours: manifest.json, which says how it was made, and shards in
// safetensors, whose headers say where reading the data goes on behind them. The original's: meta.json and torch's files.
//   N sequences of L tokens; for each of the S = L - 1 positions K most likely next tokens and R others drawn at random
import fs from 'node:fs/promises';
import path from 'node:path';
import { checkWhole } from '../base/check.js';
import { type ArrayType, byteLength, DTYPES, type HostArray, show, sizeOf } from '../base/dtype.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { sameShape } from '../base/shape.js';
import { messageOf } from '../base/thrown.js';
import type { State } from '../data/index.js';
import { readArray } from '../io/array.js';
import { replaceFiles, withFile } from '../io/file.js';
import { type ArrayPlace, locateTorch, openSafetensors } from '../io/index.js';

export interface CacheSizes {
  /** L, in tokens. */
  readonly sequenceLength: number;
  /** K, the most likely tokens of each position. */
  readonly topK: number;
  /** R, tokens of each position that were drawn at random. */
  readonly negatives: number;
}

type Kind = 'ids' | 'mask' | 'logits';
interface Row {
  /** In both formats' files. */
  readonly stored: string;
  readonly kind: Kind;
  /** Of one sequence. */
  readonly shape: (sizes: CacheSizes) => readonly number[];
}
const tokens = ({ sequenceLength: L }: CacheSizes) => [L];
const top = ({ sequenceLength: L, topK: K }: CacheSizes) => [L - 1, K];
const random = ({ sequenceLength: L, negatives: R }: CacheSizes) => [L - 1, R];

// biome-ignore format: a table
export const FIELDS = {
  inputIds:      { stored: 'input_ids',      kind: 'ids',    shape: tokens },
  attentionMask: { stored: 'attention_mask', kind: 'mask',   shape: tokens },
  lossMask:      { stored: 'loss_mask',      kind: 'mask',   shape: tokens },
  topkIdx:       { stored: 'topk_idx',       kind: 'ids',    shape: top },
  topkLogits:    { stored: 'topk_logits',    kind: 'logits', shape: top },
  randIdx:       { stored: 'rand_idx',       kind: 'ids',    shape: random },
  randLogits:    { stored: 'rand_logits',    kind: 'logits', shape: random },
} as const satisfies Record<string, Row>;
export type Field = keyof typeof FIELDS;

/** The fields that a cache of these sizes has. */
export const fieldsOf = ({ negatives }: CacheSizes): readonly Field[] =>
  (Object.keys(FIELDS) as Field[]).filter((f) => negatives > 0 || !f.startsWith('rand'));

export type LogitsDType = 'f16' | 'bf16' | 'f32';
const DTYPE_OF = { ids: 'i32', mask: 'u8' } as const;
/** The arrays of n sequences as they are written. */
export const arrayTypes = (sizes: CacheSizes, logits: LogitsDType, n: number): Map<Field, ArrayType> =>
  new Map(
    fieldsOf(sizes).map((f) => {
      const { kind, shape } = FIELDS[f];
      return [f, { dtype: kind === 'logits' ? logits : DTYPE_OF[kind], shape: [n, ...shape(sizes)] }];
    }),
  );

// ---- our manifest

export const MANIFEST = 'manifest.json';
export const FORMAT = 'tsxla-kd-cache-v1';
/** What decides the contents of a cache: it can be continued with the same only. */
export interface CacheSettings extends CacheSizes {
  /** The hash of the tokenizer (Tokenizer.hash); null where the data were tokens already. */
  readonly tokenizer: string | null;
  /** How many logits the teacher has. */
  readonly vocabSize: number;
  readonly logits: LogitsDType;
  readonly seed: number;
  /** Whether documents follow one another in a row, or each has its own. */
  readonly pack: boolean;
  /** How documents were made of the files. */
  readonly documents: State;
  readonly sources: readonly { readonly name: string; readonly bytes: number }[];
}
export interface Manifest {
  readonly format: typeof FORMAT;
  readonly teacher: string;
  /** Of the teacher's last norm: another teacher has another. */
  readonly teacherHash: string | null;
  readonly settings: CacheSettings;
  readonly complete: boolean;
  /** How many there are when it is complete. */
  readonly sequences: number;
}

export async function readJsonFile<T>(file: string): Promise<T | undefined> {
  const text = await fs.readFile(file, 'utf8').catch((e: NodeJS.ErrnoException) => {
    if (e.code === 'ENOENT') return undefined;
    throw new DataError(`cannot read ${file}: ${e.message}`, { cause: e });
  });
  try {
    return text === undefined ? undefined : (JSON.parse(text) as T);
  } catch (e) {
    throw new DataError(`${file} is no JSON: ${messageOf(e)}`, { cause: e });
  }
}
export const writeJsonFile = (file: string, value: unknown): Promise<void> =>
  replaceFiles(new Map([[file, (write) => write(Buffer.from(`${JSON.stringify(value, null, 2)}\n`))]]));

export async function readManifest(folder: string): Promise<Manifest | undefined> {
  const manifest = await readJsonFile<Manifest>(path.join(folder, MANIFEST));
  if (manifest && manifest.format !== FORMAT)
    throw new DataError(`${folder}: its ${MANIFEST} is of format ${manifest.format}, this reads ${FORMAT}`);
  return manifest;
}

// ---- shards

export const shardName = (number: number): string => `shard-${String(number).padStart(5, '0')}.safetensors`;
export const isShard = (name: string): boolean => /^shard-\d{5,}\.safetensors$/.test(name);

export interface Shard {
  readonly path: string;
  readonly sequences: number;
  readonly fields: ReadonlyMap<Field, ArrayPlace>;
}

/** What a shard's header says beside where its arrays are. */
export interface ShardNote {
  /** The number of its first sequence in the cache. */
  readonly first: number;
  /** Where reading the data goes on after its last. */
  readonly after: State;
}

/** The header of one of our shards; it is checked that the whole file is there. */
export async function openShard(file: string, sizes: CacheSizes): Promise<Shard & ShardNote> {
  await using opened = await openSafetensors(file);
  const note = opened.metadata.get('kd-cache');
  if (!note) throw new DataError(`${file} is no shard of a KD cache`);
  return { ...shardOf(file, opened.entries, sizes), ...(JSON.parse(note) as ShardNote) };
}
export const openTorchShard = async (file: string, sizes: CacheSizes): Promise<Shard> =>
  shardOf(file, await locateTorch(file), sizes);

function shardOf(file: string, places: ReadonlyMap<string, ArrayPlace>, sizes: CacheSizes): Shard {
  const n = places.get('input_ids')?.shape[0] ?? 0;
  const fields = new Map<Field, ArrayPlace>();
  for (const field of fieldsOf(sizes)) {
    const { stored, kind, shape } = FIELDS[field] as Row;
    const place = places.get(stored) ?? (field === 'lossMask' ? places.get('attention_mask') : undefined);
    if (!place) throw new DataError(`${file} has no ${stored}: it has ${[...places.keys()].join(', ')}`);
    const wanted = [n, ...shape(sizes)];
    if (!sameShape(place.shape, wanted) || isFloat(place.dtype) !== (kind === 'logits'))
      throw new DataError(`${file}: ${stored} is ${show(place)}: in this cache it has ${wanted.join(' x ')} ${kind}`);
    fields.set(field, place);
  }
  return { path: file, sequences: n, fields };
}

/** Some sequences of a shard, nothing else of it: each field [count, ...]. */
export const readSequences = (shard: Shard, start: number, count: number): Promise<Map<Field, HostArray>> =>
  withFile(shard.path, async ({ read }) => {
    const arrays = [...shard.fields].map(
      async ([
        field,
        {
          dtype,
          shape: [, ...shape],
          position,
        },
      ]) => {
        const skip = start * sizeOf(shape) * DTYPES[dtype].bytes;
        return [field, await readArray(read, { dtype, shape: [count, ...shape] }, position + skip)] as const;
      },
    );
    return new Map(await Promise.all(arrays));
  });

/** The bytes of one sequence. */
export const bytesOfSequence = (sizes: CacheSizes, logits: LogitsDType): number =>
  [...arrayTypes(sizes, logits, 1).values()].reduce((sum, type) => sum + byteLength(type), 0);

// ---- the original's

/** What meta.json says that matters here; its other fields are kept where they are. */
export interface OriginalMeta {
  readonly format?: string;
  readonly teacher_model?: string;
  readonly tokenizer?: string;
  readonly max_length: number;
  readonly topk: number;
  readonly rand_neg?: number;
  readonly num_sequences?: number;
  readonly vocab_size?: number;
}
export const ORIGINAL_FORMAT = 'qwen_kd_topk_cache_v1';

export function checkSizes(what: string, { sequenceLength, topK, negatives }: CacheSizes, vocabSize: number): void {
  checkWhole(`${what}: sequenceLength`, sequenceLength, 2);
  checkWhole(`${what}: topK`, topK, 1);
  checkWhole(`${what}: negatives`, negatives);
  if (topK + negatives > vocabSize)
    throw new ArgumentError(
      `${what}: topK ${topK} and negatives ${negatives} are more than the ${vocabSize} tokens there are: use fewer`,
    );
}
