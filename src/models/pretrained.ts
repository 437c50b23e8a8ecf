// Models in Hugging Face's folders: config.json, weights in safetensors, a tokenizer, and how to generate.

import fs from 'node:fs/promises';
import path from 'node:path';
import { byteLength, type HostArray, type TypedArray } from '../base/dtype.js';
import { ArgumentError, FileError } from '../base/errors.js';
import { fileName, flag, jsonText, object, optional, type Read, readJson, real, text, whole } from '../base/json.js';
import type { Shape } from '../base/shape.js';
import { type FileSet, openOutput, readSet, replaceFiles, type WriteFile } from '../io/file.js';
import type { ArraySource } from '../io/index.js';
import { converted, ofRows, type ReadBlock, readParts } from '../io/placed.js';
import { checkState, type Module } from '../nn/module.js';
import { collectGarbage } from '../runtime/memory.js';
import { ownRecord } from '../runtime/record.js';
import { defaultClient, onDevice } from '../runtime/value.js';
import type { Tensor } from '../tensor/tensor.js';
import type { GenerateOptions } from './generate.js';
import { tokenIds } from './qwen3-config.js';

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

/** Names of tensors in an error, of each kind of mistake. */
const SHOWN = 5;
/** Garbage, in bytes, that is not worth looking for. */
const LITTLE = 16 * 2 ** 20;
/**
 * Takes a model's tensors by name, one after the other, the largest first: beside the model there is never more than one of
 * them in memory, and of one that is split over devices never more than a part. Whatever is missing, left over or of another
 * shape is listed in one error, before anything is read.
 */
export async function loadArrays(model: Module, file: ArraySource): Promise<void> {
  const entries = [...model.stateEntries()];
  const shapeOf = (name: string) => file.entries.get(name)?.shape;
  const where = file.path === undefined ? '' : ` from ${file.path}`;
  checkState(`${model.constructor.name}${where}`, entries, shapeOf, [...file.entries.keys()], true, SHOWN);
  const client = await defaultClient();
  const wanted = new Map(entries.filter((e) => e.names.every(shapeOf)).map((e) => [e.tensor, e])); // tied ones once
  const largestFirst = [...wanted.values()].sort((a, b) => byteLength(b.tensor) - byteLength(a.tensor));
  const total = largestFirst.reduce((sum, e) => sum + byteLength(e.tensor), 0);
  let garbage = 0; // bytes
  const readWith = async (read: () => Promise<HostArray>, { dtype }: Tensor): Promise<TypedArray> => {
    if (garbage > Math.max(total / 20, LITTLE)) {
      await collectGarbage(); // which by itself waits for more than a model of some GB leaves
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
    const read: ReadBlock = stacked ? ofRows(tensor.dtype, readRow) : (start, block) => readRow(0, start, block);
    if (isWhole)
      tensor.assign(
        await read(
          tensor.shape.map(() => 0),
          tensor.shape,
        ),
      );
    else tensor.assign(await readParts(client, tensor.aval, sharding, read));
    ownRecord(tensor.expr).sharding = sharding;
    onDevice(client, tensor.expr); // now, so that the host's copy can go
    if (stacked) garbage += byteLength(tensor);
  }
}

/** What generation_config.json says, under our names. */
const GENERATION: Readonly<Record<string, keyof GenerateOptions>> = {
  do_sample: 'doSample',
  eos_token_id: 'eosTokenIds',
  max_new_tokens: 'maxNewTokens',
  min_p: 'minP',
  repetition_penalty: 'repetitionPenalty',
  temperature: 'temperature',
  top_k: 'topK',
  top_p: 'topP',
};
const GenerationSchema = object({
  do_sample: optional(flag),
  eos_token_id: optional(tokenIds),
  max_new_tokens: optional(whole(1)),
  min_p: optional(real),
  repetition_penalty: optional(real),
  temperature: optional(real),
  top_k: optional(whole()),
  top_p: optional(real),
});
/** All of generation_config.json; empty if there is none. */
export type GenerationJson = Readonly<Record<string, unknown>>;
export const readGenerationJson = async (folder: string): Promise<GenerationJson> =>
  ((await readJson(path.join(folder, 'generation_config.json'), GenerationSchema)) ?? {}) as GenerationJson;
/** What of it is known here. */
export function generationOptions(json: GenerationJson): Omit<GenerateOptions, 'stop' | 'seed'> {
  const known = Object.entries(GENERATION).filter(([theirs]) => json[theirs] !== undefined);
  return { doSample: false, ...Object.fromEntries(known.map(([theirs, ours]) => [ours, json[theirs]])) }; // transformers' default
}
/** Options in the words of generation_config.json. What else was read (pad_token_id, bos_token_id) stays as it was. */
const generationJson = (options: GenerateOptions, read: GenerationJson): GenerationJson => ({
  ...Object.fromEntries(Object.entries(read).filter(([theirs]) => !(theirs in GENERATION))),
  ...Object.fromEntries(Object.entries(GENERATION).map(([theirs, ours]) => [theirs, options[ours]])),
});

const TOKENIZER_FILES = ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja', 'special_tokens_map.json'];
/** The files of a tokenizer, as they are. */
async function tokenizerFiles(from: string): Promise<[name: string, write: WriteFile][]> {
  const read = (name: string) =>
    fs.readFile(path.join(from, name)).catch((e: NodeJS.ErrnoException) => {
      if (e.code !== 'ENOENT') throw new FileError(`cannot read ${path.join(from, name)}: ${e.message}`, { cause: e });
    });
  const all = await readSet(from, () => Promise.all(TOKENIZER_FILES.map(read)));
  return TOKENIZER_FILES.flatMap((name, i) => (all[i] ? [[name, (write) => write(all[i]!)]] : []));
}

/** What goes into a model's folder beside its weights. */
export interface ModelDescription {
  readonly config: unknown;
  readonly generation: GenerateOptions;
  readonly generationRead: GenerationJson;
  /** The folder whose tokenizer goes with it. */
  readonly tokenizer: string | null;
}
/**
 * Writes the folder of a model: weights, config.json, generation_config.json and the tokenizer, all or none. `weights` says
 * which files hold them; it is asked once the folder can be written.
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
    ['config.json', json(config)],
    ['generation_config.json', json(generationJson(generation, generationRead))],
    ...(isOther ? await tokenizerFiles(tokenizer) : []),
  ];
  await replaceFiles(
    new Map([...files, ...beside.map(([n, write]) => [path.join(folder, n), write] as const)]),
    remove,
  );
}
