// Saves and loads adapters without the model: as a folder in PEFT's layout, or as a file with the names of state dicts, as the
// original of recovery LoRA does. Other trained parameters of the model are saved with them.
import fs from 'node:fs/promises';
import path from 'node:path';
import * as v from 'valibot';
import { hostArray } from '../base/dtype.js';
import { FileError } from '../base/errors.js';
import { anyObject, flag, jsonText, list, object, optional, readJson, real, text, whole } from '../base/json.js';
import { type Shape, showShape } from '../base/shape.js';
import type { ReadLater } from '../io/array.js';
import { stateArrays } from '../io/entries.js';
import { openOutput, readSet, replaceFiles, type WriteFile } from '../io/file.js';
import {
  type HostArray,
  openSafetensors,
  readTorch,
  resolveFile,
  type SafetensorsFile,
  writeSafetensors,
} from '../io/index.js';
import { readAll, safetensors } from '../io/safetensors.js';
import { DecoderForCausalLM } from '../models/decoder.js';
import { type Module, Parameter } from '../nn/module.js';
import type { Projection } from '../nn/projection.js';
import { processIndex, replicate, shardingOf } from '../spmd/index.js';
import { compute } from '../step/sync.js';
import type { StateEntry } from '../tensor/state.js';
import type { Tensor } from '../tensor/tensor.js';
import { adaptersOf, addLora, type LoraOptions, namesOf } from './adapters.js';
import { type AdapterOptions, isAdaptable, type LoraLinear } from './linear.js';

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';
/** The key in the metadata of files that saveAdapters writes. */
const ALPHA = 'lora_alpha';
const isAdapter = (name: string): boolean => /(^|\.)lora_[AB]$/.test(name);

/** The entries of adapters and of other trained parameters; tied weights once. */
function adapterEntries(model: Module): StateEntry[] {
  const found = new Map<Tensor, StateEntry>();
  for (const entry of model.stateEntries())
    if (isAdapter(entry.names[0]!) || entry.tensor.requiresGrad)
      if (!found.has(entry.tensor)) found.set(entry.tensor, entry);
  return [...found.values()];
}

/** The names of each tensor that has several (tied weights). */
function tiedNames(model: Module): string[][] {
  const names = new Map<Tensor, string[]>();
  for (const { tensor, names: own, stacked } of model.stateEntries())
    if (!stacked) names.set(tensor, [...(names.get(tensor) ?? []), ...own]);
  return [...names.values()].filter((all) => all.length > 1);
}

/** The adapters and other trained parameters, by their names in the model's state dict. The tensors are not copied. */
export function loraStateDict(model: Module): Map<string, Tensor> {
  const names = new Set(adapterEntries(model).flatMap((e) => e.names));
  return new Map([...model.stateDict()].filter(([name]) => names.has(name)));
}

// ---- PEFT's names: base_model.model.NAME.lora_A.weight, and base_model.model.NAME for other trained parameters

const PREFIX = 'base_model.model.';
const toPeft = (name: string): string => `${PREFIX}${name}${isAdapter(name) ? '.weight' : ''}`;
const fromPeft = (name: string): string =>
  name.slice(name.startsWith(PREFIX) ? PREFIX.length : 0).replace(/(lora_[AB])\.weight$/, '$1');

/** Last parts of names if these match only adapted layers, else full names. */
function targetModules(model: Module, adapted: ReadonlySet<string>): string[] {
  const short = new Set([...adapted].map(lastOf));
  const others = [...model.namedModules()].filter(([name, m]) => isAdaptable(m) && !name.endsWith('.base_layer'));
  const clear = others.every(([name]) => !short.has(lastOf(name)));
  return clear ? [...short] : [...adapted].flatMap((name) => namesOf(model, name));
}

/** Whether transformers implements the linears as Conv1D, for which PEFT sets fan_in_fan_out. The adapters are the same. */
const isConv1D = (model: Module): boolean =>
  model instanceof DecoderForCausalLM && model.architecture.stored?.isTransposed !== undefined;

function peftConfig(model: Module, adapters: ReadonlyMap<string, LoraLinear>, base: string | null) {
  const [{ rank, alpha, dropout }] = [...adapters.values()] as [LoraLinear];
  const others = adapterEntries(model).filter((e) => !isAdapter(e.names[0]!));
  const names = others.flatMap((e) => e.names);
  const modules = new Set(names.map((name) => name.slice(0, name.lastIndexOf('.'))));
  const isTied = tiedNames(model).some(([first]) => names.includes(first!));
  return {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: base,
    r: rank,
    lora_alpha: alpha,
    lora_dropout: dropout,
    target_modules: targetModules(model, new Set(adapters.keys())),
    modules_to_save: modules.size ? [...modules] : null,
    ...(isTied && { ensure_weight_tying: true }), // otherwise PEFT trains and loads a copy of one of them
    bias: 'none',
    fan_in_fan_out: isConv1D(model),
    inference_mode: true,
    init_lora_weights: true,
    use_dora: false,
    use_rslora: false,
  };
}

export interface SaveOptions {
  /** The base model of the adapters, by its name on the hub or its folder, for PEFT. */
  readonly baseModel?: string;
}
/**
 * Saves the adapters: to a folder in PEFT's layout, or to a file NAME.safetensors with the names of the state dict, as the
 * original of recovery LoRA does. With several processes all must call it; the first one writes.
 */
export async function saveAdapters(model: Module, to: string, { baseModel }: SaveOptions = {}): Promise<void> {
  const adapters = adaptersOf(model);
  if (!adapters.size)
    throw new FileError(`saveAdapters: ${model.constructor.name} has no adapters: add some with addLora`);
  const entries = adapterEntries(model).map((entry) => ({ ...entry, tensor: unsplit(entry.tensor) }));
  await compute('saveAdapters', ...entries.map((e) => e.tensor));
  if (await processIndex()) return;
  const state = stateArrays(entries);
  const isFile = to.endsWith('.safetensors');
  await openOutput(isFile ? path.dirname(to) : to, 'saveAdapters:');
  if (isFile) {
    const { alpha } = [...adapters.values()][0]!;
    return writeSafetensors(to, state, { metadata: { [ALPHA]: String(alpha) } });
  }
  const named = new Map<string, HostArray | ReadLater>(state);
  for (const [first, ...others] of tiedNames(model)) {
    const trained = state.get(first!);
    for (const name of trained ? others : []) named.set(name, trained!); // PEFT reads both
  }
  const arrays = new Map([...named].map(([name, t]) => [toPeft(name), t]));
  await replaceFiles(
    new Map<string, WriteFile>([
      [path.join(to, WEIGHTS), safetensors(arrays, { metadata: { format: 'pt' } })],
      [path.join(to, CONFIG), (write) => write(jsonText(peftConfig(model, adapters, baseModel ?? null)))],
    ]),
  );
}

/** Replicates a sharded tensor, because other shards may be in another process. */
function unsplit(t: Tensor): Tensor {
  const sharding = shardingOf(t);
  return !sharding || sharding.isReplicated ? t : replicate(t.detach(), sharding.mesh);
}

// ---- reading

type AdapterState = ReadonlyMap<string, HostArray>;
interface Saved {
  readonly state: AdapterState;
  readonly options: AdapterOptions;
  /** Whether tied weights were also tied in training; undefined if the files do not say it. */
  readonly isTied?: boolean | undefined;
}

/**
 * Loads adapters from a folder in PEFT's layout, from a file that saveAdapters wrote, or from another file with a state dict
 * (.safetensors, or torch's .pt), of which only adapters are read. If the model has no adapters, they are added as the files
 * describe them; `alpha` is for files without it.
 */
export async function loadAdapters(
  model: Module,
  name: string,
  options: Pick<AdapterOptions, 'alpha' | 'dropout'> = {},
): Promise<void> {
  const from = await resolveFile(name);
  const isFile = /\.(safetensors|pt|pth|bin)$/.test(from);
  const { state, options: saved, isTied } = isFile ? await readFile(from) : await readPeft(from, isConv1D(model));
  const [own] = adaptersOf(model).values();
  if (own) {
    const there = described(saved.rank!, saved.alpha ?? own.alpha, layersOf(state));
    const here = described(own.rank, own.alpha, [...adaptersOf(model).keys()]);
    if (there !== here)
      throw new FileError(
        `${from} has adapters of ${there}, but the model has adapters of ${here}: they must be the same`,
      );
  }
  const wrong = differences(model, state, saved.rank!);
  if (wrong.length) {
    const more = wrong.length > 5 ? `; and ${wrong.length - 5} more` : '';
    throw new FileError(`${from} is not for this ${model.constructor.name}: ${wrong.slice(0, 5).join('; ')}${more}`);
  }
  checkTying(model, from, state, isTied);
  if (own) model.loadStateDict(state, { strict: false });
  else putAdapters(model, state, { ...saved, ...options });
}

/**
 * Adds the adapters of a state dict to a model without adapters. In a LayerStack all layers get adapters: those missing in the
 * state dict are zeros, which add nothing and have no gradients, so such layers do not change in training.
 */
export function putAdapters(model: Module, state: AdapterState, options: Omit<LoraOptions, 'targets'>): void {
  const layers = new Set(layersOf(state));
  const stacks = [...model.namedModules()].map(([name]) => namesOf(model, name));
  const all = new Set(stacks.filter((names) => names.some((n) => layers.has(n))).flat());
  const adapters = addLora(model, { ...options, targets: [(name) => all.has(name)] });
  // Other parameters in the state dict were trained with the adapters: they are trained further, and saved with them again.
  for (const { tensor, names } of model.stateEntries())
    if (tensor instanceof Parameter && names.some((name) => state.has(name))) tensor.requiresGrad_();
  const missing = new Map<string, HostArray>();
  for (const [name, { loraA, loraB }] of adapters)
    for (const of of namesOf(model, name).filter((n) => !layers.has(n)))
      for (const [key, { dtype, shape }] of Object.entries({ lora_A: loraA, lora_B: loraB })) {
        const type = { dtype, shape: shape.slice(-2) };
        missing.set(`${of}.${key}`, { ...type, data: hostArray(type) });
      }
  model.loadStateDict(new Map([...state, ...missing]), { strict: false });
}

/** Throws if weights that are tied in the model differ in the file: one of them would be lost. */
function checkTying(model: Module, from: string, state: AdapterState, isTied: boolean | undefined): void {
  for (const names of tiedNames(model)) {
    const [first, ...others] = names.flatMap((name) => state.get(name) ?? []);
    if (!first) continue;
    const isOne = others.length ? others.every((other) => isSame(first, other)) : isTied !== false;
    if (!isOne)
      throw new FileError(
        `${from}: ${names.join(' and ')} were trained separately (ensure_weight_tying is not true), but are one tensor in this model: load the base model with tie_word_embeddings: false in its config.json and a weight for each, or train with ensure_weight_tying`,
      );
  }
}
const isSame = (a: HostArray, b: HostArray): boolean =>
  a.dtype === b.dtype && a.data.length === b.data.length && a.data.every((x, i) => Object.is(x, b.data[i]));

const lastOf = (name: string): string => name.slice(name.lastIndexOf('.') + 1);
const described = (rank: number, alpha: number, layers: readonly string[]): string =>
  `rank ${rank} and alpha ${alpha} on ${[...new Set(layers.map(lastOf))].sort().join(', ')}`;

/** The differences between the tensors of files and those of the model, with or without adapters. */
function differences(model: Module, state: AdapterState, rank: number): string[] {
  const adapters = [...adaptersOf(model)].flatMap(([name, a]) => namesOf(model, name).map((n) => [n, a] as const));
  const modules = [...model.namedModules()].flatMap(([name, m]) => namesOf(model, name).map((n) => [n, m] as const));
  const layers = new Map([...modules.filter(([, m]) => isAdaptable(m)), ...adapters] as [string, Projection][]);
  const wanted = new Map<string, Shape>();
  for (const { tensor, names, stacked } of model.stateEntries())
    for (const name of names) wanted.set(name, tensor.shape.slice(stacked));
  for (const name of adapters.length ? [] : layersOf(state)) {
    const layer = layers.get(name);
    if (layer) wanted.set(`${name}.lora_A`, [rank, layer.inFeatures]).set(`${name}.lora_B`, [layer.outFeatures, rank]);
  }
  const missing = adapters.length
    ? [...wanted.keys()].filter((name) => isAdapter(name) && !state.has(name))
    : half(state);
  return [
    ...missing.map((name) => `${name} is missing`),
    ...[...state].flatMap(([name, { shape }]) => {
      const want = wanted.get(name);
      if (!want) return [`the model has no ${isAdapter(name) ? `layer for ${name}` : name}`];
      return String(want) === String(shape) ? [] : [`${name} is ${showShape(shape)}, in the model ${showShape(want)}`];
    }),
  ];
}
const layersOf = (state: AdapterState): string[] => [
  ...new Set([...state.keys()].filter(isAdapter).map((name) => name.replace(/\.lora_[AB]$/, ''))),
];
/** The missing halves of adapters. */
const half = (state: AdapterState): string[] =>
  layersOf(state).flatMap((name) => [`${name}.lora_A`, `${name}.lora_B`].filter((n) => !state.has(n)));

async function readFile(file: string): Promise<Saved> {
  const isTorch = !file.endsWith('.safetensors');
  await using opened = isTorch ? null : await openSafetensors(file);
  const alpha = Number(opened?.metadata.get(ALPHA)) || undefined;
  const isWanted = (name: unknown) => typeof name === 'string' && (alpha !== undefined || isAdapter(name)); // all of a file with alpha: saveAdapters wrote it
  const all = opened ? await readSome(opened, isWanted) : await readTorch(file);
  if (!(all instanceof Map)) throw new FileError(`${file} is not a state dict: it must have arrays by name`);
  const state = new Map([...all].filter(([name]) => isWanted(name)) as [string, HostArray][]);
  const first = [...state].find(([name]) => name.endsWith('lora_A'));
  if (!first) throw new FileError(`${file} has no adapters: no name ends with lora_A`);
  return { state, options: { rank: first[1].shape[0]!, ...(alpha && { alpha }) } };
}
async function readSome(file: SafetensorsFile, isWanted: (name: string) => boolean): Promise<Map<string, HostArray>> {
  const arrays = new Map<string, HostArray>();
  for (const name of file.keys()) if (isWanted(name)) arrays.set(name, await file.read(name));
  return arrays;
}

const isBelow1 = v.check<number, string>((x) => x >= 0 && x < 1, 'a number from 0 to below 1');
/** The fields of adapter_config.json that are read: those of the adapters, and those that would change their meaning. */
const PeftSchema = object({
  peft_type: text,
  r: whole(1, 2 ** 31 - 1),
  lora_alpha: v.pipe(
    real,
    v.check((x) => x > 0, 'a number above 0'),
  ),
  lora_dropout: optional(v.pipe(real, isBelow1)),
  ensure_weight_tying: optional(flag),
  bias: optional(text),
  rank_pattern: optional(anyObject),
  alpha_pattern: optional(anyObject),
  ...Object.fromEntries(
    ['use_dora', 'use_rslora', 'use_qalora', 'fan_in_fan_out', 'lora_bias'].map((key) => [key, optional(flag)]),
  ),
  alora_invocation_tokens: optional(list(whole())),
  layer_replication: optional(list(v.unknown())),
});

/** The folder of a run is not that of its adapters. */
async function didYouMean(folder: string): Promise<string> {
  for (const inner of ['best', 'adapters'].map((name) => path.join(folder, name)))
    if (await fs.stat(path.join(inner, CONFIG)).catch(() => undefined)) return ` (did you mean ${inner}?)`;
  return '';
}

async function readPeft(folder: string, isTransposed: boolean): Promise<Saved> {
  const file = path.join(folder, CONFIG);
  const opened = await readSet(
    folder,
    async () => {
      const isFolder = (await fs.stat(folder).catch(() => undefined))?.isDirectory();
      const config = isFolder && (await readJson(file, PeftSchema));
      if (!config)
        throw new FileError(
          `${folder} has no ${CONFIG}: give a folder of adapters, or a .safetensors or .pt file${await didYouMean(folder)}`,
        );
      return { config, weights: await openSafetensors(path.join(folder, WEIGHTS)) };
    },
    ({ weights }) => weights.close(),
  );
  const { config } = opened;
  const stored = await readAll(opened.weights);
  const isSet = (key: string) => {
    const value = config[key as keyof typeof config] as unknown;
    return typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : Boolean(value);
  };
  const refused = [
    ...(config.peft_type === 'LORA' ? [] : ['peft_type']),
    ...((config.bias ?? 'none') === 'none' ? [] : ['bias']),
    ...UNSUPPORTED.filter((key) => isSet(key) && !(isTransposed && key === 'fan_in_fan_out')),
  ][0];
  if (refused)
    throw new FileError(
      `${file}: ${refused} is ${JSON.stringify(config[refused as keyof typeof config])}: only LoRA with one rank and alpha, without bias, is supported`,
    );
  const state = new Map([...stored].map(([name, array]) => [fromPeft(name), array]));
  if (!layersOf(state).length) throw new FileError(`${folder} has no adapters: no name in ${WEIGHTS} has lora_A`);
  const { r: rank, lora_alpha: alpha, lora_dropout: dropout = 0, ensure_weight_tying: isTied } = config;
  return { state, options: { rank, alpha, dropout }, isTied };
}
/** Options of PEFT that change what the arrays compute. */
const UNSUPPORTED = [
  'use_dora',
  'use_rslora',
  'use_qalora',
  'use_bdlora',
  'kasa_config',
  'fan_in_fan_out',
  'lora_bias',
  'rank_pattern',
  'alpha_pattern',
  'alora_invocation_tokens',
  'layer_replication',
];
