// Models in Hugging Face's folders: config.json, weights in safetensors, a tokenizer, and how to generate.
import fs from 'node:fs/promises';
import path from 'node:path';
import { byteLength, type HostArray, type TypedArray } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { stateArrays } from '../io/entries.js';
import { type ArraySource, openSharded, writeSharded } from '../io/index.js';
import { converted, ofRows, type ReadBlock, readParts } from '../io/placed.js';
import { checkState, type Module } from '../nn/module.js';
import { collectGarbage } from '../runtime/memory.js';
import { defaultClient, onDevice } from '../runtime/value.js';
import type { Tensor } from '../tensor/tensor.js';
import type { GenerateOptions } from './generate.js';
import { readJson } from './tokenizer.js';

export async function readConfig(folder: string): Promise<unknown> {
  const config = await readJson(folder, 'config.json');
  if (!config) throw new ArgumentError(`${folder} has no config.json: it is not the folder of a model`);
  return config;
}

/** Takes a model's weights from its folder. */
export async function loadWeights(model: Module, folder: string): Promise<void> {
  await using file = await openSharded(folder);
  await loadArrays(model, file);
}
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
  checkState(model.constructor.name, entries, shapeOf, [...file.entries.keys()], true);
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
    tensor.expr.sharding = sharding;
    onDevice(client, tensor.expr); // now, so that the host's copy can go
    if (stacked) garbage += byteLength(tensor);
  }
}

/** Weights and their description; a tied weight once. */
export async function saveWeights(model: Module, folder: string, config: unknown): Promise<void> {
  await writeSharded(folder, stateArrays(model.stateEntries()));
  await writeJson(folder, 'config.json', config);
}

export const writeJson = (folder: string, name: string, value: unknown): Promise<void> =>
  fs.writeFile(path.join(folder, name), `${JSON.stringify(value, null, 2)}\n`);

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
export async function readGenerationConfig(folder: string): Promise<Omit<GenerateOptions, 'stop' | 'seed'>> {
  const json = (await readJson(folder, 'generation_config.json')) ?? {};
  const known = Object.entries(GENERATION).filter(([theirs]) => json[theirs] !== undefined && json[theirs] !== null);
  const options = Object.fromEntries(known.map(([theirs, ours]) => [ours, json[theirs]]));
  return { doSample: false, ...options }; // transformers' default
}
export const writeGenerationConfig = (folder: string, options: GenerateOptions): Promise<void> =>
  writeJson(
    folder,
    'generation_config.json',
    Object.fromEntries(Object.entries(GENERATION).map(([theirs, ours]) => [theirs, options[ours]])),
  );

const TOKENIZER_FILES = ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja', 'special_tokens_map.json'];
/** The files of a tokenizer, as they are. */
export async function copyTokenizer(from: string, to: string): Promise<void> {
  if (path.resolve(from) === path.resolve(to)) return;
  for (const name of TOKENIZER_FILES)
    await fs.copyFile(path.join(from, name), path.join(to, name)).catch((e: NodeJS.ErrnoException) => {
      if (e.code !== 'ENOENT') throw e;
    });
}
