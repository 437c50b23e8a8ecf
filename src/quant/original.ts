// Reads and writes files of the original (Anemll's qwen3 2-bit QAT recipe): its state dicts and config.json.

import type { ArrayType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { readLater } from '../io/entries.js';
import { replaceFiles, type WriteFile } from '../io/file.js';
import type { ArraySource, HostArray } from '../io/index.js';
import { torchFile } from '../io/torch-write.js';
import { loadArrays } from '../models/pretrained.js';
import { Linear } from '../nn/linear.js';
import type { Module } from '../nn/module.js';
import { sync } from '../step/sync.js';
import { noGrad } from '../tensor/autograd.js';
import { zeros } from '../tensor/create.js';
import type { StateDict, StateValue } from '../tensor/state.js';
import { partOf } from '../tensor/state.js';
import { Tensor } from '../tensor/tensor.js';
import { FactoredLinear } from './factored.js';
import { lookup } from './lut.js';
import { namesOf, quantLinears, replace } from './model.js';
import { ATTENTION, MLP, PRESETS } from './presets.js';
import { type LayerOptions, quantLinear } from './rules.js';

/** The original's config.json. */
export interface OriginalConfig {
  readonly version?: string;
  readonly model_id?: string;
  readonly config_preset?: string;
  readonly lut_bits?: number;
  readonly mlp_lut_bits?: number;
  readonly attn_lut_bits?: number;
  readonly scale_rank?: number;
  readonly mlp_scale_rank?: number;
  readonly attn_scale_rank?: number;
  readonly group_size?: number;
  readonly force_positive_scales?: boolean;
  readonly magnitude_activation?: string;
  /** Fields of adapters (recovery_r, lora_alpha, mlp_only) and others. */
  readonly [key: string]: unknown;
}

export interface Imported {
  /** Number of linears that were replaced by quantized ones. */
  readonly layers: number;
  /** The adapters in the file (lora_A and lora_B by name), which are not added to the model. */
  readonly adapters: ReadonlyMap<string, HostArray>;
}

/**
 * Loads a state dict of the original, or arrays of its file, which are read one at a time. Which linears are quantized, and how, is
 * derived from names and shapes (config.json is not always right about ranks); only the rest is taken from config.json.
 */
export async function importOriginal(
  model: Module,
  state: StateDict | ReadonlyMap<string, unknown> | ArraySource,
  config: OriginalConfig = {},
): Promise<Imported> {
  const from = isSource(state) ? state : await sourceOf(state);
  const rest = new Map<string, Later>();
  const adapters = new Map<string, HostArray>();
  for (const [name, { dtype, shape }] of from.entries) {
    if (/\.lora_[AB]$/.test(name)) adapters.set(name, await from.read(name));
    else rest.set(name, { dtype, shape, read: () => from.read(name) });
  }
  let layers = 0;
  for (const [name, linear] of [...model.namedModules()]) {
    if (!(linear instanceof Linear)) continue;
    const names = namesOf(name, linear.weight.shape.slice(0, -2));
    const options = await optionsIn(rest, names[0]!, config);
    if (!options) continue;
    const layer = quantLinear(linear, options);
    if (layer instanceof FactoredLinear) await adapt(layer, names, rest);
    layers += names.length;
    replace(model, name, layer);
    if (!layer.parameters().includes(linear.weight)) linear.weight.dispose();
  }
  if (!layers)
    throw new ArgumentError(
      `importOriginal: the state dict has no quantized linears of ${model.constructor.name}: no linear has a tensor lut or _qat_nbits`,
    );
  await loadArrays(model, { entries: rest, read: (name) => rest.get(name)!.read() });
  return { layers, adapters };
}

/** An array that is read lazily. */
interface Later extends ArrayType {
  read(): Promise<HostArray>;
}
const isSource = (state: object): state is ArraySource => 'read' in state && typeof state.read === 'function';

/** The arrays of a state dict, which may be nested under `model_state_dict`. */
async function sourceOf(state: StateDict | ReadonlyMap<string, unknown>): Promise<ArraySource> {
  const outer: ReadonlyMap<string, unknown> = state instanceof Map ? state : new Map(Object.entries(state));
  const entries = (outer.get('model_state_dict') ?? outer) as ReadonlyMap<string, StateValue>;
  await sync(...[...entries.values()].filter((t) => t instanceof Tensor)); // in one program
  return {
    entries,
    read: async (name) => {
      const { dtype, shape, data } = entries.get(name)!;
      return { dtype, shape, data: typeof data === 'function' ? await (entries.get(name) as Tensor).data() : data };
    },
  };
}

const numberIn = async (array: Later): Promise<number> => Number((await array.read()).data[0]);

/** The kind and options of the quantized linear under a name; undefined if it is not quantized. */
async function optionsIn(
  state: ReadonlyMap<string, Later>,
  name: string,
  config: OriginalConfig,
): Promise<LayerOptions | undefined> {
  const get = (key: string) => state.get(`${name}.${key}`);
  const bits = get('_qat_nbits');
  if (bits) return { kind: 'symmetric', bits: await numberIn(bits) };
  const [lut, a] = [get('lut'), get('scale_A')];
  const lutSize = lut?.shape.at(-1);
  const scaleRank = a?.shape.at(-1) ?? 0;
  if (!lutSize) return undefined;
  const group = config.group_size === undefined ? {} : { groupSize: config.group_size };
  if (!get('rank_magnitude')) {
    const width = (get('scale_B') ?? get('full_scales'))?.shape.at(-1);
    const weight = get('weight');
    // The width is rounded up to whole groups: if it differs from the weight's, one group of that width fits it.
    const groupSize = config.group_size ?? (width === weight?.shape.at(-1) ? 1 : width!);
    return { kind: 'lut', lutSize, scaleRank, groupSize };
  }
  return {
    kind: 'factored',
    lutSize,
    scaleRank,
    ...group,
    learnableLut: get('_lut_raw_deltas') !== undefined,
    positive: config.force_positive_scales ? 'abs' : false,
    magnitude: magnitudeIn(config),
  };
}
function magnitudeIn({ magnitude_activation: name = 'identity' }: OriginalConfig): 'identity' | 'abs' | 'softplus' {
  if (name === 'identity' || name === 'abs' || name === 'softplus') return name;
  throw new ArgumentError(`config.json: magnitude_activation is '${name}': it must be identity, abs or softplus`);
}

/** Reduces the tensors of an original layer to codes: it also stores levels at the codes (_Q) and latent weights. */
async function adapt(layer: FactoredLinear, names: readonly string[], state: Map<string, Later>): Promise<void> {
  const baked = new Set<number>();
  for (const name of names) {
    const take = (key: string) => {
      const value = state.get(`${name}.${key}`);
      state.delete(`${name}.${key}`);
      return value;
    };
    const [q, weight, flag] = [take('_Q'), take('weight'), take('_scales_baked_flag')];
    for (const key of ['_cached_weight_q', '_A_idx', '_B_idx']) take(key);
    baked.add(flag ? await numberIn(flag) : 0);
    if (state.has(`${name}._indices`)) continue;
    if (!q)
      throw new ArgumentError(
        `importOriginal: ${name} has neither _indices nor _Q${weight ? ': call freeze_Q in the original before saving' : ''}`,
      );
    const lut = state.get(`${name}.lut`)!;
    const read = async () => codesOf(await q.read(), await lut.read());
    state.set(`${name}._indices`, { dtype: 'u8', shape: q.shape, read });
  }
  if (baked.size > 1)
    throw new ArgumentError(
      `importOriginal: the scales of some layers of ${names[0]} are baked, and of others not: load them without scanLayers`,
    );
  layer.scalesBaked = baked.has(1);
}
/** The code of the nearest level for each number. Levels are sorted. */
function codesOf({ shape, ...q }: HostArray, lut: HostArray): HostArray {
  const levels = Array.from(decodeFloats(lut.dtype, lut.data), Number);
  const middles = levels.slice(1).map((level, i) => (level + levels[i]!) / 2);
  const data = Uint8Array.from(decodeFloats(q.dtype, q.data) as Float32Array, (x) => {
    let code = 0;
    while (x > middles[code]!) code++;
    return code;
  });
  return { dtype: 'u8', shape, data };
}

/** A tensor of the original's state dict, computed lazily; a stacked one has several names. */
interface Made {
  readonly names: readonly string[];
  readonly stacked: number;
  make(): Tensor;
}
function* originalEntries(model: Module): Generator<Made> {
  const ours = new Set<Tensor>(); // tensors that the original stores in another form
  for (const [name, layer] of quantLinears(model)) {
    if (layer.kind === 'packed')
      throw new ArgumentError(
        `exportOriginal: ${name} is packed, which the original does not support: export before packModel`,
      );
    if (!(layer instanceof FactoredLinear)) continue;
    for (const t of [layer.lut, layer.indices]) ours.add(t);
    const lead = layer.indices.shape.slice(0, -2);
    const made: Record<string, () => Tensor> = {
      weight: () => layer.effectiveWeight(), // the latent weight is lost; from this one the original computes the same codes
      lut: () => layer.levels(),
      _Q: () => lookup(layer.levels(), layer.indices),
      _indices: () => layer.indices.to('i16'),
      _scales_baked_flag: () => zeros(lead, { dtype: 'i8' }).add(Number(layer.scalesBaked)).to('i8'),
    };
    for (const [key, make] of Object.entries(made)) {
      const names = namesOf(name, lead).map((of) => `${of}.${key}`);
      yield { names, stacked: lead.length, make: () => noGrad(make).detach() };
    }
  }
  for (const { tensor, names, stacked } of model.stateEntries())
    if (!ours.has(tensor)) yield { names, stacked, make: () => tensor.detach() };
}

/** The original's state dict of this model, including adapters. */
export function exportOriginal(model: Module): Map<string, Tensor> {
  const state = new Map<string, Tensor>();
  for (const { names, stacked, make } of originalEntries(model)) {
    const t = make();
    names.forEach((name, i) => void state.set(name, stacked ? partOf(t, stacked, i) : t));
  }
  return state;
}
/** Writes the original's state dict as a torch file, with one array at a time in memory. */
export async function saveOriginal(path: string, model: Module): Promise<void> {
  await replaceFiles(new Map([[path, await originalFile(model)]]));
}
/** The writer of such a file, to be written together with other files. */
export async function originalFile(model: Module): Promise<WriteFile> {
  const { expr } = model.parameters()[0]!; // already computed, so that nothing is computed before it is written
  const arrays = [...originalEntries(model)].flatMap(({ names, stacked, make }) => {
    const { dtype, shape } = make();
    return readLater(names, { dtype, shape: shape.slice(stacked) }, expr, () => make().data());
  });
  return torchFile(new Map(arrays));
}

/** The original's config.json for this model. */
export function originalConfig(model: Module, { modelId = '' }: { readonly modelId?: string } = {}): OriginalConfig {
  const factored = [...quantLinears(model)].filter(
    (e): e is [string, FactoredLinear] => e[1] instanceof FactoredLinear,
  );
  const [first] = factored;
  if (!first)
    throw new ArgumentError('originalConfig: the model has no FactoredLinear: quantize it with a preset first');
  const optionsOf = (pattern: RegExp) => factored.find(([name]) => pattern.test(name))?.[1].options;
  const mlp = optionsOf(MLP) ?? first[1].options;
  const attention = optionsOf(ATTENTION);
  const bits = (options?: { readonly lutSize: number }) => (options ? Math.ceil(Math.log2(options.lutSize)) : 0);
  const preset = Object.entries(PRESETS).find(
    ([, p]) =>
      String([p.mlp, p.attention]) ===
      String([mlp.lutSize, mlp.scaleRank, attention?.lutSize ?? 0, attention?.scaleRank ?? 0]),
  );
  return {
    version: 'v2',
    model_id: modelId,
    ...(preset ? { config_preset: preset[0] } : {}),
    lut_bits: bits(mlp),
    mlp_lut_bits: bits(mlp),
    attn_lut_bits: bits(attention),
    scale_rank: mlp.scaleRank,
    mlp_scale_rank: mlp.scaleRank,
    attn_scale_rank: attention?.scaleRank ?? 0,
    group_size: mlp.groupSize,
    force_positive_scales: mlp.positive !== false,
    magnitude_activation: mlp.magnitude,
  };
}
