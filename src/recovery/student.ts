// Loads and saves students, plain or quantized: the models that recovery trains and writes.
import fs from 'node:fs/promises';
import path from 'node:path';
import type { DType } from '../base/dtype.js';
import { ArgumentError, FileError, StateDictError } from '../base/errors.js';
import { flag, object, optional, readJson, real, text, whole } from '../base/json.js';
import { checkOptions } from '../base/options.js';
import { readLater, stateArrays } from '../io/entries.js';
import { type FileSet, readSet, type WriteFile } from '../io/file.js';
import { isHubFile, resolveBeside } from '../io/hub-files.js';
import { HUB_OPTIONS } from '../io/hub-repo.js';
import {
  type ArraySource,
  type HubOptions,
  openSafetensors,
  openTorch,
  resolveFile,
  resolveModel,
} from '../io/index.js';
import { shardedFiles } from '../io/sharded.js';
import { putAdapters } from '../lora/files.js';
import { adaptersOf, type LoraLinear, type LoraOptions, loadAdapters } from '../lora/index.js';
import { AutoModelForCausalLM, architectureIn } from '../models/auto.js';
import { openModel } from '../models/folder.js';
import type { DecoderForCausalLM, DecoderOptions } from '../models/index.js';
import { modelOf } from '../models/load.js';
import { readConfig, saveModel, toStored } from '../models/pretrained.js';
import { importOriginal, type OriginalConfig, originalConfig, quantLinears } from '../quant/index.js';
import { keepWeight, namesOf } from '../quant/model.js';
import { originalFile } from '../quant/original.js';
import { loadPackedArrays, packedFile } from '../quant/packed.js';
import { noGrad } from '../tensor/autograd.js';
import type { Tensor } from '../tensor/tensor.js';

/**
 * plain: an unquantized Hugging Face folder. packed: the same with linears of 2 or 4 bits, as `tsxla quantize` writes it.
 * original: a state dict of Anemll's recipe, and its config.json.
 */
export type StudentForm = 'plain' | 'packed' | 'original';

export interface StudentOptions extends DecoderOptions, HubOptions {
  /** The dtype of weights and activations. Default: that of its config.json. */
  readonly dtype?: DType;
  /** For files of the original, which do not describe the model: the folder or hub name of the model they were made of. */
  readonly base?: string;
  /** Dequantize weights once and keep them, for a student whose scales are not trained. Default: true. */
  readonly materialize?: boolean;
  /** Adapters to load: a folder or file (loadAdapters), or false for none. Default: those in the original's files. */
  readonly adapters?: string | boolean;
  /** Training options of the adapters in the original's files. */
  readonly adapterOptions?: AdaptersToTrain;
}
export type AdaptersToTrain = Pick<LoraOptions, 'dropout' | 'trainNorms' | 'trainEmbeddings' | 'trainLmHead'>;
export interface Student {
  readonly model: DecoderForCausalLM;
  readonly form: StudentForm;
  /** The source of its weights: a folder, or the original's file. */
  readonly path: string;
  /** The adapters that were loaded, by the names of their layers. */
  readonly adapters: ReadonlyMap<string, LoraLinear>;
}

/** The weights of a packed student. Not model.safetensors, which other libraries would read without the linears. */
export const PACKED_FILE = 'model.packed.safetensors';
/** `quant_method` in `quantization_config`; transformers rejects a method that it does not know. */
const METHOD = 'tsxla';
/** The original's file names, in the order in which they are looked for. */
const ORIGINAL_FILES = [
  'model_state_dict.pt',
  'model_state_dict.safetensors',
  'recovery_best.pt',
  'final_recovery_lora.pt',
  'checkpoint_fp32.pt',
];
const ORIGINAL_FILE = ORIGINAL_FILES[0]!;

/** Loads a student of any form: from a folder, by its name on the hub, or from a file of the original. */
export async function loadStudent(name: string, options: StudentOptions = {}): Promise<Student> {
  const own = ['dtype', 'base', 'materialize', 'adapters', 'adapterOptions'] as const;
  checkOptions('loadStudent', ['scanLayers', 'checkpoint', 'unroll', ...HUB_OPTIONS, ...own], options);
  const { materialize = true, adapters = true, adapterOptions = {} } = options;
  const found = await findStudent(name, options);
  const { form, folder, file } = found;
  if (typeof adapters === 'string' && !isHubFile(adapters) && !(await isThere(adapters)))
    throw new FileError(`adapters: ${adapters} does not exist`);
  const load = {
    plain: () => AutoModelForCausalLM.fromFolder(folder, options),
    packed: () => loadPackedFolder(found, options),
    original: () => loadOriginalFile(found, options, adapters === true, adapterOptions),
  }[form];
  const model = await load().catch((e: unknown) => {
    if (!(e instanceof StateDictError) || form === 'plain') throw e;
    const { missing, unexpected, misshapen } = e.keys;
    const more = missing.length + unexpected.length + misshapen.length - 1;
    const [, first] = e.message.split('\n\t');
    throw new ArgumentError(
      `${file} does not belong to the model ${folder}: ${first}${more ? ` In all, ${more + 1} tensors differ.` : ''} Name the model that it was made of.`,
      { cause: e },
    );
  });
  if (typeof adapters === 'string') await loadAdapters(model, adapters);
  if (materialize) for (const [, layer] of quantLinears(model)) await keepWeight(layer, model.lmHead.weight.dtype);
  return { model, form, path: form === 'plain' ? folder : file, adapters: adaptersOf(model) };
}

export interface FoundStudent {
  readonly form: StudentForm;
  /** The folder with the config.json of the model, and its tokenizer. */
  readonly folder: string;
  /** The file with the weights, unless the form is plain. */
  readonly file: string;
  /** The config.json of the original, else empty. */
  readonly config: OriginalConfig;
}

/** Finds the form and files of a student. Only configs are read, no weights. */
export async function findStudent(given: string, options: StudentOptions = {}): Promise<FoundStudent> {
  const hub = Object.fromEntries(Object.entries(options).filter(([key]) => HUB_OPTIONS.includes(key as 'offline')));
  const { revision: _, ...other } = hub;
  const name = isHubFile(given) ? await resolveFile(given, other) : given;
  if (isHubFile(given)) await resolveBeside(given, 'config.json'); // which is read from the same folder
  const stat = await fs.stat(name).catch(() => undefined);
  const file = stat?.isFile() ? name : stat ? await originalIn(name) : undefined;
  if (file) {
    const config = await readOriginalConfig(path.dirname(file));
    if (!/\.(pt|pth|bin|safetensors)$/.test(file))
      throw new ArgumentError(`${file} is not a model: give a folder, or a .pt or .safetensors file of the original`);
    const base = options.base ?? (config.model_id || undefined);
    if (!base)
      throw new ArgumentError(
        `${file} does not name its model: pass the model that it was made of as base, or with --model`,
      );
    return { form: 'original', folder: await resolveModel(base, hub), file, config };
  }
  const folder = await resolveModel(name, hub);
  const { quantization_config: quantized } = await readSet(folder, () => readConfig(folder));
  const weights = path.join(folder, quantized?.file ?? '');
  if (quantized && quantized.quant_method !== METHOD)
    throw new ArgumentError(
      `${folder} is quantized by ${quantized.quant_method}: only plain folders and those of \`tsxla quantize\` can be loaded`,
    );
  if (quantized && !quantized.file)
    throw new FileError(
      `${path.join(folder, 'config.json')}: "quantization_config.file" is missing: expected the name of a file in the same folder`,
    );
  if (quantized && !(await isThere(weights)))
    throw new FileError(`${folder} is quantized, but its file ${quantized.file} is missing: copy the whole folder`);
  return { form: quantized ? 'packed' : 'plain', folder, file: weights, config: {} };
}

const isThere = (file: string): Promise<boolean> =>
  fs.access(file).then(
    () => true,
    () => false,
  );

/** The state dict in a folder of the original; undefined if it is the folder of a model. */
async function originalIn(folder: string): Promise<string | undefined> {
  const config = await readJson(path.join(folder, 'config.json'), object({ model_type: optional(text) }));
  if (config?.model_type) return undefined;
  const names = await fs.readdir(folder);
  const others = names.filter((name) => name.endsWith('.pt'));
  const one = ORIGINAL_FILES.find((name) => names.includes(name)) ?? (others.length === 1 ? others[0] : undefined);
  return one && path.join(folder, one);
}

/** The fields of the original's config.json that are read. */
const OriginalSchema = object({
  model_id: optional(text),
  group_size: optional(whole(1)),
  force_positive_scales: optional(flag),
  magnitude_activation: optional(text),
  recovery_alpha: optional(real),
  lora_alpha: optional(real),
});
const readOriginalConfig = async (folder: string): Promise<OriginalConfig> =>
  ((await readJson(path.join(folder, 'config.json'), OriginalSchema)) ?? {}) as OriginalConfig;

async function loadPackedFolder({ folder, file }: FoundStudent, options: StudentOptions): Promise<DecoderForCausalLM> {
  const opened = await openModel(folder, architectureIn, () => openSafetensors(file));
  await using weights = opened.weights;
  return await modelOf(folder, opened, options, (model) => loadPackedArrays(model, weights));
}

async function loadOriginalFile(
  { folder, file }: FoundStudent,
  options: StudentOptions,
  adapters: boolean,
  adapterOptions: AdaptersToTrain,
): Promise<DecoderForCausalLM> {
  const beside = path.dirname(file);
  const open = () => (file.endsWith('.safetensors') ? openSafetensors(file) : openTorch(file, 'model_state_dict'));
  const opened = await readSet(
    beside,
    async () => ({ config: await readOriginalConfig(beside), state: await open() }),
    ({ state }) => state[Symbol.asyncDispose](),
  );
  await using state = opened.state;
  const load = (model: DecoderForCausalLM) => loadOriginal(model, state, opened.config, adapters, adapterOptions);
  return await AutoModelForCausalLM.fromFolder(folder, options, load);
}

async function loadOriginal(
  model: DecoderForCausalLM,
  state: ArraySource,
  config: OriginalConfig,
  adapters: boolean,
  options: AdaptersToTrain,
): Promise<void> {
  const { adapters: saved } = await importOriginal(model, state, config);
  if (!saved.size || !adapters) return;
  const rank = [...saved].find(([name]) => name.endsWith('lora_A'))?.[1].shape[0] ?? 0;
  const alpha = config.recovery_alpha ?? config.lora_alpha ?? rank;
  putAdapters(model, saved, { ...options, rank, alpha: Number(alpha) });
}

// ---- writing

export interface SaveStudentOptions {
  /** Default: 'packed' if the model is quantized, else 'plain'. 'plain' stores the dequantized weights of a quantized model. */
  readonly form?: StudentForm;
  /** The folder whose tokenizer is copied. Default: the one that the model was loaded from. */
  readonly tokenizerFrom?: string;
  /** The dtype of packed scales; f16 halves their size. Default: unchanged. */
  readonly scaleDtype?: DType;
  /** The model named in the original's config.json. Default: the folder that it was loaded from. */
  readonly modelId?: string;
}

/** Writes a folder for loadStudent. Only the original's form stores adapters; otherwise merge them, or use saveAdapters. */
export async function saveStudent(
  folder: string,
  model: DecoderForCausalLM,
  options: SaveStudentOptions = {},
): Promise<void> {
  checkOptions('saveStudent', ['form', 'tokenizerFrom', 'scaleDtype', 'modelId'], options);
  const quantized = [...quantLinears(model)].length > 0;
  const { form = quantized ? 'packed' : 'plain', scaleDtype, modelId = model.folder ?? '' } = options;
  if (!['plain', 'packed', 'original'].includes(form))
    throw new ArgumentError(`saveStudent: form is '${form}': it must be plain, packed or original`);
  if (form !== 'original' && adaptersOf(model).size)
    throw new ArgumentError(
      'saveStudent: the model has adapters: merge them into its weights with mergeAndUnload, or save them with saveAdapters',
    );
  if (form !== 'plain' && !quantized)
    throw new ArgumentError(`saveStudent: form is ${form}, but the model is not quantized: use plain`);
  await checkStudentOutput(folder, form);
  const plain = model.architecture.write(model.config, model.lmHead.weight.dtype);
  const file = (name: string, write: WriteFile): FileSet => ({
    files: new Map([[path.join(folder, name), write]]),
    remove: [],
  });
  const weights = {
    plain: () => shardedFiles(folder, toStored(plainArrays(model), model.architecture.stored)),
    packed: async () => file(PACKED_FILE, (await packedFile(model, scaleDtype ? { scaleDtype } : {})).write),
    original: async () => file(ORIGINAL_FILE, await originalFile(model)),
  }[form];
  const config = {
    plain: () => plain,
    packed: () => ({ ...plain, quantization_config: { quant_method: METHOD, file: PACKED_FILE } }),
    original: () => ({ ...originalConfig(model, { modelId: known }), ...adapterConfig(model) }),
  }[form];
  const known = (await isThere(modelId)) ? path.resolve(modelId) : modelId; // valid from any folder
  await saveModel('saveStudent', folder, weights, {
    config: config(),
    generation: model.generationConfig,
    generationRead: model.generationRead,
    tokenizer: options.tokenizerFrom ?? model.folder,
  });
}

const WEIGHTS: Readonly<Record<StudentForm, string>> = {
  plain: 'model.safetensors',
  packed: PACKED_FILE,
  original: ORIGINAL_FILE,
};

/** Throws if a folder has weights of another form: it would be two models with one config.json. */
export async function checkStudentOutput(folder: string, form: StudentForm): Promise<void> {
  for (const [other, file] of Object.entries(WEIGHTS))
    for (const name of [file, `${file}.index.json`])
      if (other !== form && (await isThere(path.join(folder, name))))
        throw new ArgumentError(
          `${folder} has ${name}, the weights of another model, and ${WEIGHTS[form]} would be written beside it: use another folder, or remove that model`,
        );
}

/** The adapters' fields of the original's config.json. */
function adapterConfig(model: DecoderForCausalLM): object {
  const [first] = adaptersOf(model).values();
  return first ? { recovery_lora: true, recovery_r: first.rank, recovery_alpha: first.alpha } : {};
}

/** All weights as plain arrays. Weights of quantized linears are computed when they are written. */
export function plainArrays(model: DecoderForCausalLM): ReturnType<typeof stateArrays> {
  const { dtype } = model.lmHead.weight;
  const replaced = new Set<Tensor>();
  const weights = [...quantLinears(model)].flatMap(([name, layer]) => {
    const tensors = [...layer.stateEntries()].map((e) => e.tensor).filter((t) => t !== layer.bias);
    for (const t of tensors) replaced.add(t);
    const make = () => noGrad(() => layer.effectiveWeight().to(dtype));
    const { shape } = make();
    const names = namesOf(name, shape.slice(0, -2)).map((of) => `${of}.weight`);
    return readLater(names, { dtype, shape: shape.slice(-2) }, tensors[0]!.expr, () => make().data());
  });
  const others = stateArrays([...model.stateEntries()].filter((e) => !replaced.has(e.tensor)));
  return new Map([...others, ...weights]);
}
