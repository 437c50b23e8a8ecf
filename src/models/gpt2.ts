// GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"): LayerNorm before attention and MLP, learned
// positions, one linear for queries, keys and values, an MLP without a gate. Its matrices are transposed in files (Conv1D).
// Unlike transformers: the dropout that config.json names is not applied in training.
import { checkJson, flag, object, optional, text } from '../base/json.js';
import { Linear } from '../nn/linear.js';
import type { Module, Parameter } from '../nn/module.js';
import { LayerNorm } from '../nn/norm.js';
import type { Tensor } from '../tensor/tensor.js';
import { ACTIVATIONS, type Activation } from './activations.js';
import { DecoderLayer, DecoderMLP, FusedAttention, type LayerNorms, renamed } from './blocks.js';
import {
  type Json,
  layerCount,
  positive,
  type ReadConfig,
  readActivation,
  readTokens,
  refuser,
  size,
  writeConfig,
} from './config.js';
import type { Architecture } from './decoder.js';
import { f32 } from './gguf-form.js';
import { tensorParallelTable } from './parallel.js';

interface Gpt2Config extends ReadConfig {
  readonly hiddenAct: string;
  readonly layerNormEpsilon: number;
  readonly scaleAttnWeights: boolean;
}

class Gpt2LayerNorm extends LayerNorm {
  declare weight: Parameter;
}
class Gpt2Attention extends FusedAttention {
  override *members(): ReturnType<Module['members']> {
    yield* renamed(super.members(), { qkv_proj: 'c_attn', o_proj: 'c_proj' });
  }
}

/** proj(gelu(fc(x))): [B, T, D] through [B, T, F] */
class Gpt2MLP extends DecoderMLP {
  readonly cFc: Linear;
  readonly cProj: Linear;
  readonly activation: Activation;
  constructor({ hiddenSize: D, intermediateSize: F, hiddenAct }: Gpt2Config) {
    super();
    this.cFc = new Linear(D, F);
    this.cProj = new Linear(F, D);
    this.activation = hiddenAct as Activation;
  }
  override open(x: Tensor): Tensor[] {
    return [this.cFc.forward(x)];
  }
  override close([x]: readonly Tensor[]): Tensor {
    return this.cProj.forward(ACTIVATIONS[this.activation](x!));
  }
}

/** y = x + attention(norm(x)); y + mlp(norm(y)) */
class Gpt2Layer extends DecoderLayer {
  readonly selfAttn: Gpt2Attention; // qkv: [B, T, 3 D]
  readonly mlp: Gpt2MLP;
  readonly norm1: Gpt2LayerNorm;
  readonly norm2: Gpt2LayerNorm;
  constructor(config: Gpt2Config, light: boolean) {
    super(light);
    const { hiddenSize: D, layerNormEpsilon: eps } = config;
    this.selfAttn = new Gpt2Attention(config, { bias: true, scale: config.scaleAttnWeights ? undefined : 1 });
    this.mlp = new Gpt2MLP(config);
    this.norm1 = new Gpt2LayerNorm(D, { eps });
    this.norm2 = new Gpt2LayerNorm(D, { eps });
  }
  protected override norms(): LayerNorms {
    return { beforeAttention: this.norm1, afterAttention: null, beforeMlp: this.norm2, afterMlp: null };
  }
  override *members(): ReturnType<Module['members']> {
    yield* renamed(super.members(), { self_attn: 'attn', norm1: 'ln_1', norm2: 'ln_2' });
  }
}

const Gpt2Schema = object({
  n_positions: optional(size),
  n_embd: optional(size),
  n_layer: optional(layerCount),
  n_head: optional(size),
  n_inner: optional(size),
  activation_function: optional(text),
  layer_norm_epsilon: optional(positive),
  scale_attn_weights: optional(flag),
  scale_attn_by_inverse_layer_idx: optional(flag),
  reorder_and_upcast_attn: optional(flag),
  add_cross_attention: optional(flag),
});
function read(json: Json, where: string): Gpt2Config {
  const given = checkJson(json, where, Gpt2Schema);
  const refuse = refuser(where);
  for (const key of ['scale_attn_by_inverse_layer_idx', 'reorder_and_upcast_attn', 'add_cross_attention'] as const)
    if (given[key]) refuse(`${key} is true, which is not supported: GPT-2 was trained without it`);
  const { n_embd: D = 768, n_head: H = 12, n_layer: L = 12, n_positions: positions = 1024 } = given;
  if (D % H) refuse(`n_embd is ${D}, which is not divisible by n_head, ${H}`);
  const config: Gpt2Config = {
    modelType: 'gpt2',
    json,
    ...readTokens({ vocab_size: 50257, ...json }, where, {
      tieWordEmbeddings: true,
      bosTokenId: 50256,
      eosTokenId: 50256,
    }),
    hiddenSize: D,
    intermediateSize: given.n_inner ?? 4 * D,
    numHiddenLayers: L,
    numAttentionHeads: H,
    numKeyValueHeads: H,
    headDim: D / H,
    maxPositionEmbeddings: positions,
    hiddenAct: given.activation_function ?? 'gelu_new',
    layerNormEpsilon: given.layer_norm_epsilon ?? 1e-5,
    scaleAttnWeights: given.scale_attn_weights ?? true,
  };
  return readActivation(config, where);
}

const MATRIX = /\.(c_attn|c_proj|c_fc)\.weight$/;
export const gpt2: Architecture<Gpt2Config> = {
  modelType: 'gpt2',
  name: 'GPT-2',
  read,
  write: (config, dtype) => writeConfig(config, dtype, 'GPT2LMHeadModel'),
  parts: (config) => ({
    name: 'GPT-2',
    layer: (_, light) => new Gpt2Layer(config, light),
    kind: () => ({ window: null, rope: null }),
    norm: () => new Gpt2LayerNorm(config.hiddenSize, { eps: config.layerNormEpsilon }),
    rope: null,
    learnedPositions: true,
    names: { model: 'transformer', embed_tokens: 'wte', embed_positions: 'wpe', layers: 'h', norm: 'ln_f' },
  }),
  tensorParallel: tensorParallelTable(['c_attn', 'c_fc'], ['c_proj'], 'wte'),
  lora: { attention: ['c_attn', 'attn.c_proj'], key: [], mlp: ['c_fc', 'mlp.c_proj'] },
  stored: {
    /** Older files have no prefix, and have masks as buffers. */
    rename(name) {
      if (/\.attn\.(bias|masked_bias)$/.test(name)) return null;
      return /^(transformer|lm_head)\./.test(name) ? name : `transformer.${name}`;
    },
    isTransposed: (name) => MATRIX.test(name),
  },
  gguf: {
    architecture: 'gpt2',
    activations: ['gelu_new', 'gelu_pytorch_tanh'],
    names: {
      ln_1: 'attn_norm',
      ln_2: 'ffn_norm',
      'attn.c_attn': 'attn_qkv',
      'attn.c_proj': 'attn_output',
      'mlp.c_fc': 'ffn_up',
      'mlp.c_proj': 'ffn_down',
    },
    biases: ['attn_norm', 'ffn_norm', 'attn_qkv', 'attn_output', 'ffn_up', 'ffn_down'],
    metadata: ({ layerNormEpsilon }) => ({ 'attention.layer_norm_epsilon': f32(layerNormEpsilon) }),
    refuse: ({ scaleAttnWeights }) => (scaleAttnWeights ? null : 'scale_attn_weights is false'),
  },
};
