// The formats of KD caches, folders with a teacher's logits for sequences. tsxla's: manifest.json with the settings, and shards in
// safetensors, whose headers have the position in the data after the shard. The original's: meta.json and torch's files.
//   N sequences of L tokens; for each of the S = L - 1 positions K most likely next tokens and R others drawn at random
import path from 'node:path';
import * as v from 'valibot';
import { checkWhole } from '../base/check.js';
import { crc32 } from '../base/checksum.js';
import { type ArrayType, byteLength, DTYPES, type HostArray, show, sizeOf } from '../base/dtype.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { decodeFloats, indexOfNonfinite } from '../base/float.js';
import { flag, jsonText, list, object, optional, parseJson, type Read, readJson, text, whole } from '../base/json.js';
import { isFloat } from '../base/promote.js';
import { sameShape } from '../base/shape.js';
import type { State } from '../data/index.js';
import { readArray } from '../io/array.js';
import { replaceFiles, withFile } from '../io/file.js';
import { type ArrayPlace, locateTorch, openSafetensors, writeSafetensors } from '../io/index.js';
import { showNonfinite } from '../nn/finite.js';

export interface CacheSizes {
  /** L, in tokens. */
  readonly sequenceLength: number;
  /** K, the number of most likely tokens stored for each position. */
  readonly topK: number;
  /** R, the number of random tokens stored for each position. */
  readonly negatives: number;
}

type Kind = 'ids' | 'mask' | 'logits';
interface Row {
  /** The name in the files of both formats. */
  readonly stored: string;
  readonly kind: Kind;
  /** The shape for one sequence. */
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
const fieldNames = Object.keys(FIELDS) as Field[];

/** The fields that a cache of these sizes has. */
export const fieldsOf = ({ negatives }: CacheSizes): readonly Field[] =>
  fieldNames.filter((f) => negatives > 0 || !f.startsWith('rand'));

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
/** The settings that determine the content of a cache. It can only be continued with the same settings. */
export interface CacheSettings extends CacheSizes {
  /** The hash of the tokenizer (Tokenizer.hash); null if the data were tokens already. */
  readonly tokenizer: string | null;
  /** The size of the teacher's vocabulary. */
  readonly vocabSize: number;
  readonly logits: LogitsDType;
  readonly seed: number;
  /** Whether rows have several documents (packing), or one each. */
  readonly pack: boolean;
  /** How documents were read from the files. */
  readonly documents: State;
  readonly sources: readonly { readonly name: string; readonly bytes: number }[];
}
export interface Manifest {
  readonly format: typeof FORMAT;
  readonly teacher: string;
  /** A hash of the weights of the teacher's last norm, which identifies the teacher. */
  readonly teacherHash: string | null;
  readonly settings: CacheSettings;
  readonly complete: boolean;
  /** The number of sequences once it is complete. */
  readonly sequences: number;
}

const state = v.custom<State>((x) => x !== undefined, 'any value');
const LOGITS = ['f16', 'bf16', 'f32'] as const satisfies LogitsDType[];
const ManifestSchema = object({
  format: v.literal(FORMAT, `"${FORMAT}"`),
  teacher: text,
  teacherHash: v.nullable(text),
  settings: object({
    tokenizer: v.nullable(text),
    vocabSize: whole(1),
    sequenceLength: whole(2),
    topK: whole(1),
    negatives: whole(),
    logits: v.picklist(LOGITS, `one of ${LOGITS.join(', ')}`),
    seed: whole(),
    pack: flag,
    documents: state,
    sources: list(object({ name: text, bytes: whole() })),
  }),
  complete: flag,
  sequences: whole(),
});
const error = (message: string, options: ErrorOptions) => new DataError(message, options);

export const readManifest = (folder: string): Promise<Manifest | undefined> =>
  readJson(path.join(folder, MANIFEST), ManifestSchema, { error });
export const writeJsonFile = (file: string, value: unknown): Promise<void> =>
  replaceFiles(new Map([[file, (write) => write(jsonText(value))]]));

// ---- shards

export const shardName = (number: number): string => `shard-${String(number).padStart(5, '0')}.safetensors`;
export const isShard = (name: string): boolean => /^shard-\d{5,}\.safetensors$/.test(name);

export interface Shard {
  readonly path: string;
  readonly sequences: number;
  /** The number of its first sequence in the cache. */
  readonly first: number;
  readonly fields: ReadonlyMap<Field, ArrayPlace>;
  /** CRC-32 of each sequence, over its fields in the order of FIELDS. Older caches and the original's have none. */
  readonly checksums: Uint32Array | undefined;
}

/** The note in a shard's header. */
export interface ShardNote {
  /** The number of its first sequence in the cache. */
  readonly first: number;
  /** The position in the data after its last sequence. */
  readonly after: State;
}
const NOTE = 'kd-cache';
/** The CRC-32 of the note and of the arrays' types. */
const SEAL = 'kd-cache-crc32';
const NoteSchema = object({
  first: whole(),
  after: state,
  /** CRC-32 of each sequence. */
  crc32: optional(list(whole(0, 2 ** 32 - 1))),
});

/** Writes a shard. Its checksums are in its header, so that one rename publishes both data and checksums. */
export const writeShard = (file: string, arrays: ReadonlyMap<Field, HostArray>, { first, after }: ShardNote) => {
  const note: Read<typeof NoteSchema> = { first, after, crc32: Array.from(checksumsOf(arrays)) };
  const json = JSON.stringify(note);
  const named = new Map([...arrays].map(([field, array]) => [FIELDS[field].stored, array]));
  return writeSafetensors(file, named, { metadata: { [NOTE]: json, [SEAL]: sealOf(json, arrays) } });
};
const sealOf = (note: string, arrays: ReadonlyMap<Field, ArrayType>): string => {
  const types = fieldNames.filter((f) => arrays.has(f)).map((f) => `${f} ${show(arrays.get(f)!)}`);
  return crc32(Buffer.from([note, ...types].join('\n')), 0)
    .toString(16)
    .padStart(8, '0');
};

/** The CRC-32 of each sequence. */
function checksumsOf(arrays: ReadonlyMap<Field, HostArray>): Uint32Array {
  const found = new Uint32Array(arrays.get('inputIds')!.shape[0]!);
  for (const field of fieldNames) {
    const array = arrays.get(field);
    if (!array) continue;
    const { data } = array;
    const row = data.byteLength / found.length;
    for (let i = 0; i < found.length; i++)
      found[i] = crc32(new Uint8Array(data.buffer, data.byteOffset + i * row, row), found[i]!);
  }
  return found;
}

/** Reads the header of a shard in tsxla's format and checks that the file is complete. */
export async function openShard(file: string, sizes: CacheSizes): Promise<Shard & ShardNote> {
  await using opened = await openSafetensors(file);
  const note = opened.metadata.get(NOTE);
  if (!note) throw new DataError(`${file} is not a shard of a KD cache: its header has no ${NOTE}`);
  const shard = shardOf(file, opened.entries, sizes);
  const {
    first,
    after,
    crc32: checksums,
  } = parseJson(note, `${file}: the ${NOTE} of its header`, NoteSchema, { error });
  const seal = opened.metadata.get(SEAL);
  const isSealed = seal === sealOf(note, shard.fields) && checksums?.length === shard.sequences;
  if ((checksums || seal) && !isSealed)
    throw new DataError(`${file} is damaged: the checksum of its header differs: ${REMAKE}`);
  return { ...shard, first, after, checksums: checksums && Uint32Array.from(checksums) };
}
/** The advice for a damaged shard. */
const REMAKE = 'copy it again, or delete it and run the same kd-cache command again, which makes the missing shards';

export const openTorchShard = async (file: string, sizes: CacheSizes, first: number): Promise<Shard> => ({
  ...shardOf(file, await locateTorch(file), sizes),
  first,
  checksums: undefined,
});

function shardOf(file: string, places: ReadonlyMap<string, ArrayPlace>, sizes: CacheSizes) {
  const n = places.get('input_ids')?.shape[0] ?? 0;
  const fields = new Map<Field, ArrayPlace>();
  for (const field of fieldsOf(sizes)) {
    const { stored, kind, shape } = FIELDS[field] as Row;
    const place = places.get(stored) ?? (field === 'lossMask' ? places.get('attention_mask') : undefined);
    if (!place) throw new DataError(`${file} has no ${stored}; it has ${[...places.keys()].join(', ')}`);
    const wanted = [n, ...shape(sizes)];
    if (!sameShape(place.shape, wanted) || isFloat(place.dtype) !== (kind === 'logits'))
      throw new DataError(
        `${file}: ${stored} is ${show(place)}: in this cache it must have ${wanted.join(' x ')} ${kind}`,
      );
    fields.set(field, place);
  }
  return { path: file, sequences: n, fields };
}

/**
 * Reads only some sequences of a shard: each field [count, ...]. Checksums, if there are any, and values are checked: damaged
 * files would otherwise train without an error.
 */
export async function readSequences(
  shard: Shard,
  start: number,
  count: number,
  vocabSize: number | null,
): Promise<Map<Field, HostArray>> {
  const arrays = await withFile(shard.path, async ({ read }) => {
    const reads = [...shard.fields].map(async ([field, { dtype, shape, position }]) => {
      const row = shape.slice(1);
      const skip = start * sizeOf(row) * DTYPES[dtype].bytes;
      return [field, await readArray(read, { dtype, shape: [count, ...row] }, position + skip)] as const;
    });
    return new Map(await Promise.all(reads));
  });
  const { checksums } = shard;
  const damaged = checksums ? checksumsOf(arrays).findIndex((crc, i) => crc !== checksums[start + i]) : -1;
  if (damaged >= 0)
    throw new DataError(
      `${shard.path} is damaged: the checksum of sequence ${start + damaged} (${shard.first + start + damaged} of the cache) differs: ${REMAKE}`,
    );
  const wrong = firstWrong(arrays, vocabSize);
  if (wrong) throw new DataError(wrongText(shard, start, wrong, vocabSize));
  return arrays;
}

// ---- values

/** A value that is invalid in a cache. */
export interface WrongValue {
  readonly field: Field;
  readonly sequence: number;
  readonly position: number;
  /** The index among the candidates of a position. */
  readonly candidate: number;
  readonly value: number;
}

/** The first invalid value: a token outside the vocabulary, a mask that is neither 0 nor 1, a logit that is not finite. */
export function firstWrong(arrays: ReadonlyMap<Field, HostArray>, vocabSize: number | null): WrongValue | undefined {
  for (const [field, { dtype, shape, data }] of arrays) {
    const { kind } = FIELDS[field];
    const most = kind === 'mask' ? 1 : (vocabSize ?? 2 ** 31) - 1;
    const at = kind === 'logits' ? indexOfNonfinite(dtype, data) : indexOutside(data, most);
    if (at < 0) continue;
    const [, positions, candidates = 1] = shape as readonly [number, number, number?];
    const position = Math.floor(at / candidates);
    const [value] = decodeFloats(dtype, data.subarray(at, at + 1));
    return {
      field,
      sequence: Math.floor(position / positions),
      position: position % positions,
      candidate: at % candidates,
      value: Number(value),
    };
  }
  return undefined;
}
/** The index of the first number that is not from 0 to `most`. */
function indexOutside(data: HostArray['data'], most: number): number {
  for (let i = 0; i < data.length; i++) if (!(data[i]! >= 0 && data[i]! <= most)) return i;
  return -1;
}

function wrongText({ path: file, first }: Shard, start: number, wrong: WrongValue, vocabSize: number | null): string {
  const { field, sequence, position, value } = wrong;
  const { stored, kind } = FIELDS[field];
  const n = start + sequence;
  const where = `${file}: sequence ${n} (${first + n} of the cache), position ${position}: ${stored} holds`;
  if (kind === 'mask') return `${where} ${value}: a mask is 0 or 1`;
  if (kind === 'ids') {
    const known = vocabSize === null ? 'token ids are not negative' : `the vocabulary has 0 to ${vocabSize - 1}`;
    return `${where} token ${value}, but ${known}: use a cache of a teacher with the same tokenizer and vocabulary`;
  }
  return `${where} ${showNonfinite(value)}: the teacher's logits must be finite: make the cache again with f32 storage (--logits f32)`;
}

/** The size of one sequence, in bytes. */
export const bytesOfSequence = (sizes: CacheSizes, logits: LogitsDType): number =>
  [...arrayTypes(sizes, logits, 1).values()].reduce((sum, type) => sum + byteLength(type), 0);

// ---- the original's format

/** The fields of meta.json that are read. */
const MetaSchema = object({ teacher_model: optional(text), vocab_size: optional(whole(1)) });
const ProgressSchema = object({ n_written: optional(whole()) });
export const readOriginalMeta = (folder: string) => readJson(path.join(folder, 'meta.json'), MetaSchema, { error });
export const readOriginalProgress = (folder: string) =>
  readJson(path.join(folder, 'progress.json'), ProgressSchema, { error });
export const ORIGINAL_FORMAT = 'qwen_kd_topk_cache_v1';

export function checkSizes(what: string, { sequenceLength, topK, negatives }: CacheSizes, vocabSize: number): void {
  checkWhole(`${what}: sequenceLength`, sequenceLength, 2);
  checkWhole(`${what}: topK`, topK, 1);
  checkWhole(`${what}: negatives`, negatives);
  if (topK + negatives > vocabSize)
    throw new ArgumentError(
      `${what}: topK ${topK} and negatives ${negatives} are together more than the vocabulary of ${vocabSize} tokens: use fewer`,
    );
}
