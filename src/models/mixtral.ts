// Mixtral (arXiv:2401.04088): Mistral's layers with routed experts instead of the MLP. In files the block is block_sparse_moe, and an
// expert's layers are w1 (gate), w3 (up) and w2 (down).
import { checkJson, flag, object, optional, real } from '../base/json.js';
import type { Module } from '../nn/module.js';
import type { Activation } from './activations.js';
import { Attention, DecoderRMSNorm, GatedMLP, PreNormLayer, renamed } from './blocks.js';
import { type Json, type LlamaLike, readActivation, readDecoder, refuser, size, writeConfig } from './config.js';
import type { Architecture } from './decoder.js';
import { type ExpertSizes, RoutedMLP, type Routing } from './experts.js';
import { expertMetadata, LLAMA_GGUF } from './gguf-form.js';
import { expertParallelTable } from './parallel.js';
import { type RopeParameters, readRope } from './rope.js';

interface MixtralConfig extends LlamaLike {
  readonly slidingWindow: number | null;
  readonly rope: RopeParameters;
  readonly routing: Routing;
  readonly auxLossCoef: number;
  readonly outputRouterLogits: boolean;
}

/** w2(silu(w1(x)) * w3(x)) */
class MixtralExpert extends GatedMLP {
  override *members(): ReturnType<Module['members']> {
    yield* renamed(super.members(), { gate_proj: 'w1', up_proj: 'w3', down_proj: 'w2' });
  }
}
class MixtralMLP extends RoutedMLP {
  protected override makeExpert(sizes: ExpertSizes, activation: Activation): GatedMLP {
    return new MixtralExpert(sizes, { activation });
  }
}

/** y = x + attention(norm(x)); y + mlp(norm(y)) */
class MixtralDecoderLayer extends PreNormLayer {
  readonly selfAttn: Attention; // q: [B, T, H d], k and v: [B, T, G d]
  readonly mlp: MixtralMLP;
  readonly inputLayernorm: DecoderRMSNorm;
  readonly postAttentionLayernorm: DecoderRMSNorm;
  constructor(config: MixtralConfig, light: boolean) {
    super(light);
    const { hiddenSize, intermediateSize, rmsNormEps: eps } = config;
    this.selfAttn = new Attention(config);
    this.mlp = new MixtralMLP(
      { hiddenSize, intermediateSize, activation: config.hiddenAct as Activation },
      config.routing,
    );
    this.inputLayernorm = new DecoderRMSNorm(hiddenSize, eps);
    this.postAttentionLayernorm = new DecoderRMSNorm(hiddenSize, eps);
  }
  override *members(): ReturnType<Module['members']> {
    yield* renamed(super.members(), { mlp: 'block_sparse_moe' });
  }
}

const MixtralSchema = object({
  num_local_experts: optional(size),
  num_experts_per_tok: optional(size),
  output_router_logits: optional(flag),
  router_aux_loss_coef: optional(real),
  router_jitter_noise: optional(real),
});
function read(json: Json, where: string): MixtralConfig {
  const { config, given } = readDecoder(json, where, 'mixtral', {
    maxPositionEmbeddings: 131072,
    ...{ keyValueHeads: 8, rmsNormEps: 1e-5, bosTokenId: 1, eosTokenId: 2 },
  });
  const own = checkJson(json, where, MixtralSchema);
  const { num_local_experts: numExperts = 8, num_experts_per_tok: topK = 2 } = own;
  const refuse = refuser(where);
  if (own.router_jitter_noise) refuse('router_jitter_noise is not supported: set it to 0');
  if (topK > numExperts)
    refuse(`num_experts_per_tok is ${topK}: it must be at most num_local_experts, which is ${numExperts}`);
  return {
    ...readActivation(config, where),
    slidingWindow: given.sliding_window ?? null,
    rope: readRope(json, where, config),
    routing: { numExperts, topK, normalized: true },
    auxLossCoef: own.router_aux_loss_coef ?? 0.001,
    outputRouterLogits: own.output_router_logits ?? false,
  };
}

export const mixtral: Architecture<MixtralConfig> = {
  modelType: 'mixtral',
  name: 'Mixtral',
  read,
  write: (config, dtype) => writeConfig(config, dtype, 'MixtralForCausalLM'),
  parts: (config) => ({
    name: 'Mixtral',
    layer: (_, light) => new MixtralDecoderLayer(config, light),
    kind: () => ({ window: config.slidingWindow, rope: 'rope' }),
    norm: () => new DecoderRMSNorm(config.hiddenSize, config.rmsNormEps),
    rope: config.rope,
    router: { ...config.routing, auxLossCoef: config.auxLossCoef, outputs: config.outputRouterLogits },
  }),
  tensorParallel: expertParallelTable(['w1', 'w2', 'w3']),
  lora: { attention: ['q_proj', 'v_proj', 'o_proj'], key: ['k_proj'], mlp: ['w1', 'w2', 'w3'] },
  gguf: {
    ...LLAMA_GGUF,
    names: {
      'block_sparse_moe.gate': 'ffn_gate_inp',
      'block_sparse_moe.experts.w1': 'ffn_gate_exps',
      'block_sparse_moe.experts.w3': 'ffn_up_exps',
      'block_sparse_moe.experts.w2': 'ffn_down_exps',
    },
    metadata: ({ routing }) => expertMetadata(routing),
  },
};
