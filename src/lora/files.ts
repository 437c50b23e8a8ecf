// Adapters alone in files: in PEFT's layout, a folder, or under the names of state dicts, as the original of recovery LoRA
// has them, a file. With them goes whatever else of the model is trained.
import fs from 'node:fs/promises';
import path from 'node:path';
import { FileError } from '../base/errors.js';
import { type Shape, showShape } from '../base/shape.js';
import { messageOf } from '../base/thrown.js';
import { stateArrays } from '../io/entries.js';
import {
  type HostArray,
  openSafetensors,
  readSafetensors,
  readTorch,
  type SafetensorsFile,
  writeSafetensors,
} from '../io/index.js';
import type { Module } from '../nn/module.js';
import type { Projection } from '../nn/projection.js';
import { processIndex, replicate, shardingOf } from '../spmd/index.js';
import type { StateEntry } from '../tensor/state.js';
import { compute } from '../tensor/sync.js';
import type { Tensor } from '../tensor/tensor.js';
import { adaptersOf, addLora, namesOf, type Target } from './adapters.js';
import { type AdapterOptions, isAdaptable, type LoraLinear } from './linear.js';

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';
/** In the metadata of our files. */
const ALPHA = 'lora_alpha';
const isAdapter = (name: string): boolean => /(^|\.)lora_[AB]$/.test(name);

/** What belongs to the adapters, and whatever else is trained; tied weights once. */
function adapterEntries(model: Module): StateEntry[] {
  const found = new Map<Tensor, StateEntry>();
  for (const entry of model.stateEntries())
    if (isAdapter(entry.names[0]!) || entry.tensor.requiresGrad)
      if (!found.has(entry.tensor)) found.set(entry.tensor, entry);
  return [...found.values()];
}

/** The adapters, and whatever else is trained, by their names in the model's state dict: the tensors themselves. */
export function loraStateDict(model: Module): Map<string, Tensor> {
  const names = new Set(adapterEntries(model).flatMap((e) => e.names));
  return new Map([...model.stateDict()].filter(([name]) => names.has(name)));
}

// ---- PEFT's names: base_model.model.NAME.lora_A.weight, and base_model.model.NAME for whatever else is trained

const PREFIX = 'base_model.model.';
const toPeft = (name: string): string => `${PREFIX}${name}${isAdapter(name) ? '.weight' : ''}`;
const fromPeft = (name: string): string =>
  name.slice(name.startsWith(PREFIX) ? PREFIX.length : 0).replace(/(lora_[AB])\.weight$/, '$1');

/** Short names where these mean the adapted layers and no others, else whole ones. */
function targetModules(model: Module, adapted: ReadonlySet<string>): string[] {
  const short = new Set([...adapted].map(lastOf));
  const others = [...model.namedModules()].filter(([name, m]) => isAdaptable(m) && !name.endsWith('.base_layer'));
  const clear = others.every(([name]) => !short.has(lastOf(name)));
  return clear ? [...short] : [...adapted].flatMap((name) => namesOf(model, name));
}

function peftConfig(model: Module, adapters: ReadonlyMap<string, LoraLinear>, base: string | null) {
  const [{ rank, alpha, dropout }] = [...adapters.values()] as [LoraLinear];
  const others = adapterEntries(model).filter((e) => !isAdapter(e.names[0]!));
  const modules = new Set(others.flatMap((e) => e.names.map((name) => name.slice(0, name.lastIndexOf('.')))));
  return {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: base,
    r: rank,
    lora_alpha: alpha,
    lora_dropout: dropout,
    target_modules: targetModules(model, new Set(adapters.keys())),
    modules_to_save: modules.size ? [...modules] : null,
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    use_dora: false,
    use_rslora: false,
  };
}

export interface SaveOptions {
  /** The model that the adapters are for, by its name on the hub or its folder: PEFT reads it. */
  readonly baseModel?: string;
}
/**
 * Writes the adapters alone: to a folder as PEFT does, or to a file NAME.safetensors under the names of the state dict, as
 * the original of recovery LoRA has them. Of several processes all call it, and the first writes.
 */
export async function saveAdapters(model: Module, to: string, { baseModel }: SaveOptions = {}): Promise<void> {
  const adapters = adaptersOf(model);
  if (!adapters.size)
    throw new FileError(`saveAdapters: ${model.constructor.name} has no adapters: addLora makes them`);
  const entries = adapterEntries(model).map((entry) => ({ ...entry, tensor: unsplit(entry.tensor) }));
  await compute('saveAdapters', ...entries.map((e) => e.tensor));
  if (await processIndex()) return;
  const state = stateArrays(entries);
  if (to.endsWith('.safetensors')) {
    const { alpha } = [...adapters.values()][0]!;
    return writeSafetensors(to, state, { metadata: { [ALPHA]: String(alpha) } });
  }
  const config = peftConfig(model, adapters, baseModel ?? null);
  await fs.mkdir(to, { recursive: true });
  const named = new Map([...state].map(([name, t]) => [toPeft(name), t]));
  await writeSafetensors(path.join(to, WEIGHTS), named, { metadata: { format: 'pt' } });
  await fs.writeFile(path.join(to, CONFIG), `${JSON.stringify(config, null, 2)}\n`);
}

/** What is split between devices, whole on each of them: others may be another process's. */
function unsplit(t: Tensor): Tensor {
  const sharding = shardingOf(t);
  return !sharding || sharding.isReplicated ? t : replicate(t.detach(), sharding.mesh);
}

// ---- reading

interface Saved {
  readonly state: ReadonlyMap<string, HostArray>;
  readonly options: AdapterOptions & { readonly targets?: readonly Target[] };
}

/**
 * Takes adapters from PEFT's folder, from a file that saveAdapters wrote, or from another's file of a state dict
 * (.safetensors, or torch's .pt), of which only adapters are read. A model without adapters is given those that the files tell of; `alpha` is for files that do not tell it.
 */
export async function loadAdapters(
  model: Module,
  from: string,
  options: Pick<AdapterOptions, 'alpha' | 'dropout'> = {},
): Promise<void> {
  const isFile = /\.(safetensors|pt|pth|bin)$/.test(from);
  const { state, options: saved } = isFile ? await readFile(from) : await readPeft(from);
  const [own] = adaptersOf(model).values();
  if (own) {
    const there = described(saved.rank!, saved.alpha ?? own.alpha, layersOf(state));
    const here = described(own.rank, own.alpha, [...adaptersOf(model).keys()]);
    if (there !== here)
      throw new FileError(`${from} has adapters of ${there}, the model those of ${here}: give it the same`);
  }
  const wrong = differences(model, state, saved.rank!);
  if (wrong.length) {
    const more = wrong.length > 5 ? `; and ${wrong.length - 5} more` : '';
    throw new FileError(`${from} is not for this ${model.constructor.name}: ${wrong.slice(0, 5).join('; ')}${more}`);
  }
  if (!adaptersOf(model).size) addLora(model, { ...saved, ...options });
  model.loadStateDict(state, { strict: false });
}

const lastOf = (name: string): string => name.slice(name.lastIndexOf('.') + 1);
const described = (rank: number, alpha: number, layers: readonly string[]): string =>
  `rank ${rank} and alpha ${alpha} on ${[...new Set(layers.map(lastOf))].sort().join(', ')}`;

/** What of the files does not fit the model, with its adapters or without. */
function differences(model: Module, state: Saved['state'], rank: number): string[] {
  const adapters = [...adaptersOf(model)].flatMap(([name, a]) => namesOf(model, name).map((n) => [n, a] as const));
  const modules = [...model.namedModules()].flatMap(([name, m]) => namesOf(model, name).map((n) => [n, m] as const));
  const layers = new Map([...modules.filter(([, m]) => isAdaptable(m)), ...adapters] as [string, Projection][]);
  const wanted = new Map<string, Shape>();
  for (const { tensor, names, stacked } of model.stateEntries())
    for (const name of names) wanted.set(name, stacked ? tensor.shape.slice(1) : tensor.shape);
  for (const name of adapters.length ? [] : layersOf(state)) {
    const layer = layers.get(name);
    if (layer) wanted.set(`${name}.lora_A`, [rank, layer.inFeatures]).set(`${name}.lora_B`, [layer.outFeatures, rank]);
  }
  const missing = [...wanted.keys()].filter((name) => isAdapter(name) && !state.has(name));
  return [
    ...missing.map((name) => `${name} is missing`),
    ...[...state].flatMap(([name, { shape }]) => {
      const want = wanted.get(name);
      if (!want) return [`the model has no ${isAdapter(name) ? `layer for ${name}` : name}`];
      return String(want) === String(shape) ? [] : [`${name} is ${showShape(shape)}, here ${showShape(want)}`];
    }),
  ];
}
const layersOf = (state: Saved['state']): string[] => [
  ...new Set([...state.keys()].filter(isAdapter).map((name) => name.replace(/\.lora_[AB]$/, ''))),
];
const targetsOf = (state: Saved['state']): Target[] => {
  const layers = layersOf(state);
  return [(name) => layers.includes(name)];
};

async function readFile(file: string): Promise<Saved> {
  const isTorch = !file.endsWith('.safetensors');
  await using opened = isTorch ? null : await openSafetensors(file);
  const alpha = Number(opened?.metadata.get(ALPHA)) || undefined;
  const isWanted = (name: unknown) => typeof name === 'string' && (alpha !== undefined || isAdapter(name)); // ours: all
  const all = opened ? await readSome(opened, isWanted) : await readTorch(file);
  if (!(all instanceof Map)) throw new FileError(`${file} is no state dict: it must have arrays by name`);
  const state = new Map([...all].filter(([name]) => isWanted(name)) as [string, HostArray][]);
  const first = [...state].find(([name]) => name.endsWith('lora_A'));
  if (!first) throw new FileError(`${file} has no adapters: none of its names ends with lora_A`);
  return { state, options: { rank: first[1].shape[0]!, targets: targetsOf(state), ...(alpha && { alpha }) } };
}
async function readSome(file: SafetensorsFile, isWanted: (name: string) => boolean): Promise<Map<string, HostArray>> {
  const arrays = new Map<string, HostArray>();
  for (const name of file.keys()) if (isWanted(name)) arrays.set(name, await file.read(name));
  return arrays;
}

async function readPeft(folder: string): Promise<Saved> {
  const file = path.join(folder, CONFIG);
  const config = await fs
    .readFile(file, 'utf8')
    .then(JSON.parse)
    .catch((e: unknown) => {
      if (['ENOENT', 'ENOTDIR'].includes((e as NodeJS.ErrnoException).code!))
        throw new FileError(
          `${folder} has no ${CONFIG}: it is not a folder of adapters, nor a .safetensors or .pt file`,
        );
      throw new FileError(`${file} cannot be read: ${messageOf(e)}`, { cause: e });
    });
  // What would make the adapters mean something else.
  const refused = Object.entries({
    peft_type: config.peft_type !== 'LORA',
    use_dora: config.use_dora,
    use_rslora: config.use_rslora,
    fan_in_fan_out: config.fan_in_fan_out,
    lora_bias: config.lora_bias,
    bias: (config.bias ?? 'none') !== 'none',
    rank_pattern: Object.keys(config.rank_pattern ?? {}).length,
    alpha_pattern: Object.keys(config.alpha_pattern ?? {}).length,
  }).find(([, wrong]) => wrong);
  if (refused)
    throw new FileError(
      `${file}: ${refused[0]} is ${JSON.stringify(config[refused[0]])}: LoRA of one rank and alpha, without bias, is read`,
    );
  const stored = await readSafetensors(path.join(folder, WEIGHTS));
  const state = new Map([...stored].map(([name, array]) => [fromPeft(name), array]));
  const { r: rank, lora_alpha: alpha, lora_dropout: dropout = 0 } = config;
  return { state, options: { rank, alpha, dropout, targets: targetsOf(state) } };
}
