// Gemma 2 (arXiv:2408.00118): norms before and after attention and MLP with scales of 1 + weight, a sliding window in every other
// layer, soft caps on attention scores and on logits, embeddings times sqrt(D).
import { checkJson, flag, object, optional } from '../base/json.js';
import type { Activation } from './activations.js';
import {
  Attention,
  DecoderLayer,
  GatedMLP,
  type LayerNorms,
  type SplitAttentionOptions,
  WideRMSNorm,
} from './blocks.js';
import { type Json, type LlamaLike, positive, readActivation, readDecoder, refuser, writeConfig } from './config.js';
import type { Architecture } from './decoder.js';
import { f32, type GgufForm } from './gguf-form.js';
import { LORA_TARGETS, TENSOR_PARALLEL } from './parallel.js';
import { type RopeParameters, readRope } from './rope.js';

export interface GemmaConfig extends LlamaLike {
  /** Scores are divided by its square root. */
  readonly queryPreAttnScalar: number;
  readonly slidingWindow: number;
  readonly isSliding: readonly boolean[];
  readonly attnLogitSoftcapping: number | null;
  readonly finalLogitSoftcapping: number | null;
}
interface Gemma2Config extends GemmaConfig {
  readonly rope: RopeParameters;
}

export class GemmaRMSNorm extends WideRMSNorm {
  constructor(size: number, eps: number) {
    super(size, eps, 1);
  }
}

/** y = x + norm(attention(norm(x))); y + norm(mlp(norm(y))) */
export class GemmaDecoderLayer extends DecoderLayer {
  readonly selfAttn: Attention; // q: [B, T, H d], k and v: [B, T, G d]
  readonly mlp: GatedMLP; // down(gelu(gate(x)) * up(x)): [B, T, D] through [B, T, F]
  readonly inputLayernorm: GemmaRMSNorm;
  readonly postAttentionLayernorm: GemmaRMSNorm;
  readonly preFeedforwardLayernorm: GemmaRMSNorm;
  readonly postFeedforwardLayernorm: GemmaRMSNorm;
  constructor(config: GemmaConfig, light: boolean, { qkNorm }: Pick<SplitAttentionOptions, 'qkNorm'> = {}) {
    super(light);
    const norm = () => new GemmaRMSNorm(config.hiddenSize, config.rmsNormEps);
    this.selfAttn = new Attention(config, {
      bias: config.attentionBias,
      scale: config.queryPreAttnScalar ** -0.5,
      softcap: config.attnLogitSoftcapping,
      ...(qkNorm && { qkNorm }),
    });
    this.mlp = new GatedMLP(config, { activation: config.hiddenAct as Activation });
    this.inputLayernorm = norm();
    this.postAttentionLayernorm = norm();
    this.preFeedforwardLayernorm = norm();
    this.postFeedforwardLayernorm = norm();
  }
  protected override norms(): LayerNorms {
    return {
      beforeAttention: this.inputLayernorm,
      afterAttention: this.postAttentionLayernorm,
      beforeMlp: this.preFeedforwardLayernorm,
      afterMlp: this.postFeedforwardLayernorm,
    };
  }
}

const GemmaSchema = object({
  query_pre_attn_scalar: optional(positive),
  attn_logit_softcapping: optional(positive),
  final_logit_softcapping: optional(positive),
  use_bidirectional_attention: optional(flag),
});
export interface GemmaDefaults {
  readonly maxPositionEmbeddings: number;
  /** The period of layers with full attention. */
  readonly pattern: number;
  readonly attnSoftcap: number | null;
  readonly finalSoftcap: number | null;
}
/** The common fields of Gemma 2 and Gemma 3. */
export function readGemma(json: Json, where: string, modelType: string, defaults: GemmaDefaults): GemmaConfig {
  const { config, given } = readDecoder(json, where, modelType, {
    maxPositionEmbeddings: defaults.maxPositionEmbeddings,
    ...{ keyValueHeads: 4, headDim: 256, tieWordEmbeddings: true, padTokenId: 0, eosTokenId: 1, bosTokenId: 2 },
  });
  const own = checkJson(json, where, GemmaSchema);
  if (own.use_bidirectional_attention)
    refuser(where)('use_bidirectional_attention is not supported: decoders have causal attention');
  const capOf = (key: 'attn_logit_softcapping' | 'final_logit_softcapping', otherwise: number | null) =>
    own[key] ?? (key in json ? null : otherwise);
  const isSliding = Array.from({ length: config.numHiddenLayers }, (_, i) =>
    given.layer_types ? given.layer_types[i] === 'sliding_attention' : (i + 1) % defaults.pattern !== 0,
  );
  return {
    ...readActivation({ ...config, hiddenAct: given.hidden_activation ?? 'gelu_pytorch_tanh' }, where),
    queryPreAttnScalar: own.query_pre_attn_scalar ?? 256,
    slidingWindow: given.sliding_window ?? 4096,
    isSliding,
    attnLogitSoftcapping: capOf('attn_logit_softcapping', defaults.attnSoftcap),
    finalLogitSoftcapping: capOf('final_logit_softcapping', defaults.finalSoftcap),
  };
}

/** The GGUF form of Gemma 2 and Gemma 3; `largest` is the number of layers by which llama.cpp recognizes the 27B model. */
export const gemmaGguf = <C extends GemmaConfig>(
  architecture: string,
  windowsEvery: number,
  largest: number,
): GgufForm<C> => ({
  architecture,
  normOffset: 1,
  activations: ['gelu_pytorch_tanh', 'gelu_new'],
  names: { post_attention_layernorm: 'post_attention_norm' },
  windowsEvery,
  metadata: ({ attnLogitSoftcapping: scores, finalLogitSoftcapping: logits }) => ({
    ...(scores !== null && { attn_logit_softcapping: f32(scores) }),
    ...(logits !== null && { final_logit_softcapping: f32(logits) }),
  }),
  refuse(config) {
    const { queryPreAttnScalar, numHiddenLayers, hiddenSize, numAttentionHeads, headDim } = config;
    const taken = numHiddenLayers === largest ? Math.floor(hiddenSize / numAttentionHeads) : headDim;
    if (queryPreAttnScalar !== taken) return `query_pre_attn_scalar is ${queryPreAttnScalar}, and it takes ${taken}`;
    if (architecture === 'gemma2' && config.attnLogitSoftcapping === null)
      return 'attn_logit_softcapping is null, and it takes 50';
    return config.tieWordEmbeddings ? null : 'the output has a table of its own (tie_word_embeddings is false)';
  },
});

const DEFAULTS = { maxPositionEmbeddings: 8192, pattern: 2, attnSoftcap: 50, finalSoftcap: 30 };

export const gemma2: Architecture<Gemma2Config> = {
  modelType: 'gemma2',
  name: 'Gemma 2',
  read(json, where) {
    const config = readGemma(json, where, 'gemma2', DEFAULTS);
    return { ...config, rope: readRope(json, where, config) };
  },
  write: (config, dtype) => writeConfig(config, dtype, 'Gemma2ForCausalLM'),
  parts: (config) => ({
    name: 'Gemma 2',
    layer: (_, light) => new GemmaDecoderLayer(config, light),
    kind: (i) => ({ window: config.isSliding[i] ? config.slidingWindow : null, rope: 'rope' }),
    norm: () => new GemmaRMSNorm(config.hiddenSize, config.rmsNormEps),
    rope: config.rope,
    embedScale: Math.sqrt(config.hiddenSize),
    logitsSoftcap: config.finalLogitSoftcapping,
  }),
  tensorParallel: TENSOR_PARALLEL,
  lora: LORA_TARGETS,
  gguf: gemmaGguf('gemma2', 2, 46),
};
