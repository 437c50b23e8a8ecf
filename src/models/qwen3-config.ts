// The configuration of Qwen3: config.json, and the published sizes.
import { checkWhole } from '../base/check.js';
import type { DType } from '../base/dtype.js';
import { ArgumentError, FileError } from '../base/errors.js';
import { checkJson, flag, list, object, optional, real, text, whole } from '../base/json.js';
import { checkOptions } from '../base/options.js';
import { describe } from '../base/tree.js';
import {
  brief,
  type DecoderConfig,
  dtypeOf,
  type Json,
  layerCount,
  modelTypeOf,
  positive,
  refuser,
  size,
  TORCH_NAMES,
  tokenId,
  tokenIds,
} from './config.js';
import { type RopeParameters, readRope, writeRope } from './rope.js';

export interface Qwen3Config extends DecoderConfig {
  readonly ropeTheta: number;
  /** Scaled rotary positions for texts longer than in training. Default: unscaled, with ropeTheta. */
  readonly rope?: RopeParameters;
  readonly rmsNormEps: number;
  readonly attentionBias: boolean;
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

/** The published dense Qwen3 models. */
export const QWEN3 = {
  //            hidden   MLP  layers heads tied
  '0.6B': sizes(1024, 3072, 28, 16, true),
  '1.7B': sizes(2048, 6144, 28, 16, true),
  '4B': sizes(2560, 9728, 36, 32, true),
  '8B': sizes(4096, 12288, 36, 32, false),
  '14B': sizes(5120, 17408, 40, 40, false),
  '32B': sizes(5120, 25600, 64, 64, false),
} as const satisfies Readonly<Record<string, Qwen3Config>>;

/** A checked configuration; missing fields are those of the published models. */
export function qwen3Config(
  given: Partial<Qwen3Config> &
    Pick<Qwen3Config, 'hiddenSize' | 'intermediateSize' | 'numHiddenLayers' | 'numAttentionHeads'>,
): Qwen3Config {
  checkOptions<Qwen3Config>('Qwen3', CONFIG, given as Qwen3Config);
  const config = { ...COMMON, ...given };
  const { numAttentionHeads: heads, numKeyValueHeads: groups } = config;
  for (const [name, least] of COUNTS) checkWhole(`Qwen3: ${name}`, config[name], least);
  if (heads % groups)
    throw new ArgumentError(
      `Qwen3: numAttentionHeads is ${heads}, which is not divisible by numKeyValueHeads, ${groups}`,
    );
  if (config.headDim % 2)
    throw new ArgumentError(`Qwen3: headDim is ${config.headDim}: it must be even, because RoPE rotates pairs`);
  for (const name of ['ropeTheta', 'rmsNormEps', 'initializerRange'] as const)
    if (!(config[name] > 0)) throw new ArgumentError(`Qwen3: ${name} is ${describe(config[name])}: it must be above 0`);
  return config;
}
const CONFIG = ['rope', 'modelType', ...Object.keys(sizes(1, 1, 1, 1, true))] as (keyof Qwen3Config)[];
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

/** The fields of config.json that are read. */
const Qwen3ConfigSchema = object({
  vocab_size: size,
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: layerCount,
  num_attention_heads: size,
  num_key_value_heads: optional(size),
  head_dim: optional(whole(2, 2 ** 31 - 1)),
  max_position_embeddings: optional(size),
  rms_norm_eps: optional(positive),
  initializer_range: optional(positive),
  tie_word_embeddings: optional(flag),
  attention_bias: optional(flag),
  attention_dropout: optional(real),
  use_sliding_window: optional(flag),
  layer_types: optional(list(text)),
  hidden_act: optional(text),
  dtype: optional(text),
  torch_dtype: optional(text),
  bos_token_id: optional(tokenId),
  eos_token_id: optional(tokenIds),
  pad_token_id: optional(tokenId),
});

/** Reads a config.json of transformers 4 or 5. `where` names it in errors. */
export function readQwen3Config(json: unknown, where = 'config.json'): Qwen3Config {
  const kind = modelTypeOf(json, where);
  if (kind !== 'qwen3')
    throw new FileError(
      `${where}: ${kind === undefined ? 'model_type is missing' : `the architecture is ${brief(kind)}`}; Qwen3ForCausalLM loads only dense Qwen3 models (qwen3)`,
    );
  const given = checkJson(json, where, Qwen3ConfigSchema);
  const refuse = refuser(where);
  const maxPositionEmbeddings = given.max_position_embeddings ?? 32768;
  const headDim = given.head_dim ?? 128;
  const rope = readRope(json as Json, where, { headDim, maxPositionEmbeddings });
  if (given.use_sliding_window || given.layer_types?.some((t) => t !== 'full_attention'))
    refuse('sliding windows are not supported: every layer must have full_attention');
  const act = given.hidden_act ?? 'silu';
  if (act !== 'silu') refuse(`hidden_act is ${brief(act)}: Qwen3 has silu`);
  if (given.attention_dropout) refuse('attention_dropout is not supported: Qwen3 was trained with 0');

  const { vocab_size: tokens, pad_token_id: pad } = given;
  if (pad !== undefined && pad >= tokens)
    refuse(`pad_token_id is ${pad}, vocab_size is ${tokens}: token ids must be less than vocab_size`);
  return named(where, {
    vocabSize: given.vocab_size,
    hiddenSize: given.hidden_size,
    intermediateSize: given.intermediate_size,
    numHiddenLayers: given.num_hidden_layers,
    numAttentionHeads: given.num_attention_heads,
    numKeyValueHeads: given.num_key_value_heads ?? given.num_attention_heads,
    headDim,
    maxPositionEmbeddings,
    ropeTheta: rope.theta,
    ...(rope.type !== 'default' && { rope }),
    rmsNormEps: given.rms_norm_eps ?? 1e-6,
    initializerRange: given.initializer_range ?? 0.02,
    tieWordEmbeddings: given.tie_word_embeddings ?? false,
    attentionBias: given.attention_bias ?? false,
    dtype: dtypeOf(given.dtype ?? given.torch_dtype ?? 'float32', where),
    bosTokenId: given.bos_token_id ?? null,
    eosTokenId: given.eos_token_id ?? null,
    padTokenId: given.pad_token_id ?? null,
  });
}

/** Runs the checks of sizes with the name of the file in errors. */
function named(where: string, given: Qwen3Config): Qwen3Config {
  try {
    return qwen3Config(given);
  } catch (e) {
    throw e instanceof ArgumentError ? new FileError(`${where}: ${e.message}`, { cause: e }) : e;
  }
}

/** The config.json of a configuration. */
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
  rope_parameters: c.rope ? writeRope(c.rope) : { rope_theta: c.ropeTheta, rope_type: 'default' },
  rope_scaling: c.rope ? writeRope(c.rope) : null,
  rope_theta: c.ropeTheta,
  tie_word_embeddings: c.tieWordEmbeddings,
  torch_dtype: TORCH_NAMES[dtype],
  use_cache: true,
  use_sliding_window: false,
  vocab_size: c.vocabSize,
});
