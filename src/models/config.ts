// Reads the fields of config.json that all decoders share. Fields of single architectures are read in their own files.
import * as v from 'valibot';
import type { DType } from '../base/dtype.js';
import { ArgumentError, FileError } from '../base/errors.js';
import { checkJson, flag, list, object, optional, type Read, real, text, whole } from '../base/json.js';
import { checkActivation } from './activations.js';

export type Json = Readonly<Record<string, unknown>>;

/** The sizes of a decoder. */
export interface DecoderSizes {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  readonly numKeyValueHeads: number;
  /** The width of one head: it need not be hiddenSize / numAttentionHeads. */
  readonly headDim: number;
  readonly maxPositionEmbeddings: number;
}
/** The configuration that all decoders share. */
export interface DecoderConfig extends DecoderSizes {
  /** The architecture, as in config.json. Default: 'qwen3'. */
  readonly modelType?: string;
  readonly initializerRange: number;
  /** Whether the output projection uses the weight of the embedding. */
  readonly tieWordEmbeddings: boolean;
  /** The dtype of the stored weights. */
  readonly dtype: DType;
  readonly bosTokenId: number | null;
  readonly eosTokenId: number | readonly number[] | null;
  readonly padTokenId: number | null;
}
/** The configuration of an architecture whose config.json is written as it was read. */
export interface ReadConfig extends DecoderConfig {
  readonly modelType: string;
  readonly json: Json;
}

// ---- schemas

export const size = whole(1, 2 ** 31 - 1);
/** Limited, because all layers are created before any weight is read. */
export const layerCount = whole(1, 10_000);
export const positive = v.pipe(
  real,
  v.check((x) => x > 0, 'a number above 0'),
);
const givenId = whole(-1, 2 ** 31 - 1);
/** Some files have -1 for none, as transformers accepts. */
export const tokenId = v.pipe(
  givenId,
  v.transform((id) => (id < 0 ? undefined : id)),
);
/** One or several token ids; negative ones are dropped. */
export const tokenIds = v.pipe(
  v.union([givenId, list(givenId)], 'a token id or a list of token ids'),
  v.transform((ids) => {
    const known = [ids].flat().filter((id) => id >= 0);
    return Array.isArray(ids) ? known : known[0];
  }),
);

/** Fields of all decoders. */
const TOKENS = {
  initializer_range: optional(positive),
  tie_word_embeddings: optional(flag),
  dtype: optional(text),
  torch_dtype: optional(text),
  bos_token_id: optional(tokenId),
  eos_token_id: optional(tokenIds),
  pad_token_id: optional(tokenId),
};
const TokensSchema = object({ vocab_size: size, ...TOKENS });
const DecoderSchema = object({
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: layerCount,
  num_attention_heads: size,
  num_key_value_heads: optional(size),
  head_dim: optional(size),
  max_position_embeddings: optional(size),
  rms_norm_eps: optional(positive),
  hidden_act: optional(text),
  hidden_activation: optional(text),
  attention_bias: optional(flag),
  attention_dropout: optional(real),
  sliding_window: optional(size),
  use_sliding_window: optional(flag),
  layer_types: optional(list(text)),
  ...TOKENS,
});
export type DecoderJson = Read<typeof DecoderSchema>;
const KindSchema = object({ model_type: optional(text), architectures: optional(list(text)) });

export const brief = (name: string): string => (name.length > 60 ? `${name.slice(0, 57)}...` : name);

/** The model_type of a config.json, or else the first of its `architectures`. */
export function modelTypeOf(json: unknown, where: string): string | undefined {
  const { model_type, architectures } = checkJson(json, where, KindSchema);
  return model_type ?? architectures?.[0];
}

/** Makes a function that throws a FileError with the name of the file. */
export const refuser =
  (where: string) =>
  (what: string): never => {
    throw new FileError(`${where}: ${what}`);
  };

// ---- common fields

/** transformers' defaults of fields that are missing in config.json. */
export interface Defaults {
  readonly maxPositionEmbeddings: number;
  readonly keyValueHeads?: number;
  readonly headDim?: number;
  readonly rmsNormEps?: number;
  readonly tieWordEmbeddings?: boolean;
  readonly bosTokenId?: number;
  readonly eosTokenId?: number;
  readonly padTokenId?: number;
}

type Tokens = Pick<
  ReadConfig,
  'vocabSize' | 'initializerRange' | 'tieWordEmbeddings' | 'dtype' | 'bosTokenId' | 'eosTokenId' | 'padTokenId'
>;
/** The given value, or the default if the key is missing; null in the file means none. */
const unlessNull = <T>(json: Json, key: string, given: T | undefined, otherwise: T | undefined): T | null =>
  given ?? (key in json ? null : (otherwise ?? null));

export function readTokens(json: Json, where: string, defaults: Partial<Defaults>): Tokens {
  const given = checkJson(json, where, TokensSchema);
  const padTokenId = unlessNull(json, 'pad_token_id', given.pad_token_id, defaults.padTokenId);
  const known = padTokenId !== null && padTokenId >= given.vocab_size && !given.pad_token_id ? null : padTokenId;
  if (known !== null && known >= given.vocab_size)
    refuser(where)(
      `pad_token_id is ${known}, vocab_size is ${given.vocab_size}: token ids must be less than vocab_size`,
    );
  return {
    vocabSize: given.vocab_size,
    initializerRange: given.initializer_range ?? 0.02,
    tieWordEmbeddings: given.tie_word_embeddings ?? defaults.tieWordEmbeddings ?? false,
    dtype: dtypeOf(given.dtype ?? given.torch_dtype ?? 'float32', where),
    bosTokenId: unlessNull(json, 'bos_token_id', given.bos_token_id, defaults.bosTokenId),
    eosTokenId: unlessNull<number | readonly number[]>(
      json,
      'eos_token_id',
      given.eos_token_id ?? undefined,
      defaults.eosTokenId,
    ),
    padTokenId: known,
  };
}

/** The configuration of Llama-like decoders: checked sizes, and the fields that most architectures share. */
export interface LlamaLike extends ReadConfig {
  readonly rmsNormEps: number;
  readonly hiddenAct: string;
  readonly attentionBias: boolean;
}

/** Reads config.json, with the names that most architectures use. */
export function readDecoder(
  json: Json,
  where: string,
  modelType: string,
  defaults: Defaults,
): { readonly config: LlamaLike; readonly given: DecoderJson } {
  const given = checkJson(json, where, DecoderSchema);
  const refuse = refuser(where);
  const { hidden_size: D, num_attention_heads: H } = given;
  const G = given.num_key_value_heads ?? defaults.keyValueHeads ?? H;
  const d = given.head_dim ?? defaults.headDim ?? D / H;
  if (H % G) refuse(`num_attention_heads is ${H}, which is not divisible by num_key_value_heads, ${G}`);
  if (!Number.isInteger(d) || d % 2)
    refuse(`head_dim is ${d} (hidden_size ${D}, ${H} heads): it must be even, because RoPE rotates pairs`);
  if (given.attention_dropout) refuse('attention_dropout is not supported: set it to 0');
  if (given.layer_types && given.layer_types.length !== given.num_hidden_layers)
    refuse(`layer_types has ${given.layer_types.length} entries, num_hidden_layers is ${given.num_hidden_layers}`);
  const odd = given.layer_types?.find((type) => !LAYER_TYPES.includes(type));
  if (odd !== undefined) refuse(`layer_types has ${brief(odd)}: supported are ${LAYER_TYPES.join(', ')}`);
  const config: LlamaLike = {
    modelType,
    json,
    ...readTokens(json, where, defaults),
    hiddenSize: D,
    intermediateSize: given.intermediate_size,
    numHiddenLayers: given.num_hidden_layers,
    numAttentionHeads: H,
    numKeyValueHeads: G,
    headDim: d,
    maxPositionEmbeddings: given.max_position_embeddings ?? defaults.maxPositionEmbeddings,
    rmsNormEps: given.rms_norm_eps ?? defaults.rmsNormEps ?? 1e-6,
    hiddenAct: given.hidden_act ?? 'silu',
    attentionBias: given.attention_bias ?? false,
  };
  return { config, given };
}
export const LAYER_TYPES: readonly string[] = ['full_attention', 'sliding_attention'];

/** A config.json as it was read, with the dtype of the weights that are written with it. */
export function writeConfig({ json }: ReadConfig, dtype: DType, className: string): Json {
  const { quantization_config: _, torch_dtype: __, ...rest } = json;
  return { ...rest, architectures: [className], dtype: TORCH_NAMES[dtype], torch_dtype: TORCH_NAMES[dtype] };
}

export const TORCH_NAMES: Partial<Record<DType, string>> = {
  f32: 'float32',
  f64: 'float64',
  f16: 'float16',
  bf16: 'bfloat16',
};
export function dtypeOf(torch: string, where: string): DType {
  const found = Object.entries(TORCH_NAMES).find(([, name]) => name === torch);
  if (!found)
    throw new FileError(
      `${where}: weights in ${brief(torch)} are not supported: use ${Object.values(TORCH_NAMES).join(', ')}`,
    );
  return found[0] as DType;
}

/** Returns the config if its activation is supported. */
export function readActivation<C extends Pick<LlamaLike, 'hiddenAct'>>(config: C, where: string): C {
  try {
    checkActivation(config.hiddenAct);
  } catch (e) {
    throw e instanceof ArgumentError ? new FileError(`${where}: ${e.message}`, { cause: e }) : e;
  }
  return config;
}
