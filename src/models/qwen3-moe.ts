// Qwen3-MoE (arXiv:2505.09388), such as Qwen3-30B-A3B: Qwen3's layers with routed experts instead of the MLP, in all layers or some.
import { checkJson, flag, list, object, optional, real, whole } from '../base/json.js';
import type { Activation } from './activations.js';
import { Attention, DecoderRMSNorm, GatedMLP, PreNormLayer } from './blocks.js';
import { type Json, type LlamaLike, readActivation, readDecoder, refuser, size, writeConfig } from './config.js';
import type { Architecture } from './decoder.js';
import { RoutedMLP, type Routing } from './experts.js';
import { expertMetadata, u32 } from './gguf-form.js';
import { EXPERT_PARALLEL, LORA_TARGETS } from './parallel.js';
import { type RopeParameters, readRope } from './rope.js';

interface Qwen3MoeConfig extends LlamaLike {
  readonly slidingWindow: number | null;
  readonly rope: RopeParameters;
  readonly routing: Routing;
  /** The intermediate size of one expert. */
  readonly moeIntermediateSize: number;
  readonly auxLossCoef: number;
  readonly outputRouterLogits: boolean;
  /** Whether each layer has experts; the others have one MLP. */
  readonly isSparse: readonly boolean[];
}

/** y = x + attention(norm(x)); y + mlp(norm(y)) */
class Qwen3MoeDecoderLayer extends PreNormLayer {
  readonly selfAttn: Attention; // q: [B, T, H d], k and v: [B, T, G d], each head normalized by itself
  readonly mlp: RoutedMLP | GatedMLP;
  readonly inputLayernorm: DecoderRMSNorm;
  readonly postAttentionLayernorm: DecoderRMSNorm;
  constructor(config: Qwen3MoeConfig, index: number, light: boolean) {
    super(light);
    const { hiddenSize, moeIntermediateSize: intermediateSize, attentionBias: bias, rmsNormEps: eps } = config;
    const activation = config.hiddenAct as Activation;
    const make = (size: number) => new DecoderRMSNorm(size, eps);
    this.selfAttn = new Attention(config, { bias, qkNorm: { of: 'head', make } });
    this.mlp = config.isSparse[index]
      ? new RoutedMLP({ hiddenSize, intermediateSize, activation }, config.routing)
      : new GatedMLP(config, { activation });
    this.inputLayernorm = make(hiddenSize);
    this.postAttentionLayernorm = make(hiddenSize);
  }
}

const Qwen3MoeSchema = object({
  decoder_sparse_step: optional(size),
  moe_intermediate_size: optional(size),
  num_experts_per_tok: optional(size),
  num_experts: optional(whole()),
  num_local_experts: optional(whole()),
  norm_topk_prob: optional(flag),
  output_router_logits: optional(flag),
  router_aux_loss_coef: optional(real),
  mlp_only_layers: optional(list(whole())),
});
function read(json: Json, where: string): Qwen3MoeConfig {
  const { config, given } = readDecoder(json, where, 'qwen3_moe', { maxPositionEmbeddings: 32768, keyValueHeads: 4 });
  const own = checkJson(json, where, Qwen3MoeSchema);
  const { decoder_sparse_step: step = 1, num_experts_per_tok: topK = 8, mlp_only_layers: dense } = own;
  const numExperts = own.num_experts ?? own.num_local_experts ?? 128;
  if (numExperts && topK > numExperts)
    refuser(where)(`num_experts_per_tok is ${topK}: it must be at most num_experts, which is ${numExperts}`);
  return {
    ...readActivation(config, where),
    slidingWindow: given.use_sliding_window ? (given.sliding_window ?? 4096) : null,
    rope: readRope(json, where, config),
    routing: { numExperts, topK, normalized: own.norm_topk_prob ?? false },
    moeIntermediateSize: own.moe_intermediate_size ?? 768,
    auxLossCoef: own.router_aux_loss_coef ?? 0.001,
    outputRouterLogits: own.output_router_logits ?? false,
    isSparse: Array.from(
      { length: config.numHiddenLayers },
      (_, i) => numExperts > 0 && !dense?.includes(i) && (i + 1) % step === 0,
    ),
  };
}

export const qwen3Moe: Architecture<Qwen3MoeConfig> = {
  modelType: 'qwen3_moe',
  name: 'Qwen3-MoE',
  read,
  write: (config, dtype) => writeConfig(config, dtype, 'Qwen3MoeForCausalLM'),
  parts: (config) => ({
    name: 'Qwen3-MoE',
    layer: (i, light) => new Qwen3MoeDecoderLayer(config, i, light),
    kind: () => ({ window: config.slidingWindow, rope: 'rope' }),
    norm: () => new DecoderRMSNorm(config.hiddenSize, config.rmsNormEps),
    rope: config.rope,
    differ: new Set(config.isSparse).size > 1,
    ...(config.isSparse.includes(true) && {
      router: { ...config.routing, auxLossCoef: config.auxLossCoef, outputs: config.outputRouterLogits },
    }),
  }),
  tensorParallel: EXPERT_PARALLEL,
  lora: LORA_TARGETS,
  gguf: {
    architecture: 'qwen3moe',
    biases: ['attn_q', 'attn_k', 'attn_v'],
    metadata: ({ routing, moeIntermediateSize }) => ({
      ...expertMetadata(routing),
      expert_feed_forward_length: u32(moeIntermediateSize),
    }),
    refuse({ isSparse, routing }) {
      if (isSparse.includes(false))
        return `layer ${isSparse.indexOf(false)} has no experts, and it takes them in every layer`;
      return routing.normalized ? null : 'norm_topk_prob is false, and it takes true';
    },
  },
};
