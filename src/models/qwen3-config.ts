// The sizes of a Qwen3, as config.json tells them, and those that were published.
import * as v from 'valibot';
import { checkWhole } from '../base/check.js';
import type { DType } from '../base/dtype.js';
import { ArgumentError, FileError } from '../base/errors.js';
import { checkJson, flag, list, object, optional, real, text, whole } from '../base/json.js';
import { checkOptions } from '../base/options.js';
import { describe } from '../base/tree.js';

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
  checkOptions<Qwen3Config>('Qwen3', CONFIG, given as Qwen3Config);
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
const CONFIG = Object.keys(sizes(1, 1, 1, 1, true)) as (keyof Qwen3Config)[];
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
const brief = (name: string): string => (name.length > 60 ? `${name.slice(0, 57)}...` : name);

const size = whole(1, 2 ** 31 - 1);
const positive = v.pipe(
  real,
  v.check((x) => x > 0, 'a number above 0'),
);
const givenId = whole(-1, 2 ** 31 - 1);
/** Some files have -1 for none, which transformers reads. */
const tokenId = v.pipe(
  givenId,
  v.transform((id) => (id < 0 ? undefined : id)),
);
/** The ids that end a text. */
export const tokenIds = v.pipe(
  v.union([givenId, list(givenId)], 'a token id or a list of token ids'),
  v.transform((ids) => {
    const known = [ids].flat().filter((id) => id >= 0);
    return Array.isArray(ids) ? known : known[0];
  }),
);
const rope = object({ rope_type: optional(text), type: optional(text), rope_theta: optional(positive) });

/** What is read of a config.json. Other keys are left alone. */
const Qwen3ConfigSchema = object({
  vocab_size: size,
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: whole(1, 10_000), // each is an object in memory before a weight is looked for
  num_attention_heads: size,
  num_key_value_heads: optional(size),
  head_dim: optional(whole(2, 2 ** 31 - 1)),
  max_position_embeddings: optional(size),
  rope_parameters: optional(rope),
  rope_scaling: optional(rope),
  rope_theta: optional(positive),
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
const KindSchema = object({ model_type: optional(text), architectures: optional(list(text)) });

/** What a config.json says, of transformers 4 or 5. `where` names it in errors. */
export function readQwen3Config(json: unknown, where = 'config.json'): Qwen3Config {
  const { model_type, architectures } = checkJson(json, where, KindSchema);
  const kind = model_type ?? architectures?.[0];
  if (kind !== 'qwen3')
    throw new FileError(
      `${where} is of another architecture: ${brief(kind ?? 'it has no model_type')}; this reads dense Qwen3 models (qwen3)`,
    );
  const given = checkJson(json, where, Qwen3ConfigSchema);
  const refuse = (what: string): never => {
    throw new FileError(`${where}: ${what}`);
  };

  // transformers 5 has rope_parameters; 4 had rope_theta and, for longer texts, rope_scaling.
  const positions = given.rope_parameters ?? given.rope_scaling ?? {};
  const ropeType = positions.rope_type ?? positions.type ?? 'default';
  if (ropeType !== 'default')
    refuse(`positions of kind ${brief(ropeType)} are not supported, only default: leave rope_scaling out`);
  if (given.use_sliding_window || given.layer_types?.some((t) => t !== 'full_attention'))
    refuse('sliding windows are not supported: every layer must have full_attention');
  const act = given.hidden_act ?? 'silu';
  if (act !== 'silu') refuse(`hidden_act is ${brief(act)}: Qwen3 has silu`);
  if (given.attention_dropout) refuse('attention_dropout is not supported: Qwen3 was trained with 0');

  const { vocab_size: tokens, pad_token_id: pad } = given;
  if (pad !== undefined && pad >= tokens)
    refuse(`pad_token_id is ${pad}, vocab_size ${tokens}: a token id is below the size of the vocabulary`);
  return named(where, {
    vocabSize: given.vocab_size,
    hiddenSize: given.hidden_size,
    intermediateSize: given.intermediate_size,
    numHiddenLayers: given.num_hidden_layers,
    numAttentionHeads: given.num_attention_heads,
    numKeyValueHeads: given.num_key_value_heads ?? given.num_attention_heads,
    headDim: given.head_dim ?? 128,
    maxPositionEmbeddings: given.max_position_embeddings ?? 32768,
    ropeTheta: positions.rope_theta ?? given.rope_theta ?? 10000,
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

/** What is wrong between two sizes is in the file, too. */
function named(where: string, given: Qwen3Config): Qwen3Config {
  try {
    return qwen3Config(given);
  } catch (e) {
    throw e instanceof ArgumentError ? new FileError(`${where}: ${e.message}`, { cause: e }) : e;
  }
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
function dtypeOf(torch: string, where: string): DType {
  const found = Object.entries(TORCH_NAMES).find(([, name]) => name === torch);
  if (!found)
    throw new FileError(
      `${where}: weights in ${brief(torch)} are not supported: ${Object.values(TORCH_NAMES).join(', ')}`,
    );
  return found[0] as DType;
}
