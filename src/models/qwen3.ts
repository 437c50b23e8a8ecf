// Qwen3 (arXiv:2505.09388): a decoder of pre-normalized layers, with grouped heads, norms on queries and keys, rotary
// positions and gated MLPs.
import type { ModuleList } from '../nn/containers.js';
import type { LayerStack } from '../nn/stack.js';
import { Attention, DecoderRMSNorm, GatedMLP, PreNormLayer } from './blocks.js';
import {
  type Architecture,
  DecoderForCausalLM,
  type DecoderInputs,
  DecoderModel,
  type DecoderOptions,
  type ModelParts,
} from './decoder.js';
import { type FolderOptions, loadFolder, loadPretrained, type PretrainedOptions as Options } from './load.js';
import type { DecoderModelOutput, DecoderOutput, DecoderOutputs } from './outputs.js';
import { LORA_TARGETS, TENSOR_PARALLEL } from './parallel.js';
import { type Qwen3Config, qwen3Config, readQwen3Config, writeQwen3Config } from './qwen3-config.js';
import { type RopeParameters, RotaryEmbedding } from './rope.js';

export type Qwen3Inputs = DecoderInputs;
export type Qwen3Options = DecoderOptions;
export type Qwen3Outputs = DecoderOutputs;
export type Qwen3ModelOutput = DecoderModelOutput;
export type Qwen3Output = DecoderOutput;

export class Qwen3RMSNorm extends DecoderRMSNorm {}

const ropeOf = ({ rope, ropeTheta: theta, maxPositionEmbeddings }: Qwen3Config): RopeParameters =>
  rope ?? { type: 'default', theta, originalMaxPositionEmbeddings: maxPositionEmbeddings };
export class Qwen3RotaryEmbedding extends RotaryEmbedding {
  constructor(config: Qwen3Config) {
    super(ropeOf(config), config.headDim, config.maxPositionEmbeddings);
  }
}

/** H query heads share G key and value heads of size d: q is [B, T, H d], k and v are [B, T, G d]. Heads of q and k have norms. */
export class Qwen3Attention extends Attention {
  declare readonly qNorm: Qwen3RMSNorm;
  declare readonly kNorm: Qwen3RMSNorm;
  constructor(config: Qwen3Config) {
    const { attentionBias: bias, rmsNormEps: eps } = config;
    super(config, { bias, qkNorm: { of: 'head', make: (size) => new Qwen3RMSNorm(size, eps) } });
  }
}

/** down(silu(gate(x)) * up(x)) */
export class Qwen3MLP extends GatedMLP {}

/** y = x + attention(norm(x)); y + mlp(norm(y)) */
export class Qwen3DecoderLayer extends PreNormLayer {
  readonly selfAttn: Qwen3Attention;
  readonly mlp: Qwen3MLP;
  readonly inputLayernorm: Qwen3RMSNorm;
  readonly postAttentionLayernorm: Qwen3RMSNorm;
  constructor(config: Qwen3Config, light = false) {
    super(light);
    this.selfAttn = new Qwen3Attention(config);
    this.mlp = new Qwen3MLP(config);
    this.inputLayernorm = new Qwen3RMSNorm(config.hiddenSize, config.rmsNormEps);
    this.postAttentionLayernorm = new Qwen3RMSNorm(config.hiddenSize, config.rmsNormEps);
  }
}

const partsOf = (config: Qwen3Config): ModelParts => ({
  name: 'Qwen3',
  layer: (_, light) => new Qwen3DecoderLayer(config, light),
  norm: () => new Qwen3RMSNorm(config.hiddenSize, config.rmsNormEps),
  rope: ropeOf(config),
});

/** From tokens [B, T] to the last hidden states, [B, T, D]. */
export class Qwen3Model extends DecoderModel {
  declare readonly config: Qwen3Config;
  declare readonly layers: ModuleList<Qwen3DecoderLayer> | LayerStack<Qwen3DecoderLayer>;
  declare readonly norm: Qwen3RMSNorm;
  declare readonly rotaryEmb: RotaryEmbedding;
  constructor(config: Qwen3Config, options: DecoderOptions = {}) {
    super(config, partsOf(config), options);
  }
}

export const qwen3: Architecture<Qwen3Config> = {
  modelType: 'qwen3',
  name: 'Qwen3',
  read: readQwen3Config,
  write: writeQwen3Config,
  parts: partsOf,
  create: (config, options) => new Qwen3ForCausalLM(config, options),
  layers: (config, options) => new Qwen3Model(config, options),
  tensorParallel: TENSOR_PARALLEL,
  lora: LORA_TARGETS,
  gguf: { architecture: 'qwen3', biases: ['attn_q', 'attn_k', 'attn_v'] },
};
/** A function, as loaders take one: AutoModel finds the architecture only after reading config.json. */
const find = () => qwen3 as Architecture;

/** The Qwen3 language model: fromPretrained(), forward(), loss(), generate(). */
export class Qwen3ForCausalLM extends DecoderForCausalLM {
  declare readonly config: Qwen3Config;
  declare readonly model: Qwen3Model;
  /** Creates a model with random weights, which are drawn at their first use. */
  constructor(config: Parameters<typeof qwen3Config>[0], options: DecoderOptions = {}) {
    super(find(), qwen3Config(config), options);
  }
  /** Loads a model from its folder, or by its name on the hub (Qwen/Qwen3-0.6B). Throws if weights are missing or unexpected. */
  static fromPretrained(name: string, options: Options<Qwen3ForCausalLM> = {}): Promise<Qwen3ForCausalLM> {
    return loadPretrained(find, name, options as Options) as Promise<Qwen3ForCausalLM>;
  }
  /** Loads the model that a folder describes, with its tokenizer. `load` loads the weights. Default: those of the folder. */
  static fromFolder(
    folder: string,
    options: FolderOptions<Qwen3ForCausalLM> = {},
    load?: (model: Qwen3ForCausalLM, folder: string) => Promise<unknown>,
  ): Promise<Qwen3ForCausalLM> {
    const given = load && ((model: DecoderForCausalLM, folder: string) => load(model as Qwen3ForCausalLM, folder));
    return loadFolder(find, folder, options as FolderOptions, given) as Promise<Qwen3ForCausalLM>;
  }
}
