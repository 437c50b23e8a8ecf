// SmolLM3 (huggingface.co/blog/smollm3): Llama's layers, of which every fourth has no rotary positions (NoPE, arXiv:2501.18795).
import { checkJson, flag, list, object, optional, whole } from '../base/json.js';
import { DecoderRMSNorm } from './blocks.js';
import { type Json, type LlamaLike, readActivation, readDecoder, refuser, writeConfig } from './config.js';
import type { Architecture, LayerKind } from './decoder.js';
import { LlamaDecoderLayer } from './llama.js';
import { LORA_TARGETS, TENSOR_PARALLEL } from './parallel.js';
import { type RopeParameters, readRope } from './rope.js';

interface SmolLM3Config extends LlamaLike {
  readonly mlpBias: boolean;
  readonly kinds: readonly LayerKind[];
  readonly rope: RopeParameters;
}

const SmolLM3Schema = object({
  no_rope_layers: optional(list(whole(0, 1))),
  no_rope_layer_interval: optional(whole(1)),
  mlp_bias: optional(flag),
});
function read(json: Json, where: string): SmolLM3Config {
  const { config, given } = readDecoder(json, where, 'smollm3', {
    maxPositionEmbeddings: 32768,
    ...{ keyValueHeads: 4, tieWordEmbeddings: true, bosTokenId: 128000, eosTokenId: 128001, padTokenId: 128004 },
  });
  const own = checkJson(json, where, SmolLM3Schema);
  const { no_rope_layers: turned, no_rope_layer_interval: interval = 4 } = own;
  const L = config.numHiddenLayers;
  if (turned && turned.length < L)
    refuser(where)(`no_rope_layers has ${turned.length} entries, but there are ${L} layers`);
  const window = given.use_sliding_window ? (given.sliding_window ?? null) : null;
  const kinds = Array.from({ length: L }, (_, i): LayerKind => {
    const hasRope = turned ? turned[i] === 1 : (i + 1) % interval !== 0;
    const isSliding = given.layer_types ? given.layer_types[i] === 'sliding_attention' : !hasRope;
    return { window: isSliding ? window : null, rope: hasRope ? 'rope' : null };
  });
  return {
    ...readActivation(config, where),
    mlpBias: own.mlp_bias ?? false,
    kinds,
    rope: readRope(json, where, { ...config, theta: 2_000_000 }),
  };
}

export const smollm3: Architecture<SmolLM3Config> = {
  modelType: 'smollm3',
  name: 'SmolLM3',
  read,
  write: (config, dtype) => writeConfig(config, dtype, 'SmolLM3ForCausalLM'),
  parts: (config) => ({
    name: 'SmolLM3',
    layer: (_, light) => new LlamaDecoderLayer(config, light, { mlpBias: config.mlpBias }),
    kind: (i) => config.kinds[i]!,
    norm: () => new DecoderRMSNorm(config.hiddenSize, config.rmsNormEps),
    rope: config.rope,
  }),
  tensorParallel: TENSOR_PARALLEL,
  lora: LORA_TARGETS,
  gguf: {
    architecture: 'smollm3',
    interleaved: true,
    biases: ['attn_q', 'attn_k', 'attn_v'],
    refuse: ({ kinds }) =>
      kinds.every((kind, i) => (kind.rope === null) === ((i + 1) % 4 === 0))
        ? null
        : 'layers without positions are others than every fourth',
  },
};
