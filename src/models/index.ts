// Models that people publish weights for.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them

export { type Append, type CacheSizes, KeyValueCache } from './cache.js';
export * from './generate.js';
export * from './qwen3.js';
export { QWEN3, type Qwen3Config, qwen3Config, readQwen3Config, writeQwen3Config } from './qwen3-config.js';
export { QWEN3_TENSOR_PARALLEL } from './qwen3-parallel.js';
export { filterLogits, type SamplingOptions, sample, samplingSettings } from './sampling.js';
export { type ChatMessage, type ChatOptions, TextStream, Tokenizer } from './tokenizer.js';
