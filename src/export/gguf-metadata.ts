// The model metadata of a GGUF file: sizes, positions, windows; rejects what llama.cpp does not support.
import type { GgufValue } from '../io/index.js';
import type { DecoderConfig } from '../models/config.js';
import { f32, type GgufForm, string, u32 } from '../models/gguf-form.js';
import type { DecoderForCausalLM } from '../models/index.js';
import { type RopeParameters, ropeFactors, rotaryDimOf } from '../models/rope.js';

export interface GgufDescription {
  readonly metadata: ReadonlyMap<string, GgufValue>;
  /** Tensors with a factor for each frequency. */
  readonly factors: ReadonlyMap<string, readonly number[]>;
  /** Notes on what llama.cpp computes differently. */
  readonly notes: readonly string[];
}
type Refuse = (what: string) => never;

/** Describes a model; calls `refuse` with the reason if llama.cpp does not support it. */
export function ggufMetadata(model: DecoderForCausalLM, form: GgufForm<never>, refuse: Refuse): GgufDescription {
  const { config, architecture } = model;
  const parts = architecture.parts(config);
  const reason = form.refuse?.(config as never);
  if (reason) refuse(reason);
  const { hiddenAct = 'silu' } = config as { hiddenAct?: string };
  const { activations = ['silu'] } = form;
  if (!activations.includes(hiddenAct)) refuse(`it takes ${activations[0]}, and the activation is ${hiddenAct}`);
  const { numAttentionHeads: H, headDim, hiddenSize } = config;
  if (form.headsFillHidden && H * headDim !== hiddenSize)
    refuse(`${H} heads of ${headDim} are ${H * headDim} numbers, and hidden_size is ${hiddenSize}`);
  const notes: string[] = [];
  const { rmsNormEps } = config as { rmsNormEps?: number };
  const rope = parts.rope && ropeMetadata(parts.rope, config, form, refuse, notes);
  const own: Record<string, GgufValue> = {
    vocab_size: u32(config.vocabSize),
    context_length: u32(config.maxPositionEmbeddings),
    embedding_length: u32(hiddenSize),
    block_count: u32(config.numHiddenLayers),
    feed_forward_length: u32(config.intermediateSize),
    'attention.head_count': u32(H),
    'attention.head_count_kv': u32(config.numKeyValueHeads),
    'attention.key_length': u32(headDim),
    'attention.value_length': u32(headDim),
    ...(rmsNormEps !== undefined && { 'attention.layer_norm_rms_epsilon': f32(rmsNormEps) }),
    ...rope?.metadata,
    ...windowMetadata(model, form, notes),
    ...form.metadata?.(config as never),
  };
  const metadata = new Map<string, GgufValue>([
    ['general.architecture', string(form.architecture)],
    ['general.type', string('model')],
    ...Object.entries(own).map(([key, value]) => [`${form.architecture}.${key}`, value] as const),
  ]);
  return { metadata, factors: rope?.factors ?? new Map(), notes };
}

function windowMetadata(
  { config, architecture }: DecoderForCausalLM,
  { windowsEvery }: GgufForm<never>,
  notes: string[],
): Record<string, GgufValue> {
  const { kind } = architecture.parts(config);
  const windows = Array.from({ length: config.numHiddenLayers }, (_, i) => kind?.(i).window ?? null);
  const narrow = windows.find((w) => w !== null && w < config.maxPositionEmbeddings);
  if (!windowsEvery) {
    if (narrow != null)
      notes.push(
        `a layer sees ${narrow} tokens, and llama.cpp's has no windows: texts longer than that come out differently`,
      );
    return {};
  }
  const window = windows.find((w) => w !== null);
  if (window == null) return {};
  const isUsual = windows.every((w, i) => (w === null) === ((i + 1) % windowsEvery === 0));
  const pattern = windows.map((w) => w !== null);
  return {
    'attention.sliding_window': u32(window),
    ...(!isUsual && { 'attention.sliding_window_pattern': { type: 'array', of: 'bool', value: pattern } }),
  };
}

function ropeMetadata(
  rope: RopeParameters,
  { headDim, maxPositionEmbeddings: longest }: DecoderConfig,
  form: GgufForm<never>,
  refuse: Refuse,
  notes: string[],
): { readonly metadata: Record<string, GgufValue>; readonly factors: ReadonlyMap<string, readonly number[]> } {
  const { type, theta, factor = 1, originalMaxPositionEmbeddings: original } = rope;
  const turned = rotaryDimOf(rope, headDim);
  if (form.interleaved && turned !== headDim)
    refuse(`positions turn ${turned} of the ${headDim} numbers of a head, and it turns all`);
  const metadata: Record<string, GgufValue> = {
    'rope.dimension_count': u32(turned),
    'rope.freq_base': f32(theta),
  };
  const factors = new Map<string, readonly number[]>();
  const hasFactors = type === 'llama3' || type === 'longrope';
  if (hasFactors && !form.factors?.includes(type)) refuse(`it does not read the factors of rope_type ${type}`);
  const of = ropeFactors(rope, headDim, longest);
  if (type === 'linear') Object.assign(metadata, scaling('linear', { factor: f32(factor) }));
  if (type === 'llama3') factors.set('rope_freqs.weight', of.factors);
  if (type === 'longrope') {
    factors.set('rope_factors_long.weight', rope.longFactor!);
    factors.set('rope_factors_short.weight', rope.shortFactor!);
    Object.assign(
      metadata,
      scaling('longrope', { original_context_length: u32(original), attn_factor: f32(of.scale) }),
    );
    notes.push(
      `the long factors of its positions are taken for a context above ${original} tokens, however long a text is`,
    );
  }
  if (type === 'yarn') {
    if (rope.truncate === false) refuse('rope_type yarn with truncate false');
    const by = rope.factor ?? longest / original;
    const usual = by <= 1 ? 1 : 0.1 * Math.log(by) + 1; // what it takes without an attn_factor
    const more = {
      factor: f32(by),
      original_context_length: u32(original),
      ...(rope.betaFast !== undefined && { yarn_beta_fast: f32(rope.betaFast) }),
      ...(rope.betaSlow !== undefined && { yarn_beta_slow: f32(rope.betaSlow) }),
      ...(Math.abs(of.scale / usual - 1) > 1e-6 && { attn_factor: f32(of.scale / usual) }),
    };
    Object.assign(metadata, scaling('yarn', more));
  }
  if (type === 'dynamic')
    notes.push(`llama.cpp has no rope_type dynamic: texts longer than ${longest} tokens come out differently`);
  return { metadata, factors };
}
const scaling = (type: string, values: Readonly<Record<string, GgufValue>>): Record<string, GgufValue> => ({
  'rope.scaling.type': string(type),
  ...Object.fromEntries(Object.entries(values).map(([key, value]) => [`rope.scaling.${key}`, value])),
});
