// Gemma 3 (arXiv:2503.19786), the text model: Gemma 2's layers with norms on queries and keys instead of caps; five layers with a
// sliding window and a small RoPE base, then one with full attention and a large base.
import { anyObject, checkJson, object, optional, whole } from '../base/json.js';
import { type Json, positive, writeConfig } from './config.js';
import type { Architecture } from './decoder.js';
import { type GemmaConfig, GemmaDecoderLayer, GemmaRMSNorm, gemmaGguf, readGemma } from './gemma2.js';
import { f32 } from './gguf-form.js';
import { LORA_TARGETS, TENSOR_PARALLEL } from './parallel.js';
import { type RopeParameters, readRope } from './rope.js';

interface Gemma3Config extends GemmaConfig {
  /** Rotary positions of layers with full attention; `localRope` is that of layers with a window. */
  readonly rope: RopeParameters;
  readonly localRope: RopeParameters;
}

const Gemma3Schema = object({
  rope_parameters: optional(anyObject),
  rope_scaling: optional(anyObject),
  rope_local_base_freq: optional(positive),
  sliding_window_pattern: optional(whole(1)),
});
function read(given: Json, where: string): Gemma3Config {
  const json = textPart(given);
  const { sliding_window_pattern: pattern = 6, ...own } = checkJson(json, where, Gemma3Schema);
  const defaults = { maxPositionEmbeddings: 131072, pattern, attnSoftcap: null, finalSoftcap: null };
  const config = readGemma(json, where, 'gemma3_text', defaults);
  const { sliding_attention: local, full_attention: global } = (own.rope_parameters ?? {}) as Record<string, unknown>;
  const { rope_scaling: _, rope_parameters: __, rope_theta: ___, ...rest } = json;
  const all = { ...json, rope_parameters: global ?? null };
  const short = { ...rest, rope_theta: own.rope_local_base_freq ?? 10_000, rope_parameters: local ?? null };
  return {
    ...config,
    attnLogitSoftcapping: null, // transformers does not apply it
    rope: readRope(all, where, { ...config, theta: 1_000_000 }),
    localRope: readRope(short, where, config),
  };
}

/** Multimodal models have the text model's config in text_config. */
function textPart(json: Json): Json {
  if (json.model_type !== 'gemma3') return json;
  const { text_config: inside, tie_word_embeddings, dtype, torch_dtype, eos_token_id } = json;
  const outside = { tie_word_embeddings, dtype: dtype ?? torch_dtype, eos_token_id };
  const known = Object.fromEntries(Object.entries(outside).filter(([, value]) => value !== undefined));
  return { vocab_size: 262_208, ...known, ...SIZES, ...(inside as Json), model_type: 'gemma3_text' };
}
/** transformers' defaults of fields that are missing in text_config. */
const SIZES = { hidden_size: 2304, intermediate_size: 9216, num_hidden_layers: 26, num_attention_heads: 8 };

const GGUF = gemmaGguf<Gemma3Config>('gemma3', 6, 62);
export const gemma3: Architecture<Gemma3Config> = {
  modelType: 'gemma3_text',
  otherTypes: ['gemma3'],
  name: 'Gemma 3',
  read,
  write: (config, dtype) => writeConfig(config, dtype, 'Gemma3ForCausalLM'),
  parts: (config) => ({
    name: 'Gemma 3',
    layer: (_, light) =>
      new GemmaDecoderLayer(config, light, {
        qkNorm: { of: 'head', make: (size) => new GemmaRMSNorm(size, config.rmsNormEps) },
      }),
    kind: (i) =>
      config.isSliding[i] ? { window: config.slidingWindow, rope: 'localRope' } : { window: null, rope: 'rope' },
    norm: () => new GemmaRMSNorm(config.hiddenSize, config.rmsNormEps),
    rope: config.rope,
    localRope: config.localRope,
    embedScale: Math.sqrt(config.hiddenSize),
    logitsSoftcap: config.finalLogitSoftcapping,
  }),
  tensorParallel: TENSOR_PARALLEL,
  lora: LORA_TARGETS,
  gguf: {
    ...GGUF,
    metadata: ({ localRope, finalLogitSoftcapping }) => ({
      'rope.freq_base_swa': f32(localRope.theta),
      ...(finalLogitSoftcapping !== null && { final_logit_softcapping: f32(finalLogitSoftcapping) }),
    }),
    refuse: (config) =>
      config.localRope.type === 'default'
        ? GGUF.refuse!(config)
        : `positions of layers with a window have the rope_type ${config.localRope.type}`,
  },
  stored: {
    /** In multimodal models: model.language_model.layers or language_model.model.layers; other tensors are ignored. */
    rename(name) {
      if (/(^|\.)(vision_tower|multi_modal_projector)\./.test(name)) return null;
      return name.replace(/^model\.language_model\./, 'model.').replace(/^language_model\./, '');
    },
  },
};
