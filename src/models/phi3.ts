// Phi-3 and Phi-4-mini (arXiv:2404.14219, arXiv:2503.01743): Llama's layers with one linear layer for queries, keys and values,
// and one for both branches of the MLP; RoPE rotates a part of each head, with factors for long texts (longrope).
import type { Activation } from './activations.js';
import { DecoderRMSNorm, FusedAttention, FusedGatedMLP, PreNormLayer } from './blocks.js';
import { type Json, type LlamaLike, readActivation, readDecoder, writeConfig } from './config.js';
import type { Architecture } from './decoder.js';
import { u32 } from './gguf-form.js';
import { tensorParallelTable } from './parallel.js';
import { type RopeParameters, readRope } from './rope.js';

interface Phi3Config extends LlamaLike {
  readonly slidingWindow: number | null;
  readonly rope: RopeParameters;
}

/** y = x + attention(norm(x)); y + mlp(norm(y)) */
class Phi3DecoderLayer extends PreNormLayer {
  readonly selfAttn: FusedAttention; // qkv: [B, T, (H + 2 G) d]
  readonly mlp: FusedGatedMLP; // gate and up: [B, T, 2 F]
  readonly inputLayernorm: DecoderRMSNorm;
  readonly postAttentionLayernorm: DecoderRMSNorm;
  constructor(config: Phi3Config, light: boolean) {
    super(light);
    this.selfAttn = new FusedAttention(config);
    this.mlp = new FusedGatedMLP(config, { activation: config.hiddenAct as Activation });
    this.inputLayernorm = new DecoderRMSNorm(config.hiddenSize, config.rmsNormEps);
    this.postAttentionLayernorm = new DecoderRMSNorm(config.hiddenSize, config.rmsNormEps);
  }
}

/** Files of the first version name longrope su or yarn. */
const FORMER = ['su', 'yarn'];
function renamed(given: unknown): unknown {
  const { rope_type, type, ...rest } = (given ?? {}) as Json;
  const kind = rope_type ?? type;
  return given && FORMER.includes(kind as string) ? { ...rest, rope_type: 'longrope' } : given;
}

function read(json: Json, where: string): Phi3Config {
  const { config, given } = readDecoder(json, where, 'phi3', {
    maxPositionEmbeddings: 4096,
    ...{ rmsNormEps: 1e-5, bosTokenId: 1, eosTokenId: 32000, padTokenId: 32000 },
  });
  const positions = {
    original_max_position_embeddings: 4096,
    ...json,
    rope_parameters: renamed(json.rope_parameters),
    rope_scaling: renamed(json.rope_scaling),
  };
  return {
    ...readActivation(config, where),
    slidingWindow: given.sliding_window ?? null,
    rope: readRope(positions, where, config),
  };
}

export const phi3: Architecture<Phi3Config> = {
  modelType: 'phi3',
  name: 'Phi-3',
  read,
  write: (config, dtype) => writeConfig(config, dtype, 'Phi3ForCausalLM'),
  parts: (config) => ({
    name: 'Phi-3',
    layer: (_, light) => new Phi3DecoderLayer(config, light),
    kind: () => ({ window: config.slidingWindow, rope: 'rope' }),
    norm: () => new DecoderRMSNorm(config.hiddenSize, config.rmsNormEps),
    rope: config.rope,
  }),
  tensorParallel: tensorParallelTable(['qkv_proj', 'gate_up_proj'], ['o_proj', 'down_proj'], 'embed_tokens'),
  lora: { attention: ['qkv_proj', 'o_proj'], key: [], mlp: ['gate_up_proj', 'down_proj'] },
  gguf: {
    architecture: 'phi3',
    headsFillHidden: true,
    factors: ['longrope'],
    metadata: ({ slidingWindow, rope }) => ({
      'attention.sliding_window': u32(slidingWindow ?? 0), // 0: Phi-4
      'rope.scaling.original_context_length': u32(rope.originalMaxPositionEmbeddings),
    }),
  },
};
