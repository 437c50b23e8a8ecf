// Qwen2 and Qwen2.5 (arXiv:2407.10671, arXiv:2412.15115): Llama's layers with biases on queries, keys and values; the upper
// layers may have a sliding window.
import { checkJson, object, optional, whole } from '../base/json.js';
import { DecoderRMSNorm } from './blocks.js';
import { type Json, type LlamaLike, readActivation, readDecoder, writeConfig } from './config.js';
import type { Architecture } from './decoder.js';
import { LlamaDecoderLayer } from './llama.js';
import { LORA_TARGETS, TENSOR_PARALLEL } from './parallel.js';
import { type RopeParameters, readRope } from './rope.js';

export interface Qwen2Config extends LlamaLike {
  /** The sliding window of each layer, in tokens; null: full attention. */
  readonly windows: readonly (number | null)[];
  readonly rope: RopeParameters;
}

const Qwen2Schema = object({ max_window_layers: optional(whole()) });
function read(json: Json, where: string): Qwen2Config {
  const { config, given } = readDecoder(json, where, 'qwen2', { maxPositionEmbeddings: 32768 });
  const { max_window_layers: first = 28 } = checkJson(json, where, Qwen2Schema);
  const window = given.use_sliding_window ? (given.sliding_window ?? 4096) : null;
  const isSliding = (i: number) => (given.layer_types ? given.layer_types[i] === 'sliding_attention' : i >= first);
  const windows = Array.from({ length: config.numHiddenLayers }, (_, i) => (isSliding(i) ? window : null));
  return { ...readActivation(config, where), windows, rope: readRope(json, where, config) };
}

export const qwen2: Architecture<Qwen2Config> = {
  modelType: 'qwen2',
  name: 'Qwen2',
  read,
  write: (config, dtype) => writeConfig(config, dtype, 'Qwen2ForCausalLM'),
  parts: (config) => ({
    name: 'Qwen2',
    layer: (_, light) => new LlamaDecoderLayer(config, light, { bias: { qkv: true, o: false } }),
    kind: (i) => ({ window: config.windows[i]!, rope: 'rope' }),
    norm: () => new DecoderRMSNorm(config.hiddenSize, config.rmsNormEps),
    rope: config.rope,
  }),
  tensorParallel: TENSOR_PARALLEL,
  lora: LORA_TARGETS,
  gguf: { architecture: 'qwen2', biases: ['attn_q', 'attn_k', 'attn_v'], headsFillHidden: true },
};
