// Models in Hugging Face's folders: config.json, weights in safetensors, a tokenizer, and how to generate.
import fs from 'node:fs/promises';
import path from 'node:path';
import { byteLength, type DType, type TypedArray } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { decodeFloats, encodeNumbers } from '../base/float.js';
import { type HostArray, openSharded, writeSharded } from '../io/index.js';
import { checkState, type Module, setState } from '../nn/module.js';
import { collectGarbage } from '../runtime/memory.js';
import { defaultClient, onDevice } from '../runtime/value.js';
import type { GenerateOptions } from './generate.js';
import { readJson } from './tokenizer.js';

export async function readConfig(folder: string): Promise<unknown> {
  const config = await readJson(folder, 'config.json');
  if (!config) throw new ArgumentError(`${folder} has no config.json: it is not the folder of a model`);
  return config;
}

/**
 * Takes a model's weights from its folder, by name, one after the other, the largest first: beside the model there is never
 * more than one of them in memory. Whatever is missing, left over or of another shape is listed in one error, before anything
 * is read.
 */
export async function loadWeights(model: Module, folder: string): Promise<void> {
  await using file = await openSharded(folder);
  const entries = [...model.stateEntries()];
  const shapeOf = (name: string) => file.entries.get(name)?.shape;
  checkState(model.constructor.name, entries, shapeOf, [...file.entries.keys()], true);
  const client = await defaultClient();
  const wanted = new Map(entries.filter((e) => e.names.every(shapeOf)).map((e) => [e.tensor, e])); // tied ones once
  const largestFirst = [...wanted.values()].sort((a, b) => byteLength(b.tensor) - byteLength(a.tensor));
  const some = largestFirst.reduce((sum, e) => sum + byteLength(e.tensor), 0) / 20;
  let garbage = 0; // bytes
  for (const { tensor, names, stacked } of largestFirst) {
    const rows: HostArray[] = [];
    for (const name of names) rows.push(converted(await file.read(name), tensor.dtype));
    setState(tensor, names, rows, stacked);
    onDevice(client, tensor.expr); // now, so that the host's copy can go
    garbage += byteLength(tensor);
    if (garbage < some) continue;
    rows.length = 0;
    await collectGarbage(); // which waits for more of it than a model of some GB can leave
    garbage = 0;
  }
}

/** On the host: a program for each shape would take longer. */
const converted = ({ dtype, shape, data }: HostArray, to: DType): HostArray => {
  if (dtype === to) return { dtype, shape, data };
  const numbers = decodeFloats(dtype, data);
  return { dtype: to, shape, data: to === 'f32' && numbers instanceof Float32Array ? numbers : encode(to, numbers) };
};
const encode = (to: DType, numbers: TypedArray): TypedArray => encodeNumbers(to, numbers as ArrayLike<number>);

/** Weights and their description; a tied weight once. */
export async function saveWeights(model: Module, folder: string, config: unknown): Promise<void> {
  const state = model.stateDict();
  const seen = new Set<unknown>();
  for (const { tensor, names } of model.stateEntries()) {
    if (seen.has(tensor)) for (const name of names) state.delete(name);
    seen.add(tensor);
  }
  await fs.mkdir(folder, { recursive: true });
  await writeSharded(folder, state);
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
