// Loads models from Hugging Face folders and from the hub. The caller selects the architecture.
import path from 'node:path';
import { checkDTypeName, type DType } from '../base/dtype.js';
import { ArgumentError, StateDictError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { HUB_OPTIONS } from '../io/hub-repo.js';
import { type HubOptions, resolveModel } from '../io/index.js';
import { openArrays } from '../io/sharded.js';
import { skipInit } from '../nn/init.js';
import type { DecoderConfig } from './config.js';
import { type Architecture, DECODER_OPTIONS, DecoderForCausalLM, type DecoderOptions } from './decoder.js';
import { type FindArchitecture, type ModelFolder, openModel, readModel } from './folder.js';
import { fromStored, generationOptions, loadArrays } from './pretrained.js';

export interface PretrainedOptions<M = DecoderForCausalLM> extends DecoderOptions, HubOptions {
  /** The dtype of the parameters. Default: that of the files. */
  readonly dtype?: DType;
  /** Shards the model over devices before the weights are read, so that each device reads only its own parts. */
  readonly place?: (model: M) => void;
}
export type FolderOptions<M = DecoderForCausalLM> = DecoderOptions & Pick<PretrainedOptions<M>, 'dtype' | 'place'>;

const picked = <O extends object, K extends keyof O>(options: O, names: readonly K[]): Pick<O, K> =>
  Object.fromEntries(Object.entries(options).filter(([name]) => names.includes(name as K))) as Pick<O, K>;

/** A model of an architecture, with random weights. */
export const create = (architecture: Architecture, config: DecoderConfig, options: DecoderOptions = {}) =>
  architecture.create?.(config, options) ?? new DecoderForCausalLM(architecture, config, options);

/** Loads a model from its folder, or by its name on the hub. Throws if weights are missing or unexpected. */
export async function loadPretrained(
  find: FindArchitecture,
  name: string,
  options: PretrainedOptions = {},
): Promise<DecoderForCausalLM> {
  checkOptions('fromPretrained', [...DECODER_OPTIONS, ...HUB_OPTIONS, 'dtype', 'place'], options);
  const { dtype } = options;
  if (dtype) checkDTypeName('fromPretrained', dtype);
  const folder = await resolveModel(name, picked(options, HUB_OPTIONS));
  return loadFolder(find, folder, options);
}

/** Loads the model that a folder describes, with its tokenizer. `load` loads the weights. Default: those of the folder. */
export async function loadFolder(
  find: FindArchitecture,
  folder: string,
  options: FolderOptions = {},
  load?: (model: DecoderForCausalLM, folder: string) => Promise<unknown>,
): Promise<DecoderForCausalLM> {
  if (load) return modelOf(folder, await readModel(folder, find), options, (m) => load(m, folder));
  const opened = await openModel(folder, find, async ({ isQuantized }) => {
    if (isQuantized)
      throw new ArgumentError(
        `fromPretrained: the weights of ${folder} are quantized: load them with loadStudent of tsxla/recovery, or write plain weights first: tsxla export --model ${folder} --safetensors FOLDER`,
      );
    return openArrays(folder);
  });
  await using file = opened.weights;
  const { stored } = opened.architecture;
  const arrays = stored ? fromStored(file, stored) : file;
  return await modelOf(folder, opened, options, (model) => loadArrays(model, arrays)).catch((e: unknown) => {
    if (!(e instanceof StateDictError)) throw e;
    const hint = `The model is described by ${path.join(folder, 'config.json')}: use the one that was saved with these weights.`;
    throw new StateDictError(`${e.message}\n\t${hint}`, e.keys);
  });
}

/** Creates a model from the description of its folder, and loads it. */
export async function modelOf(
  folder: string,
  { architecture, config, tokenizer, generation }: ModelFolder,
  { dtype, place, ...options }: FolderOptions,
  load: (model: DecoderForCausalLM) => Promise<unknown>,
): Promise<DecoderForCausalLM> {
  const model = skipInit(() => create(architecture, config, picked(options, DECODER_OPTIONS)))
    .to(dtype ?? config.dtype)
    .eval();
  place?.(model);
  await load(model);
  model.generationConfig = { ...model.generationConfig, ...generationOptions(generation) };
  model.generationRead = generation;
  model.tokenizer = tokenizer;
  model.folder = folder;
  return model;
}
