// The table of supported architectures, by model_type, and AutoModelForCausalLM. To add one, write a file that exports an
// Architecture, and add it to the table.
import { FileError } from '../base/errors.js';
import { brief, type DecoderConfig, type Json, modelTypeOf } from './config.js';
import type { Architecture, DecoderForCausalLM, DecoderOptions } from './decoder.js';
import { type ModelFolder, readModel } from './folder.js';
import { gemma2 } from './gemma2.js';
import { gemma3 } from './gemma3.js';
import { gpt2 } from './gpt2.js';
import { llama } from './llama.js';
import { create, loadFolder, loadPretrained, type PretrainedOptions } from './load.js';
import { mistral } from './mistral.js';
import { mixtral } from './mixtral.js';
import { olmo2 } from './olmo2.js';
import { phi3 } from './phi3.js';
import { qwen2 } from './qwen2.js';
import { qwen3 } from './qwen3.js';
import { qwen3Moe } from './qwen3-moe.js';
import { smollm3 } from './smollm3.js';

const KNOWN = [
  llama,
  mistral,
  qwen2,
  qwen3,
  gemma2,
  gemma3,
  phi3,
  smollm3,
  olmo2,
  gpt2,
  qwen3Moe,
  mixtral,
] as readonly Architecture[];

/** The supported architectures, by model_type. */
export const ARCHITECTURES: ReadonlyMap<string, Architecture> = new Map(
  KNOWN.flatMap((a) => [a.modelType, ...(a.otherTypes ?? [])].map((type) => [type, a] as const)),
);

/** The architecture of a config.json; `where` names it in errors. */
export function architectureIn(json: Json, where = 'config.json'): Architecture {
  const type = modelTypeOf(json, where);
  const found = type === undefined ? undefined : ARCHITECTURES.get(type);
  if (found) return found;
  throw new FileError(
    `${where}: ${type === undefined ? 'model_type is missing' : `the architecture ${brief(type)} is not supported`}; supported are ${[...ARCHITECTURES.keys()].join(', ')}`,
  );
}
/** The architecture of a configuration. */
export const architectureOf = ({ modelType = qwen3.modelType }: DecoderConfig): Architecture =>
  ARCHITECTURES.get(modelType)!;

/** Reads and checks a config.json of any supported architecture. */
export const readDecoderConfig = (json: Json, where = 'config.json'): DecoderConfig =>
  architectureIn(json, where).read(json, where);

/** Creates a model with random weights. */
export const createModel = (config: DecoderConfig, options: DecoderOptions = {}): DecoderForCausalLM =>
  create(architectureOf(config), config, options);

/** Reads the config of a model's folder, and the tokenizer if there is one. */
export const readFolder = (folder: string): Promise<Pick<ModelFolder, 'config' | 'tokenizer'>> =>
  readModel(folder, architectureIn);

/** Language models of any supported architecture, selected by the model_type of config.json. */
export const AutoModelForCausalLM = {
  /** Loads a model from its folder, or by its name on the hub (meta-llama/Llama-3.2-1B). Throws if weights are missing or unexpected. */
  fromPretrained: (name: string, options: PretrainedOptions = {}): Promise<DecoderForCausalLM> =>
    loadPretrained(architectureIn, name, options),
  /** Creates a model with random weights from a config.json. */
  fromConfig: (json: Json, options: DecoderOptions = {}): DecoderForCausalLM =>
    createModel(readDecoderConfig(json), options),
  /** Loads the model that a folder describes, with its tokenizer. `load` loads the weights. Default: those of the folder. */
  fromFolder: (
    folder: string,
    options?: Parameters<typeof loadFolder>[2],
    load?: Parameters<typeof loadFolder>[3],
  ): Promise<DecoderForCausalLM> => loadFolder(architectureIn, folder, options, load),
};
