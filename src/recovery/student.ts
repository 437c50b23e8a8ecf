// Students in folders, quantized or not: what recovery starts from, and what it leaves behind.
import fs from 'node:fs/promises';
import path from 'node:path';
import type { DType } from '../base/dtype.js';
import { ArgumentError, FileError, StateDictError } from '../base/errors.js';
import { flag, object, optional, readJson, real, text, whole } from '../base/json.js';
import { checkOptions } from '../base/options.js';
import { readLater, stateArrays } from '../io/entries.js';
import { type FileSet, readSet, type WriteFile } from '../io/file.js';
import { HUB_OPTIONS } from '../io/hub.js';
import { type ArraySource, type HubOptions, openSafetensors, openTorch, resolveModel } from '../io/index.js';
import { shardedFiles } from '../io/sharded.js';
import { putAdapters } from '../lora/files.js';
import { adaptersOf, type LoraLinear, type LoraOptions, loadAdapters } from '../lora/index.js';
import { openModel } from '../models/folder.js';
import { Qwen3ForCausalLM, type Qwen3Options, writeQwen3Config } from '../models/index.js';
import { readConfig, saveModel } from '../models/pretrained.js';
import { modelOf } from '../models/qwen3.js';
import { importOriginal, type OriginalConfig, originalConfig, quantLinears } from '../quant/index.js';
import { keepWeight, namesOf } from '../quant/model.js';
import { originalFile } from '../quant/original.js';
import { loadPackedArrays, packedFile } from '../quant/packed.js';
import { noGrad } from '../tensor/autograd.js';
import type { Tensor } from '../tensor/tensor.js';

/**
 * plain: a folder of Hugging Face's, every weight a number. packed: the same with linears of 2 or 4 bits, as `tsxla quantize`
 * writes it. original: a state dict of the recipe behind spec 000, and its config.json.
 */
export type StudentForm = 'plain' | 'packed' | 'original';

export interface StudentOptions extends Qwen3Options, HubOptions {
  /** What it computes in. Default: that of its config.json. */
  readonly dtype?: DType;
  /** For the original's files, which do not describe the model: a folder or name of the Qwen3 they were made of. */
  readonly base?: string;
  /** Quantized weights are computed now and kept, for a student whose scales are not trained. Default: true. */
  readonly materialize?: boolean;
  /** Adapters that are put on it: a folder or file (loadAdapters). Default: those that the original's files hold. */
  readonly adapters?: string | boolean;
  /** How those that the original's files hold are trained. */
  readonly adapterOptions?: AdaptersToTrain;
}
export type AdaptersToTrain = Pick<LoraOptions, 'dropout' | 'trainNorms' | 'trainEmbeddings' | 'trainLmHead'>;
export interface Student {
  readonly model: Qwen3ForCausalLM;
  readonly form: StudentForm;
  /** Where its weights were: a folder, or the original's file. */
  readonly path: string;
  /** Those that came with it, by the names of their layers. */
  readonly adapters: ReadonlyMap<string, LoraLinear>;
}

/** The weights of a packed student. Not model.safetensors: others would read it and miss the weights of its linears. */
export const PACKED_FILE = 'model.packed.safetensors';
/** Under `quantization_config`, whose method transformers looks up, and refuses one that it does not know. */
const METHOD = 'tsxla';
/** What the original calls its files, the one that is read first. */
const ORIGINAL_FILES = [
  'model_state_dict.pt',
  'model_state_dict.safetensors',
  'recovery_best.pt',
  'final_recovery_lora.pt',
  'checkpoint_fp32.pt',
];
const ORIGINAL_FILE = ORIGINAL_FILES[0]!;

/** Reads a student of any form: from its folder, by its name on the hub, or from a file of the original's. */
export async function loadStudent(name: string, options: StudentOptions = {}): Promise<Student> {
  const own = ['dtype', 'base', 'materialize', 'adapters', 'adapterOptions'] as const;
  checkOptions('loadStudent', ['scanLayers', 'checkpoint', 'unroll', ...HUB_OPTIONS, ...own], options);
  const { materialize = true, adapters = true, adapterOptions = {} } = options;
  const found = await findStudent(name, options);
  const { form, folder, file } = found;
  if (typeof adapters === 'string' && !(await isThere(adapters)))
    throw new FileError(`there are no adapters ${adapters}`);
  const load = {
    plain: () => Qwen3ForCausalLM.fromFolder(folder, options),
    packed: () => loadPackedFolder(found, options),
    original: () => loadOriginalFile(found, options, adapters === true, adapterOptions),
  }[form];
  const model = await load().catch((e: unknown) => {
    if (!(e instanceof StateDictError) || form === 'plain') throw e;
    const { missing, unexpected, misshapen } = e.keys;
    const more = missing.length + unexpected.length + misshapen.length - 1;
    const [, first] = e.message.split('\n\t');
    throw new ArgumentError(
      `${file} is of another model than ${folder}: ${first}${more ? ` In all, ${more + 1} tensors differ.` : ''} Name the model that it was made of.`,
      { cause: e },
    );
  });
  if (typeof adapters === 'string') await loadAdapters(model, adapters);
  if (materialize) for (const [, layer] of quantLinears(model)) await keepWeight(layer, model.lmHead.weight.dtype);
  return { model, form, path: form === 'plain' ? folder : file, adapters: adaptersOf(model) };
}

export interface FoundStudent {
  readonly form: StudentForm;
  /** With the config.json of a Qwen3, and its tokenizer. */
  readonly folder: string;
  /** With the weights, unless it is plain. */
  readonly file: string;
  /** The original's. */
  readonly config: OriginalConfig;
}

/** Which form it has. Nothing but descriptions is read. */
export async function findStudent(name: string, options: StudentOptions = {}): Promise<FoundStudent> {
  const hub = Object.fromEntries(Object.entries(options).filter(([key]) => HUB_OPTIONS.includes(key as 'offline')));
  const stat = await fs.stat(name).catch(() => undefined);
  const file = stat?.isFile() ? name : stat ? await originalIn(name) : undefined;
  if (file) {
    const config = await readOriginalConfig(path.dirname(file));
    if (!/\.(pt|pth|bin|safetensors)$/.test(file))
      throw new ArgumentError(`${file} is no model: it takes a folder, or a .pt or .safetensors file of the original`);
    const base = options.base ?? (config.model_id || undefined);
    if (!base)
      throw new ArgumentError(
        `${file} does not say what model it is of: name the Qwen3 it was made of as base, or with --model`,
      );
    return { form: 'original', folder: await resolveModel(base, hub), file, config };
  }
  const folder = await resolveModel(name, hub);
  const { quantization_config: quantized } = await readSet(folder, () => readConfig(folder));
  const weights = path.join(folder, quantized?.file ?? '');
  if (quantized && quantized.quant_method !== METHOD)
    throw new ArgumentError(
      `${folder} is quantized by ${quantized.quant_method}: this reads plain folders, and those that tsxla quantize writes`,
    );
  if (quantized && !quantized.file)
    throw new FileError(
      `${path.join(folder, 'config.json')}: "quantization_config.file" is missing: expected the name of a file in the same folder`,
    );
  if (quantized && !(await isThere(weights)))
    throw new FileError(`${folder} is quantized, but its ${quantized.file} is not there: copy the whole folder`);
  return { form: quantized ? 'packed' : 'plain', folder, file: weights, config: {} };
}

const isThere = (file: string): Promise<boolean> =>
  fs.access(file).then(
    () => true,
    () => false,
  );

/** The state dict in a folder of the original's; none, if it is the folder of a model. */
async function originalIn(folder: string): Promise<string | undefined> {
  const config = await readJson(path.join(folder, 'config.json'), object({ model_type: optional(text) }));
  if (config?.model_type) return undefined;
  const names = await fs.readdir(folder);
  const others = names.filter((name) => name.endsWith('.pt'));
  const one = ORIGINAL_FILES.find((name) => names.includes(name)) ?? (others.length === 1 ? others[0] : undefined);
  return one && path.join(folder, one);
}

/** What is read of the original's config.json. */
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

async function loadPackedFolder({ folder, file }: FoundStudent, options: StudentOptions): Promise<Qwen3ForCausalLM> {
  const opened = await openModel(folder, () => openSafetensors(file));
  await using weights = opened.weights;
  return await modelOf(folder, opened, options, (model) => loadPackedArrays(model, weights));
}

async function loadOriginalFile(
  { folder, file }: FoundStudent,
  options: StudentOptions,
  adapters: boolean,
  adapterOptions: AdaptersToTrain,
): Promise<Qwen3ForCausalLM> {
  const beside = path.dirname(file);
  const open = () => (file.endsWith('.safetensors') ? openSafetensors(file) : openTorch(file, 'model_state_dict'));
  const opened = await readSet(
    beside,
    async () => ({ config: await readOriginalConfig(beside), state: await open() }),
    ({ state }) => state[Symbol.asyncDispose](),
  );
  await using state = opened.state;
  const load = (model: Qwen3ForCausalLM) => loadOriginal(model, state, opened.config, adapters, adapterOptions);
  return await Qwen3ForCausalLM.fromFolder(folder, options, load);
}

async function loadOriginal(
  model: Qwen3ForCausalLM,
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
  /** Default: 'packed' if it is quantized, else 'plain'. A quantized one becomes plain with its weights as they are. */
  readonly form?: StudentForm;
  /** The folder whose tokenizer goes with it. Default: the one that the model was loaded from. */
  readonly tokenizerFrom?: string;
  /** Of packed scales; f16 takes half the room of f32. Default: as they are. */
  readonly scaleDtype?: DType;
  /** The model that the original's config.json names. Default: where it was loaded from. */
  readonly modelId?: string;
}

/** Writes a folder that loadStudent reads. Adapters go into the original's files only: merge them, or save them by themselves. */
export async function saveStudent(
  folder: string,
  model: Qwen3ForCausalLM,
  options: SaveStudentOptions = {},
): Promise<void> {
  checkOptions('saveStudent', ['form', 'tokenizerFrom', 'scaleDtype', 'modelId'], options);
  const quantized = [...quantLinears(model)].length > 0;
  const { form = quantized ? 'packed' : 'plain', scaleDtype, modelId = model.folder ?? '' } = options;
  if (!['plain', 'packed', 'original'].includes(form))
    throw new ArgumentError(`saveStudent: form is '${form}': it must be plain, packed or original`);
  if (form !== 'original' && adaptersOf(model).size)
    throw new ArgumentError(
      'saveStudent: the model has adapters: put them into its weights with mergeAndUnload, or save them with saveAdapters',
    );
  if (form !== 'plain' && !quantized)
    throw new ArgumentError(`saveStudent: the model is not quantized: it can be saved as plain, not as ${form}`);
  const plain = writeQwen3Config(model.config, model.lmHead.weight.dtype);
  const file = (name: string, write: WriteFile): FileSet => ({
    files: new Map([[path.join(folder, name), write]]),
    remove: [],
  });
  const weights = {
    plain: () => shardedFiles(folder, plainArrays(model)),
    packed: async () => file(PACKED_FILE, (await packedFile(model, scaleDtype ? { scaleDtype } : {})).write),
    original: async () => file(ORIGINAL_FILE, await originalFile(model)),
  }[form];
  const config = {
    plain: () => plain,
    packed: () => ({ ...plain, quantization_config: { quant_method: METHOD, file: PACKED_FILE } }),
    original: () => ({ ...originalConfig(model, { modelId: known }), ...adapterConfig(model) }),
  }[form];
  const known = (await isThere(modelId)) ? path.resolve(modelId) : modelId; // wherever it is read from
  await saveModel('saveStudent', folder, weights, {
    config: config(),
    generation: model.generationConfig,
    generationRead: model.generationRead,
    tokenizer: options.tokenizerFrom ?? model.folder,
  });
}

/** As the original has it. */
function adapterConfig(model: Qwen3ForCausalLM): object {
  const [first] = adaptersOf(model).values();
  return first ? { recovery_lora: true, recovery_r: first.rank, recovery_alpha: first.alpha } : {};
}

/** Every weight a number: those of quantized linears are computed when it is their turn. */
function plainArrays(model: Qwen3ForCausalLM): ReturnType<typeof stateArrays> {
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
