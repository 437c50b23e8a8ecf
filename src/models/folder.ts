// The folder of a Qwen3: what describes the model beside its weights, and the weights of the same save.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { readSet } from '../io/file.js';
import { type GenerationJson, readConfig, readGenerationJson } from './pretrained.js';
import { type Qwen3Config, readQwen3Config } from './qwen3-config.js';
import { Tokenizer } from './tokenizer.js';

export interface ModelFolder {
  readonly config: Qwen3Config;
  /** Whether config.json has a quantization_config: then the weights are not plain numbers. */
  readonly isQuantized: boolean;
  /** Null if there is no tokenizer.json. */
  readonly tokenizer: Tokenizer | null;
  readonly generation: GenerationJson;
}

async function readFiles(folder: string): Promise<ModelFolder> {
  const json = await readConfig(folder);
  const config = readQwen3Config(json, path.join(folder, 'config.json'));
  const hasTokenizer = existsSync(path.join(folder, 'tokenizer.json'));
  return {
    config,
    isQuantized: json.quantization_config !== undefined,
    tokenizer: hasTokenizer ? await Tokenizer.fromPretrained(folder) : null,
    generation: await readGenerationJson(folder),
  };
}

/** What a folder says of its model. The weights are not looked at. */
export const readModel = (folder: string): Promise<ModelFolder> => readSet(folder, () => readFiles(folder));

/** The config of a model's folder, and the tokenizer where there is one. */
export const readFolder = (folder: string): Promise<Pick<ModelFolder, 'config' | 'tokenizer'>> => readModel(folder);

/** The same with the weights, which `open` opens: all of one save. */
export const openModel = <W extends AsyncDisposable>(
  folder: string,
  open: (model: ModelFolder) => Promise<W>,
): Promise<ModelFolder & { readonly weights: W }> =>
  readSet(
    folder,
    async () => {
      const model = await readFiles(folder);
      return { ...model, weights: await open(model) }; // last: if reading fails, nothing is left open
    },
    ({ weights }) => weights[Symbol.asyncDispose](),
  );
