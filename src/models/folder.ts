// Reads the folder of a model: its configuration, tokenizer and generation settings, together with the weights of the same save.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { anyObject, readJson } from '../base/json.js';
import { readSet } from '../io/file.js';
import type { DecoderConfig, Json } from './config.js';
import type { Architecture } from './decoder.js';
import { type GenerationJson, readConfig, readGenerationJson } from './pretrained.js';
import { Tokenizer } from './tokenizer.js';

/** The architecture of a config.json; `where` names it in errors. */
export type FindArchitecture = (json: Json, where: string) => Architecture;

export interface ModelFolder {
  readonly architecture: Architecture;
  readonly config: DecoderConfig;
  /** Whether config.json has a quantization_config: then the weights are quantized. */
  readonly isQuantized: boolean;
  /** Null if there is no tokenizer.json. */
  readonly tokenizer: Tokenizer | null;
  readonly generation: GenerationJson;
}

async function readFiles(folder: string, find: FindArchitecture): Promise<ModelFolder> {
  const { quantization_config } = await readConfig(folder);
  const where = path.join(folder, 'config.json');
  const json = (await readJson(where, anyObject)) as Json;
  const architecture = find(json, where);
  const config = architecture.read(json, where);
  const hasTokenizer = existsSync(path.join(folder, 'tokenizer.json'));
  return {
    architecture,
    config,
    isQuantized: quantization_config !== undefined,
    tokenizer: hasTokenizer ? await Tokenizer.fromPretrained(folder) : null,
    generation: await readGenerationJson(folder),
  };
}

/** Reads the description of a model from its folder, without the weights. */
export const readModel = (folder: string, find: FindArchitecture): Promise<ModelFolder> =>
  readSet(folder, () => readFiles(folder, find));

/** Reads the description of a model, and opens the weights of the same save with `open`. */
export const openModel = <W extends AsyncDisposable>(
  folder: string,
  find: FindArchitecture,
  open: (model: ModelFolder) => Promise<W>,
): Promise<ModelFolder & { readonly weights: W }> =>
  readSet(
    folder,
    async () => {
      const model = await readFiles(folder, find);
      return { ...model, weights: await open(model) }; // last, so that nothing stays open if reading fails
    },
    ({ weights }) => weights[Symbol.asyncDispose](),
  );
