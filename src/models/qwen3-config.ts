// The sizes of a Qwen3, as config.json tells them, and those that were published.
import { checkWhole } from '../base/check.js';
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { describe, isPlain } from '../base/tree.js';

export interface Qwen3Config {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  readonly numKeyValueHeads: number;
  /** The width of one head: it need not be hiddenSize / numAttentionHeads. */
  readonly headDim: number;
  readonly maxPositionEmbeddings: number;
  readonly ropeTheta: number;
  readonly rmsNormEps: number;
  readonly initializerRange: number;
  /** Whether the last layer's weight is the table of the first. */
  readonly tieWordEmbeddings: boolean;
  readonly attentionBias: boolean;
  /** What published weights are stored in. */
  readonly dtype: DType;
  readonly bosTokenId: number | null;
  readonly eosTokenId: number | readonly number[] | null;
  readonly padTokenId: number | null;
}

const COMMON: Omit<Qwen3Config, 'hiddenSize' | 'intermediateSize' | 'numHiddenLayers' | 'numAttentionHeads'> = {
  vocabSize: 151936,
  numKeyValueHeads: 8,
  headDim: 128,
  maxPositionEmbeddings: 40960,
  ropeTheta: 1e6,
  rmsNormEps: 1e-6,
  initializerRange: 0.02,
  tieWordEmbeddings: false,
  attentionBias: false,
  dtype: 'bf16',
  bosTokenId: 151643,
  eosTokenId: 151645,
  padTokenId: null,
};

const sizes = (
  hiddenSize: number,
  intermediateSize: number,
  numHiddenLayers: number,
  numAttentionHeads: number,
  tieWordEmbeddings: boolean,
): Qwen3Config => ({
  ...COMMON,
  hiddenSize,
  intermediateSize,
  numHiddenLayers,
  numAttentionHeads,
  tieWordEmbeddings,
});

/** The dense Qwen3 models that were published. */
export const QWEN3 = {
  //            hidden   MLP  layers heads tied
  '0.6B': sizes(1024, 3072, 28, 16, true),
  '1.7B': sizes(2048, 6144, 28, 16, true),
  '4B': sizes(2560, 9728, 36, 32, true),
  '8B': sizes(4096, 12288, 36, 32, false),
  '14B': sizes(5120, 17408, 40, 40, false),
  '32B': sizes(5120, 25600, 64, 64, false),
} as const satisfies Readonly<Record<string, Qwen3Config>>;

/** A configuration from parts of one: checked, what is not said as in the published models. */
export function qwen3Config(
  given: Partial<Qwen3Config> &
    Pick<Qwen3Config, 'hiddenSize' | 'intermediateSize' | 'numHiddenLayers' | 'numAttentionHeads'>,
): Qwen3Config {
  const config = { ...COMMON, ...given };
  const { numAttentionHeads: heads, numKeyValueHeads: groups } = config;
  for (const [name, least] of COUNTS) checkWhole(`Qwen3: ${name}`, config[name], least);
  if (heads % groups)
    throw new ArgumentError(
      `Qwen3: ${heads} attention heads cannot share ${groups} key-value heads: they do not divide`,
    );
  if (config.headDim % 2)
    throw new ArgumentError(`Qwen3: headDim is ${config.headDim}: positions turn pairs, so it must be even`);
  for (const name of ['ropeTheta', 'rmsNormEps', 'initializerRange'] as const)
    if (!(config[name] > 0)) throw new ArgumentError(`Qwen3: ${name} is ${describe(config[name])}: it must be above 0`);
  return config;
}
const COUNTS = [
  ['vocabSize', 1],
  ['hiddenSize', 1],
  ['intermediateSize', 1],
  ['numHiddenLayers', 1],
  ['numAttentionHeads', 1],
  ['numKeyValueHeads', 1],
  ['headDim', 2],
  ['maxPositionEmbeddings', 1],
] as const;

type Json = Readonly<Record<string, unknown>>;

/** What a config.json says, of transformers 4 or 5. `where` names it in errors. */
export function readQwen3Config(json: unknown, where = 'config.json'): Qwen3Config {
  if (!isPlain(json)) throw new ArgumentError(`${where} is ${describe(json)}, not an object`);
  const given = json as Json;
  const kind = given.model_type ?? (given.architectures as string[] | undefined)?.[0];
  if (kind !== 'qwen3')
    throw new ArgumentError(
      `${where} is of another architecture: ${kind ?? 'it has no model_type'}; this reads dense Qwen3 models (qwen3)`,
    );
  const refuse = (what: string): never => {
    throw new ArgumentError(`${where}: ${what}`);
  };
  const field = <T>(name: string, type: string, fallback?: T): T => {
    const value = given[name] ?? fallback;
    if (value === undefined) refuse(`${name} is missing`);
    if (typeof value !== type) refuse(`${name} is ${describe(value)}, not a ${type}`);
    return value as T;
  };
  const number = (name: string, fallback?: number) => field<number>(name, 'number', fallback);
  const flag = (name: string) => field<boolean>(name, 'boolean', false);

  // transformers 5 has rope_parameters; 4 had rope_theta and, for longer texts, rope_scaling.
  const rope = (given.rope_parameters ?? given.rope_scaling ?? {}) as Json;
  const ropeType = rope.rope_type ?? rope.type ?? 'default';
  if (ropeType !== 'default')
    refuse(`positions of kind ${ropeType} are not supported, only default: leave rope_scaling out`);
  if (flag('use_sliding_window') || (given.layer_types as string[] | undefined)?.some((t) => t !== 'full_attention'))
    refuse('sliding windows are not supported: every layer must have full_attention');
  const act = given.hidden_act ?? 'silu';
  if (act !== 'silu') refuse(`hidden_act is ${act}: Qwen3 has silu`);
  if (number('attention_dropout', 0)) refuse('attention_dropout is not supported: Qwen3 was trained with 0');

  const heads = number('num_attention_heads');
  return qwen3Config({
    vocabSize: number('vocab_size'),
    hiddenSize: number('hidden_size'),
    intermediateSize: number('intermediate_size'),
    numHiddenLayers: number('num_hidden_layers'),
    numAttentionHeads: heads,
    numKeyValueHeads: number('num_key_value_heads', heads),
    headDim: number('head_dim', 128),
    maxPositionEmbeddings: number('max_position_embeddings', 32768),
    ropeTheta: (rope.rope_theta as number | undefined) ?? number('rope_theta', 10000),
    rmsNormEps: number('rms_norm_eps', 1e-6),
    initializerRange: number('initializer_range', 0.02),
    tieWordEmbeddings: flag('tie_word_embeddings'),
    attentionBias: flag('attention_bias'),
    dtype: dtypeOf((given.dtype ?? given.torch_dtype ?? 'float32') as string),
    bosTokenId: (given.bos_token_id as number | null | undefined) ?? null,
    eosTokenId: (given.eos_token_id as number | number[] | null | undefined) ?? null,
    padTokenId: (given.pad_token_id as number | null | undefined) ?? null,
  });
}

/** The same as config.json has it. */
export const writeQwen3Config = (c: Qwen3Config, dtype: DType): Json => ({
  architectures: ['Qwen3ForCausalLM'],
  attention_bias: c.attentionBias,
  attention_dropout: 0,
  bos_token_id: c.bosTokenId,
  dtype: TORCH_NAMES[dtype],
  eos_token_id: c.eosTokenId,
  head_dim: c.headDim,
  hidden_act: 'silu',
  hidden_size: c.hiddenSize,
  initializer_range: c.initializerRange,
  intermediate_size: c.intermediateSize,
  max_position_embeddings: c.maxPositionEmbeddings,
  model_type: 'qwen3',
  num_attention_heads: c.numAttentionHeads,
  num_hidden_layers: c.numHiddenLayers,
  num_key_value_heads: c.numKeyValueHeads,
  pad_token_id: c.padTokenId,
  rms_norm_eps: c.rmsNormEps,
  rope_parameters: { rope_theta: c.ropeTheta, rope_type: 'default' },
  rope_scaling: null,
  rope_theta: c.ropeTheta,
  tie_word_embeddings: c.tieWordEmbeddings,
  torch_dtype: TORCH_NAMES[dtype],
  use_cache: true,
  use_sliding_window: false,
  vocab_size: c.vocabSize,
});

const TORCH_NAMES: Partial<Record<DType, string>> = {
  f32: 'float32',
  f64: 'float64',
  f16: 'float16',
  bf16: 'bfloat16',
};
function dtypeOf(torch: string): DType {
  const found = Object.entries(TORCH_NAMES).find(([, name]) => name === torch);
  if (!found)
    throw new ArgumentError(
      `config.json: weights in ${torch} are not supported: ${Object.values(TORCH_NAMES).join(', ')}`,
    );
  return found[0] as DType;
}
