// Mistral 7B (arXiv:2310.06825): Llama's layers, in which a token sees the last `sliding_window` tokens; later versions see all.
import { DecoderRMSNorm } from './blocks.js';
import { type Json, type LlamaLike, readActivation, readDecoder, writeConfig } from './config.js';
import type { Architecture } from './decoder.js';
import { LLAMA_GGUF } from './gguf-form.js';
import { LlamaDecoderLayer } from './llama.js';
import { LORA_TARGETS, TENSOR_PARALLEL } from './parallel.js';
import { type RopeParameters, readRope } from './rope.js';

export interface MistralConfig extends LlamaLike {
  /** The number of tokens that a token sees, including itself; null: all before it. */
  readonly slidingWindow: number | null;
  readonly rope: RopeParameters;
}

const WINDOW = 4096;
function read(json: Json, where: string): MistralConfig {
  const { config, given } = readDecoder(json, where, 'mistral', {
    maxPositionEmbeddings: 131072,
    keyValueHeads: 8,
    bosTokenId: 1,
    eosTokenId: 2,
  });
  const slidingWindow = given.sliding_window ?? ('sliding_window' in json ? null : WINDOW);
  return { ...readActivation(config, where), attentionBias: false, slidingWindow, rope: readRope(json, where, config) };
}

export const mistral: Architecture<MistralConfig> = {
  modelType: 'mistral',
  name: 'Mistral',
  read,
  write: (config, dtype) => writeConfig(config, dtype, 'MistralForCausalLM'),
  parts: (config) => ({
    name: 'Mistral',
    layer: (_, light) => new LlamaDecoderLayer(config, light),
    kind: () => ({ window: config.slidingWindow, rope: 'rope' }),
    norm: () => new DecoderRMSNorm(config.hiddenSize, config.rmsNormEps),
    rope: config.rope,
  }),
  tensorParallel: TENSOR_PARALLEL,
  lora: LORA_TARGETS,
  gguf: LLAMA_GGUF,
};
