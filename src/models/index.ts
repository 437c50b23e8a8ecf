// Models that people publish weights for.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them

export { type Append, type CacheSizes, KeyValueCache } from './cache.js';
export { readFolder } from './folder.js';
export * from './generate.js';
export {
  CHECKPOINT,
  type PretrainedOptions,
  Qwen3Attention,
  Qwen3DecoderLayer,
  Qwen3ForCausalLM,
  type Qwen3Inputs,
  Qwen3MLP,
  Qwen3Model,
  type Qwen3Options,
  Qwen3RMSNorm,
  Qwen3RotaryEmbedding,
} from './qwen3.js';
export { QWEN3, type Qwen3Config, qwen3Config, readQwen3Config, writeQwen3Config } from './qwen3-config.js';
export { QWEN3_TENSOR_PARALLEL } from './qwen3-parallel.js';
export { filterLogits, type SamplingOptions, sample, samplingSettings } from './sampling.js';
export { type ChatMessage, type ChatOptions, TextStream, Tokenizer } from './tokenizer.js';
