// Reads and writes Hugging Face folders: config.json, generation_config.json, weights in safetensors, and a tokenizer.

import fs from 'node:fs/promises';
import path from 'node:path';
import * as v from 'valibot';
import { byteLength, type HostArray, type TypedArray } from '../base/dtype.js';
import { ArgumentError, FileError } from '../base/errors.js';
import {
  fileName,
  flag,
  jsonText,
  list,
  object,
  optional,
  type Read,
  readJson,
  real,
  text,
  whole,
} from '../base/json.js';
import type { Shape } from '../base/shape.js';
import type { ReadLater } from '../io/array.js';
import { stateArrays } from '../io/entries.js';
import { type FileSet, openOutput, readSet, replaceFiles, type WriteFile } from '../io/file.js';
import type { ArraySource } from '../io/index.js';
import { converted, ofRows, type ReadBlock, readParts } from '../io/placed.js';
import { shardedFiles } from '../io/sharded.js';
import { checkState, type Module } from '../nn/module.js';
import { collectGarbage } from '../runtime/memory.js';
import { ownRecord } from '../runtime/record.js';
import { defaultClient, onDevice } from '../runtime/value.js';
import type { Tensor } from '../tensor/tensor.js';
import { tokenIds } from './config.js';
import type { CausalLM, GenerateOptions } from './generate.js';

const QuantizationSchema = object({
  quantization_config: optional(
    object({
      quant_method: optional(text),
      file: optional(fileName),
    }),
  ),
});
export async function readConfig(folder: string): Promise<Read<typeof QuantizationSchema>> {
  const config = await readJson(path.join(folder, 'config.json'), QuantizationSchema);
  if (!config) throw new ArgumentError(`${folder} has no config.json: it is not the folder of a model`);
  return config;
}

/** The largest number of names in an error, for each kind of mistake. */
const SHOWN = 5;
/** The least amount of garbage, in bytes, that is worth a collection. */
const LITTLE = 16 * 2 ** 20;
/**
 * Loads a model's tensors by name, one at a time and the largest first, so that in addition to the model only one tensor is in
 * memory, or a part of one that is sharded. Missing, unexpected and misshapen tensors are listed in one error before any is read.
 */
export async function loadArrays(model: Module, file: ArraySource): Promise<void> {
  const entries = [...model.stateEntries()];
  const shapeOf = (name: string) => file.entries.get(name)?.shape;
  const where = file.path === undefined ? '' : ` from ${file.path}`;
  checkState(`${model.constructor.name}${where}`, entries, shapeOf, [...file.entries.keys()], true, SHOWN);
  const client = await defaultClient();
  const wanted = new Map(entries.filter((e) => e.names.every(shapeOf)).map((e) => [e.tensor, e])); // tied tensors once
  const largestFirst = [...wanted.values()].sort((a, b) => byteLength(b.tensor) - byteLength(a.tensor));
  const total = largestFirst.reduce((sum, e) => sum + byteLength(e.tensor), 0);
  let garbage = 0; // bytes
  const readWith = async (read: () => Promise<HostArray>, { dtype }: Tensor): Promise<TypedArray> => {
    if (garbage > Math.max(total / 20, LITTLE)) {
      await collectGarbage(); // by itself V8 would wait for more garbage than a model of some GB makes
      garbage = 0;
    }
    const stored = await read();
    const data = converted(stored, dtype);
    garbage += data.byteLength + (data === stored.data ? 0 : stored.data.byteLength);
    return data;
  };
  for (const { tensor, names, stacked } of largestFirst) {
    const { sharding } = tensor.cell;
    const isWhole = !sharding || !file.readBlock;
    const readRow = (row: number, start: Shape, block: Shape): Promise<TypedArray> =>
      readWith(() => (isWhole ? file.read(names[row]!) : file.readBlock!(names[row]!, start, block)), tensor);
    const read: ReadBlock = stacked
      ? ofRows(tensor.dtype, tensor.shape.slice(0, stacked), readRow)
      : (start, block) => readRow(0, start, block);
    if (isWhole)
      tensor.assign(
        await read(
          tensor.shape.map(() => 0),
          tensor.shape,
        ),
      );
    else tensor.assign(await readParts(client, tensor.aval, sharding, read));
    ownRecord(tensor.expr).sharding = sharding;
    onDevice(client, tensor.expr); // now, so that the host's copy can be freed
    if (stacked) garbage += byteLength(tensor);
  }
}

/** The fields of generation_config.json and the options of generate. */
const GENERATION: Readonly<Record<string, keyof GenerateOptions>> = {
  bad_words_ids: 'badWordsIds',
  begin_suppress_tokens: 'beginSuppressTokens',
  do_sample: 'doSample',
  early_stopping: 'earlyStopping',
  eos_token_id: 'eosTokenIds',
  epsilon_cutoff: 'epsilonCutoff',
  eta_cutoff: 'etaCutoff',
  forced_bos_token_id: 'forcedBosTokenId',
  forced_eos_token_id: 'forcedEosTokenId',
  length_penalty: 'lengthPenalty',
  max_new_tokens: 'maxNewTokens',
  min_length: 'minLength',
  min_new_tokens: 'minNewTokens',
  min_p: 'minP',
  no_repeat_ngram_size: 'noRepeatNgramSize',
  num_beams: 'numBeams',
  num_return_sequences: 'numReturnSequences',
  repetition_penalty: 'repetitionPenalty',
  suppress_tokens: 'suppressTokens',
  temperature: 'temperature',
  top_k: 'topK',
  top_p: 'topP',
  typical_p: 'typicalP',
};
const GenerationSchema = object({
  bad_words_ids: optional(list(list(whole()))),
  begin_suppress_tokens: optional(list(whole())),
  do_sample: optional(flag),
  early_stopping: optional(v.union([v.boolean(), v.literal('never')], "true, false or 'never'")),
  eos_token_id: optional(tokenIds),
  epsilon_cutoff: optional(real),
  eta_cutoff: optional(real),
  forced_bos_token_id: optional(whole()),
  forced_eos_token_id: optional(whole()),
  length_penalty: optional(real),
  max_new_tokens: optional(whole(1)),
  min_length: optional(whole()),
  min_new_tokens: optional(whole()),
  min_p: optional(real),
  no_repeat_ngram_size: optional(whole()),
  num_beams: optional(whole(1)),
  num_return_sequences: optional(whole(1)),
  repetition_penalty: optional(real),
  suppress_tokens: optional(list(whole())),
  temperature: optional(real),
  top_k: optional(whole()),
  top_p: optional(real),
  typical_p: optional(real),
});
/** The content of generation_config.json; empty if there is none. */
export type GenerationJson = Readonly<Record<string, unknown>>;
export const readGenerationJson = async (folder: string): Promise<GenerationJson> =>
  ((await readJson(path.join(folder, 'generation_config.json'), GenerationSchema)) ?? {}) as GenerationJson;
/** The options of generate in a generation_config.json. */
export function generationOptions(json: GenerationJson): CausalLM['generationConfig'] {
  const known = Object.entries(GENERATION).filter(([theirs]) => (json[theirs] ?? null) !== null);
  return { doSample: false, ...Object.fromEntries(known.map(([theirs, ours]) => [ours, json[theirs]])) }; // transformers' default
}
/** A generation_config.json of options. Other fields that were read (pad_token_id, bos_token_id) are kept. */
const generationJson = (options: GenerateOptions, read: GenerationJson): GenerationJson => ({
  ...Object.fromEntries(Object.entries(read).filter(([theirs]) => !(theirs in GENERATION))),
  ...Object.fromEntries(Object.entries(GENERATION).map(([theirs, ours]) => [theirs, options[ours]])),
});

const TOKENIZER_FILES = ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja', 'special_tokens_map.json'];
/** The files of a tokenizer, to be copied unchanged. */
async function tokenizerFiles(from: string): Promise<[name: string, write: WriteFile][]> {
  const read = (name: string) =>
    fs.readFile(path.join(from, name)).catch((e: NodeJS.ErrnoException) => {
      if (e.code !== 'ENOENT') throw new FileError(`cannot read ${path.join(from, name)}: ${e.message}`, { cause: e });
    });
  const all = await readSet(from, () => Promise.all(TOKENIZER_FILES.map(read)));
  return TOKENIZER_FILES.flatMap((name, i) => (all[i] ? [[name, (write) => write(all[i]!)]] : []));
}

/** Floats that transformers rejects if they are written as integers: JSON.stringify writes 30.0 as 30. */
const FLOATS =
  /("(?:attn_logit_softcapping|final_logit_softcapping|initializer_range|router_(?:aux_loss_coef|jitter_noise))": -?\d+)(?=[,\n])/g;
const configText = (config: unknown): Uint8Array =>
  Buffer.from(Buffer.from(jsonText(config)).toString('utf8').replace(FLOATS, '$1.0'));

/** The content of a model's folder besides its weights. */
export interface ModelDescription {
  readonly config: unknown;
  readonly generation: GenerateOptions;
  readonly generationRead: GenerationJson;
  /** The folder whose tokenizer is copied. */
  readonly tokenizer: string | null;
}
/**
 * Writes the folder of a model: weights, config.json, generation_config.json and the tokenizer, all files or none. `weights`
 * returns the files of weights; it is called once the folder can be written.
 */
export async function saveModel(
  op: string,
  folder: string,
  weights: () => Promise<FileSet>,
  { config, generation, generationRead, tokenizer }: ModelDescription,
): Promise<void> {
  await openOutput(folder, `${op}:`);
  const { files, remove } = await weights();
  const json =
    (value: unknown): WriteFile =>
    (write) =>
      write(jsonText(value));
  const isOther = tokenizer !== null && path.resolve(tokenizer) !== path.resolve(folder);
  const beside: readonly [string, WriteFile][] = [
    ['config.json', (write) => write(configText(config))],
    ['generation_config.json', json(generationJson(generation, generationRead))],
    ...(isOther ? await tokenizerFiles(tokenizer) : []),
  ];
  await replaceFiles(
    new Map([...files, ...beside.map(([n, write]) => [path.join(folder, n), write] as const)]),
    remove,
  );
}

/** Writes the folder of a model, for savePretrained. */
export async function saveWeights(
  folder: string,
  model: Module & Saved,
  config: unknown,
  stored: StoredNames | undefined,
): Promise<void> {
  await saveModel(
    'savePretrained',
    folder,
    () => shardedFiles(folder, toStored(stateArrays(model.stateEntries()), stored)),
    {
      config,
      generation: model.generationConfig,
      generationRead: model.generationRead,
      tokenizer: model.folder,
    },
  );
}
interface Saved {
  readonly generationConfig: GenerateOptions;
  readonly generationRead: GenerationJson;
  readonly folder: string | null;
}

// ---- files whose tensors have other names or shapes

/** How an architecture's tensors in files differ from the model's. */
export interface StoredNames {
  /** The model's name of a tensor in a file; null: the tensor is ignored. */
  rename?(name: string): string | null;
  /** Whether a matrix is transposed in files: [in, out]. By the model's names. */
  isTransposed?(name: string): boolean;
}

/** A file's arrays with the model's names and shapes. */
export function fromStored(
  file: ArraySource,
  { rename = (n) => n, isTransposed = () => false }: StoredNames = {},
): ArraySource {
  const theirs = new Map<string, string>();
  for (const name of file.entries.keys()) {
    const own = rename(name);
    if (own !== null) theirs.set(own, name);
  }
  const turned = (shape: Shape): Shape => [...shape].reverse();
  const entries = new Map(
    [...theirs].map(([own, name]) => {
      const { dtype, shape } = file.entries.get(name)!;
      return [own, { dtype, shape: isTransposed(own) ? turned(shape) : shape }];
    }),
  );
  const { readBlock } = file;
  return {
    ...(file.path !== undefined && { path: file.path }),
    entries,
    async read(name) {
      const array = await file.read(theirs.get(name)!);
      return isTransposed(name) ? transposed(array) : array;
    },
    ...(readBlock && {
      async readBlock(name: string, start: Shape, block: Shape): Promise<HostArray> {
        const stored = theirs.get(name)!;
        if (!isTransposed(name)) return readBlock.call(file, stored, start, block);
        return transposed(await readBlock.call(file, stored, turned(start), turned(block)));
      },
    }),
  };
}

/** A model's arrays with the shapes of files. */
export const toStored = (
  arrays: Map<string, ReadLater>,
  { isTransposed = () => false }: StoredNames = {},
): Map<string, ReadLater> =>
  new Map(
    [...arrays].map(([name, array]) => {
      if (!isTransposed(name)) return [name, array];
      const { dtype, shape, expr } = array;
      const data = async () => transposed({ dtype, shape, data: await array.data() }).data;
      return [name, { dtype, expr, shape: [...shape].reverse(), data }];
    }),
  );

function transposed({ dtype, shape, data }: HostArray): HostArray {
  const [rows, columns] = shape as [number, number];
  const made = data.slice() as Float32Array; // an array of the same type
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) made[j * rows + i] = (data as Float32Array)[i * columns + j]!;
  return { dtype, shape: [columns, rows], data: made };
}
