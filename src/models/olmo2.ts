// OLMo 2 (arXiv:2501.00656): norms after attention and MLP instead of before them, and norms of queries and keys over all heads
// together.
import type { Activation } from './activations.js';
import { Attention, DecoderLayer, GatedMLP, type LayerNorms, WideRMSNorm } from './blocks.js';
import { type Json, type LlamaLike, readActivation, readDecoder, writeConfig } from './config.js';
import type { Architecture } from './decoder.js';
import { LORA_TARGETS, TENSOR_PARALLEL } from './parallel.js';
import { type RopeParameters, readRope } from './rope.js';

interface Olmo2Config extends LlamaLike {
  readonly rope: RopeParameters;
}

/** y = x + norm(attention(x)); y + norm(mlp(y)) */
class Olmo2DecoderLayer extends DecoderLayer {
  readonly selfAttn: Attention; // q: [B, T, H d], normalized over H d; k likewise over G d
  readonly mlp: GatedMLP;
  readonly postAttentionLayernorm: WideRMSNorm;
  readonly postFeedforwardLayernorm: WideRMSNorm;
  constructor(config: Olmo2Config, light: boolean) {
    super(light);
    const norm = (size: number) => new WideRMSNorm(size, config.rmsNormEps);
    this.selfAttn = new Attention(config, { bias: config.attentionBias, qkNorm: { of: 'all', make: norm } });
    this.mlp = new GatedMLP(config, { activation: config.hiddenAct as Activation });
    this.postAttentionLayernorm = norm(config.hiddenSize);
    this.postFeedforwardLayernorm = norm(config.hiddenSize);
  }
  protected override norms(): LayerNorms {
    const { postAttentionLayernorm: afterAttention, postFeedforwardLayernorm: afterMlp } = this;
    return { beforeAttention: null, afterAttention, beforeMlp: null, afterMlp };
  }
}

function read(json: Json, where: string): Olmo2Config {
  const { config } = readDecoder(json, where, 'olmo2', {
    maxPositionEmbeddings: 2048,
    ...{ rmsNormEps: 1e-5, padTokenId: 1, eosTokenId: 50279 },
  });
  return { ...readActivation(config, where), rope: readRope(json, where, config) };
}

export const olmo2: Architecture<Olmo2Config> = {
  modelType: 'olmo2',
  name: 'OLMo 2',
  read,
  write: (config, dtype) => writeConfig(config, dtype, 'Olmo2ForCausalLM'),
  parts: (config) => ({
    name: 'OLMo 2',
    layer: (_, light) => new Olmo2DecoderLayer(config, light),
    norm: () => new WideRMSNorm(config.hiddenSize, config.rmsNormEps),
    rope: config.rope,
  }),
  tensorParallel: TENSOR_PARALLEL,
  lora: LORA_TARGETS,
  gguf: {
    architecture: 'olmo2',
    names: { post_attention_layernorm: 'post_attention_norm' },
    headsFillHidden: true,
    needsOutput: true,
  },
};
