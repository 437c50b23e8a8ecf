// How llama.cpp's GGUF files of an architecture differ from Hugging Face's. Data for src/export/gguf.ts.
import type { GgufValue } from '../io/index.js';
import type { Routing } from './experts.js';
import type { RopeType } from './rope.js';

/** The GGUF form of an architecture. */
export interface GgufForm<C> {
  /** general.architecture. */
  readonly architecture: string;
  /** In each head of queries and keys, the two elements of a rotated pair are adjacent, not half a head apart. */
  readonly interleaved?: boolean;
  /** Added to the weights of norms. Default: 0. */
  readonly normOffset?: number;
  /** The activations that llama.cpp supports for it. Default: silu. */
  readonly activations?: readonly string[];
  /** Names in a layer that differ from GGUF_NAMES. */
  readonly names?: Readonly<Record<string, string>>;
  /** The layers whose biases llama.cpp reads, by their names in GGUF. Default: none. */
  readonly biases?: readonly string[];
  /** llama.cpp requires that all heads together are as wide as the hidden state. */
  readonly headsFillHidden?: boolean;
  /** The output weight is stored even if it is tied. */
  readonly needsOutput?: boolean;
  /** Supported rope types with a factor for each frequency. Default: none. */
  readonly factors?: readonly RopeType[];
  /** Sliding windows are supported, with one full-attention layer in each period of this length; else only full attention. */
  readonly windowsEvery?: number;
  /** Additional metadata; keys are without the architecture's prefix. */
  metadata?(config: C): Readonly<Record<string, GgufValue>>;
  /** The reason why llama.cpp does not support a config of this architecture, or null. */
  refuse?(config: C): string | null;
}

/** GGUF names of a layer's modules, by the model's names; experts without their numbers. */
export const GGUF_NAMES: Readonly<Record<string, string>> = {
  input_layernorm: 'attn_norm',
  post_attention_layernorm: 'ffn_norm',
  pre_feedforward_layernorm: 'ffn_norm',
  post_feedforward_layernorm: 'post_ffw_norm',
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.qkv_proj': 'attn_qkv',
  'self_attn.o_proj': 'attn_output',
  'self_attn.q_norm': 'attn_q_norm',
  'self_attn.k_norm': 'attn_k_norm',
  'mlp.gate_proj': 'ffn_gate',
  'mlp.up_proj': 'ffn_up',
  'mlp.gate_up_proj': 'ffn_up',
  'mlp.down_proj': 'ffn_down',
  'mlp.gate': 'ffn_gate_inp',
  'mlp.experts.gate_proj': 'ffn_gate_exps',
  'mlp.experts.up_proj': 'ffn_up_exps',
  'mlp.experts.down_proj': 'ffn_down_exps',
};

export const u32 = (value: number): GgufValue => ({ type: 'u32', value });
export const f32 = (value: number): GgufValue => ({ type: 'f32', value });
export const string = (value: string): GgufValue => ({ type: 'string', value });

/** Metadata of a mixture of experts. */
export const expertMetadata = ({ numExperts, topK }: Routing): Readonly<Record<string, GgufValue>> => ({
  expert_count: u32(numExperts),
  expert_used_count: u32(topK),
});

/** Llama's form, which is also used for Mistral's models. */
export const LLAMA_GGUF: GgufForm<unknown> = {
  architecture: 'llama',
  interleaved: true,
  biases: ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down'],
  factors: ['llama3', 'longrope'],
};
