// `tsxla/models`: decoders with published weights, generation, tokenizers.
import '../tensor/index.js'; // side effect: installs the Tensor methods

export {
  ARCHITECTURES,
  AutoModelForCausalLM,
  architectureIn,
  architectureOf,
  createModel,
  readDecoderConfig,
  readFolder,
} from './auto.js';
export type { BeamOptions } from './beams.js';
export { type Append, type CacheSizes, KeyValueCache } from './cache.js';
export type { DecoderConfig, DecoderSizes } from './config.js';
export {
  type Architecture,
  CHECKPOINT,
  DecoderForCausalLM,
  type DecoderInputs,
  DecoderModel,
  type DecoderOptions,
  type LoraTargets,
} from './decoder.js';
export { type ExpertSizes, RoutedMLP, type Routing } from './experts.js';
export * from './generate.js';
export type { PretrainedOptions } from './load.js';
export type { DecoderModelOutput, DecoderOutput, DecoderOutputs, OutputOptions } from './outputs.js';
export { QWEN3_TENSOR_PARALLEL, TENSOR_PARALLEL } from './parallel.js';
export { TextStream } from './pieces.js';
export type { LogitsProcessor, ProcessorOptions } from './processors.js';
export {
  Qwen3Attention,
  Qwen3DecoderLayer,
  Qwen3ForCausalLM,
  type Qwen3Inputs,
  Qwen3MLP,
  Qwen3Model,
  type Qwen3ModelOutput,
  type Qwen3Options,
  type Qwen3Output,
  type Qwen3Outputs,
  Qwen3RMSNorm,
  Qwen3RotaryEmbedding,
} from './qwen3.js';
export { QWEN3, type Qwen3Config, qwen3Config, readQwen3Config, writeQwen3Config } from './qwen3-config.js';
export { ROPE_TYPES, type RopeParameters, type RopeType } from './rope.js';
export { loadBalancingLoss, type RouterLoad } from './router-load.js';
export { filterLogits, type SamplingOptions, sample, samplingSettings } from './sampling.js';
export { type ChatMessage, type ChatOptions, Tokenizer } from './tokenizer.js';
