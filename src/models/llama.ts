// Llama 2 and 3 (arXiv:2307.09288, arXiv:2407.21783), and models of the same architecture: SmolLM2, TinyLlama, Yi. Pre-normalized
// layers, grouped heads, rotary positions, gated MLPs.
import { checkJson, flag, object, optional } from '../base/json.js';
import type { Activation } from './activations.js';
import { Attention, DecoderRMSNorm, GatedMLP, PreNormLayer, type SplitAttentionOptions } from './blocks.js';
import { type Json, type LlamaLike, readActivation, readDecoder, writeConfig } from './config.js';
import type { Architecture } from './decoder.js';
import { LLAMA_GGUF } from './gguf-form.js';
import { LORA_TARGETS, TENSOR_PARALLEL } from './parallel.js';
import { type RopeParameters, readRope } from './rope.js';

export interface LlamaConfig extends LlamaLike {
  readonly mlpBias: boolean;
  readonly rope: RopeParameters;
}

export interface LlamaLayerOptions extends Pick<SplitAttentionOptions, 'bias'> {
  readonly mlpBias?: boolean;
}
/** y = x + attention(norm(x)); y + mlp(norm(y)). Also used by other architectures of this form. */
export class LlamaDecoderLayer extends PreNormLayer {
  readonly selfAttn: Attention; // q: [B, T, H d], k and v: [B, T, G d]
  readonly mlp: GatedMLP; // down(silu(gate(x)) * up(x)): [B, T, D] through [B, T, F]
  readonly inputLayernorm: DecoderRMSNorm;
  readonly postAttentionLayernorm: DecoderRMSNorm;
  constructor(
    config: LlamaLike,
    light: boolean,
    { bias = config.attentionBias, mlpBias = false }: LlamaLayerOptions = {},
  ) {
    super(light);
    const activation = config.hiddenAct as Activation;
    this.selfAttn = new Attention(config, { bias });
    this.mlp = new GatedMLP(config, { bias: mlpBias, activation });
    this.inputLayernorm = new DecoderRMSNorm(config.hiddenSize, config.rmsNormEps);
    this.postAttentionLayernorm = new DecoderRMSNorm(config.hiddenSize, config.rmsNormEps);
  }
}

const LlamaSchema = object({ mlp_bias: optional(flag) });
function read(json: Json, where: string): LlamaConfig {
  const { config } = readDecoder(json, where, 'llama', { maxPositionEmbeddings: 2048, bosTokenId: 1, eosTokenId: 2 });
  const { mlp_bias: mlpBias = false } = checkJson(json, where, LlamaSchema);
  return { ...readActivation(config, where), mlpBias, rope: readRope(json, where, config) };
}

export const llama: Architecture<LlamaConfig> = {
  modelType: 'llama',
  name: 'Llama',
  read,
  write: (config, dtype) => writeConfig(config, dtype, 'LlamaForCausalLM'),
  parts: (config) => ({
    name: 'Llama',
    layer: (_, light) => new LlamaDecoderLayer(config, light, { mlpBias: config.mlpBias }),
    norm: () => new DecoderRMSNorm(config.hiddenSize, config.rmsNormEps),
    rope: config.rope,
  }),
  tensorParallel: TENSOR_PARALLEL,
  lora: LORA_TARGETS,
  gguf: LLAMA_GGUF,
};
