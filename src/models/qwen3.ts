// Qwen3 (arXiv:2505.09388): a decoder of pre-normalized layers, with grouped heads, norms on queries and keys, rotary
// positions and gated MLPs. Names of fields are Hugging Face's in camelCase, so its files load by name.
//   B sequences, T tokens, S tokens to be seen, D = hiddenSize, H heads that share G key-value heads, d = headDim

import path from 'node:path';
import { checkDTypeName, type DType } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError, StateDictError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { isInteger } from '../base/promote.js';
import { describe } from '../base/tree.js';
import { stateArrays } from '../io/entries.js';
import { HUB_OPTIONS } from '../io/hub.js';
import { type HubOptions, resolveModel } from '../io/index.js';
import { openArrays, shardedFiles } from '../io/sharded.js';
import { Mesh } from '../ir/mesh.js';
import { entry } from '../ir/source.js';
import { ModuleList } from '../nn/containers.js';
import { Embedding } from '../nn/embedding.js';
import { normal_, skipInit, zeros_ } from '../nn/init.js';
import { Linear } from '../nn/linear.js';
import { Module, Parameter } from '../nn/module.js';
import { forwardEach } from '../nn/projection.js';
import { LayerStack, type ScanLayersOptions } from '../nn/stack.js';
import { scaledDotProductAttention } from '../tensor/attention.js';
import { checkpoint, noGrad } from '../tensor/autograd.js';
import { arange, full, ones, tensor, zeros } from '../tensor/create.js';
import { cat, crossEntropy, silu } from '../tensor/functions.js';
import { Tensor } from '../tensor/tensor.js';
import { type Append, KeyValueCache } from './cache.js';
import { type ModelFolder, openModel, readModel } from './folder.js';
import { type CausalLM, type GeneratedSequence, type GenerateOptions, Generation, type Prompt } from './generate.js';
import { type GenerationJson, generationOptions, loadArrays, saveModel } from './pretrained.js';
import { type Qwen3Config, qwen3Config, writeQwen3Config } from './qwen3-config.js';
import type { Tokenizer } from './tokenizer.js';

export interface Qwen3Inputs {
  /** bool[B, T]: true for a token, false for padding. */
  readonly attentionMask?: Tensor | undefined;
  /** Integers [B, T]: documents side by side in a row, as packSequences gives them. A token sees those of its own number. */
  readonly segmentIds?: Tensor | undefined;
  /** [B, T] or [1, T]: 0, 1, 2... unless told. */
  readonly positionIds?: Tensor | undefined;
  /** What came before, to which these tokens are added; it knows masks and positions itself. */
  readonly cache?: KeyValueCache | undefined;
}

/** In Hugging Face's order: normalized in f32, rounded to x's dtype, then scaled. */
export class Qwen3RMSNorm extends Module {
  readonly weight: Parameter;
  constructor(
    size: number,
    readonly eps: number,
  ) {
    super();
    this.weight = new Parameter(ones([size]));
  }
  override forward(x: Tensor): Tensor {
    const wide = x.float();
    const variance = wide.square().mean({ dim: -1, keepdim: true });
    return wide.mul(variance.add(this.eps).rsqrt()).to(x.dtype).mul(this.weight);
  }
  override extraRepr(): string {
    return `${this.weight.shape[0]}, eps=${this.eps}`;
  }
}

type Rotation = readonly [cos: Tensor, sin: Tensor];

/** Position p turns the pair (i, i + d/2) by the angle p / theta ** (2i / d). */
export class Qwen3RotaryEmbedding extends Module {
  readonly #frequencies: Tensor; // no buffer: it stays f32 when the model becomes bf16
  constructor({ headDim, ropeTheta }: Qwen3Config) {
    super();
    const f = Math.fround; // torch computes them in f32
    const frequencies = Array.from({ length: headDim / 2 }, (_, i) => f(1 / f(ropeTheta ** f((2 * i) / headDim))));
    this.#frequencies = tensor(Float32Array.from(frequencies));
  }
  /** positions [B, T] to the cosines and sines of angles, each [B, 1, T, d]. */
  override forward(positions: Tensor): Rotation {
    const half = positions.float().unsqueeze(-1).mul(this.#frequencies); // [B, T, d/2]
    const angles = cat([half, half], -1).unsqueeze(1); // [B, 1, T, d]: the same for every head
    return [angles.cos(), angles.sin()];
  }
}

/** x: [B, heads, T, d] */
function rotate(x: Tensor, [cos, sin]: Rotation): Tensor {
  const [a, b] = x.chunk(2, -1) as [Tensor, Tensor];
  return x.mul(cos.to(x.dtype)).add(cat([b.neg(), a], -1).mul(sin.to(x.dtype)));
}

export class Qwen3Attention extends Module {
  readonly qProj: Linear;
  readonly kProj: Linear;
  readonly vProj: Linear;
  readonly oProj: Linear;
  readonly qNorm: Qwen3RMSNorm;
  readonly kNorm: Qwen3RMSNorm;
  constructor(config: Qwen3Config) {
    super();
    const { hiddenSize: D, numAttentionHeads: H, numKeyValueHeads: G, headDim: d, attentionBias: bias } = config;
    this.qProj = new Linear(D, H * d, { bias });
    this.kProj = new Linear(D, G * d, { bias });
    this.vProj = new Linear(D, G * d, { bias });
    this.oProj = new Linear(H * d, D, { bias });
    this.qNorm = new Qwen3RMSNorm(d, config.rmsNormEps); // of each head by itself
    this.kNorm = new Qwen3RMSNorm(d, config.rmsNormEps);
  }
  override forward(x: Tensor, rotation: Rotation, visible: Tensor | null, append?: Append): Tensor {
    return this.attend(this.project(x), rotation, visible, append);
  }
  /** Queries, keys and values: [B, T, H d], and twice [B, T, G d]. */
  project(x: Tensor): Tensor[] {
    return forwardEach([this.qProj, this.kProj, this.vProj], x);
  }
  attend(projected: readonly Tensor[], rotation: Rotation, visible: Tensor | null, append?: Append): Tensor {
    const [B, T] = projected[0]!.shape as [number, number];
    const heads = (y: Tensor) => y.reshape([B, T, -1, this.qNorm.weight.shape[0]!]); // [B, T, H or G, d]
    const [xq, xk, xv] = projected.map(heads) as [Tensor, Tensor, Tensor];
    const q = rotate(this.qNorm.forward(xq).transpose(1, 2), rotation); // [B, H, T, d]
    const k = rotate(this.kNorm.forward(xk).transpose(1, 2), rotation); // [B, G, T, d]
    const v = xv.transpose(1, 2); // [B, G, T, d]
    const [keys, values] = append?.(k, v) ?? [k, v]; // [B, G, S, d]
    const mask = visible ? { attnMask: visible } : { isCausal: true };
    const y = scaledDotProductAttention(q, keys, values, { ...mask, enableGqa: true }); // [B, H, T, d]
    return this.oProj.forward(y.transpose(1, 2).reshape([B, T, -1])); // [B, T, D]
  }
}

/** SwiGLU (arXiv:2002.05202): one branch opens and closes the other. */
export class Qwen3MLP extends Module {
  readonly gateProj: Linear;
  readonly upProj: Linear;
  readonly downProj: Linear;
  constructor({ hiddenSize: D, intermediateSize: F }: Qwen3Config) {
    super();
    this.gateProj = new Linear(D, F, { bias: false });
    this.upProj = new Linear(D, F, { bias: false });
    this.downProj = new Linear(F, D, { bias: false });
  }
  override forward(x: Tensor): Tensor {
    return this.close(this.open(x));
  }
  /** Both branches: gate and up. */
  open(x: Tensor): Tensor[] {
    return forwardEach([this.gateProj, this.upProj], x);
  }
  close([gate, up]: readonly Tensor[]): Tensor {
    return this.downProj.forward(silu(gate!).mul(up!));
  }
}

export class Qwen3DecoderLayer extends Module {
  readonly selfAttn: Qwen3Attention;
  readonly mlp: Qwen3MLP;
  readonly inputLayernorm: Qwen3RMSNorm;
  readonly postAttentionLayernorm: Qwen3RMSNorm;
  /** `light`: for the gradient, norms and gates are computed again, and only what products gave is kept. */
  constructor(
    config: Qwen3Config,
    readonly light = false,
  ) {
    super();
    this.selfAttn = new Qwen3Attention(config);
    this.mlp = new Qwen3MLP(config);
    this.inputLayernorm = new Qwen3RMSNorm(config.hiddenSize, config.rmsNormEps);
    this.postAttentionLayernorm = new Qwen3RMSNorm(config.hiddenSize, config.rmsNormEps);
  }
  override forward(x: Tensor, rotation: Rotation, visible: Tensor | null, append?: Append): Tensor {
    const { selfAttn, mlp, inputLayernorm, postAttentionLayernorm } = this;
    const again = this.light ? checkpoint : <A extends unknown[], Y>(f: (...xs: A) => Y, ...xs: A): Y => f(...xs);
    const projected = again((x: Tensor) => selfAttn.project(inputLayernorm.forward(x)), x);
    const y = x.add(selfAttn.attend(projected, rotation, visible, append));
    const branches = again((y: Tensor) => mlp.open(postAttentionLayernorm.forward(y)), y);
    return y.add(again((branches: Tensor[]) => mlp.close(branches), branches));
  }
}

/**
 * Which keys a query sees, bool[B, 1, T, S], by their slots: none that come later, no padding, and nothing of other documents;
 * null: all that come before.
 */
function visibleIn(slots: Tensor, inputIds: Tensor, { attentionMask, segmentIds, cache }: Qwen3Inputs): Tensor | null {
  checkInputs(inputIds, { attentionMask, segmentIds, cache });
  if (!cache && !attentionMask && !segmentIds) return null;
  const seen = cache?.seenBy(inputIds.size(1)) ?? { slots, kept: attentionMask };
  const conditions = [
    seen.slots.unsqueeze(0).le(slots.unsqueeze(1)), // [T, S]
    seen.kept?.unsqueeze(1), // [B, 1, S]
    segmentIds?.unsqueeze(2).eq(segmentIds.unsqueeze(1)), // [B, T, T]
  ];
  return conditions
    .filter((c) => c !== undefined)
    .reduce((a, b) => a.logicalAnd(b))
    .unsqueeze(1);
}

/** A mask that holds more than 0 and 1 would be taken for one, and its documents would see each other. */
function checkInputs(inputIds: Tensor, { attentionMask, segmentIds, cache }: Qwen3Inputs): void {
  for (const [name, t] of Object.entries({ attentionMask, segmentIds }))
    if (t && (cache || String(t.shape) !== String(inputIds.shape)))
      throw new ShapeError(
        cache
          ? `Qwen3: ${name} and a cache: the cache has a mask of its own; pass one of them`
          : `Qwen3: ${name} is ${t.aval}, the tokens are ${inputIds.aval}: their shapes must be equal`,
      );
  if (attentionMask && attentionMask.dtype !== 'bool')
    throw new DTypeError(
      `Qwen3: attentionMask is ${attentionMask.aval}: it must be bool, true for a token: use mask.bool() for one of 0 and 1, ` +
        'and segmentIds for numbers of documents',
    );
  if (segmentIds && !isInteger(segmentIds.dtype))
    throw new DTypeError(`Qwen3: segmentIds is ${segmentIds.aval}: it must hold integers, a number for each document`);
}

export interface Qwen3Options extends Omit<ScanLayersOptions, 'checkpoint'> {
  /**
   * What is computed again for the gradient instead of being kept: all of a layer (true), or with 'light' what takes little
   * time (norms and gates, not products).
   */
  readonly checkpoint?: boolean | 'light';
  /** The layers as one loop: compiling takes as long as for one of them. Their parameters are stacked. */
  readonly scanLayers?: boolean;
}

/** The ways of `checkpoint`, as commands name them. */
export const CHECKPOINT = { none: false, light: 'light', full: true } as const;

const QWEN3_OPTIONS = ['scanLayers', 'checkpoint', 'unroll'] as const;
/** Tokens [B, T] to what the last layer makes of them, [B, T, D]. */
export class Qwen3Model extends Module {
  readonly embedTokens: Embedding;
  readonly layers: ModuleList<Qwen3DecoderLayer> | LayerStack<Qwen3DecoderLayer>;
  readonly norm: Qwen3RMSNorm;
  readonly rotaryEmb: Qwen3RotaryEmbedding;
  readonly checkpoint: boolean;
  constructor(
    readonly config: Qwen3Config,
    given: Qwen3Options = {},
  ) {
    super();
    checkOptions('Qwen3', QWEN3_OPTIONS, given);
    const { scanLayers = false, checkpoint = false, ...options } = given;
    if (![true, false, 'light'].includes(checkpoint))
      throw new ArgumentError(`Qwen3: checkpoint is ${describe(checkpoint)}: it is true, false or 'light'`);
    if (options.unroll !== undefined && !scanLayers)
      throw new ArgumentError(`Qwen3: unroll is ${options.unroll}, but there is no loop: pass scanLayers: true, too`);
    const padding = config.padTokenId === null ? {} : { paddingIdx: config.padTokenId };
    this.embedTokens = new Embedding(config.vocabSize, config.hiddenSize, padding);
    const layers = Array.from(
      { length: config.numHiddenLayers },
      () => new Qwen3DecoderLayer(config, checkpoint === 'light'),
    );
    this.checkpoint = checkpoint === true;
    this.layers = scanLayers
      ? new LayerStack(layers, { ...options, checkpoint: this.checkpoint })
      : new ModuleList(layers);
    this.norm = new Qwen3RMSNorm(config.hiddenSize, config.rmsNormEps);
    this.rotaryEmb = new Qwen3RotaryEmbedding(config);
  }
  override forward(inputIds: Tensor, inputs: Qwen3Inputs = {}): Tensor {
    checkOptions('Qwen3.forward', ['attentionMask', 'segmentIds', 'positionIds', 'cache'], inputs);
    checkTokens(inputIds, inputs);
    const { positionIds, cache } = inputs;
    const T = inputIds.size(1);
    const slots = cache?.slotsOf(T) ?? arange(T, { dtype: 'i32' });
    const visible = visibleIn(slots, inputIds, inputs);
    const x = this.embedTokens.forward(inputIds); // [B, T, D]
    const angles = this.rotaryEmb.forward(positionIds ?? cache?.positionsOf(T) ?? slots.unsqueeze(0));
    const rotation = angles.map((t) => t.to(x.dtype)) as [Tensor, Tensor]; // once for all layers
    const y = this.#throughLayers(x, rotation, visible, cache);
    cache?.advance(T);
    return this.norm.forward(y);
  }

  #throughLayers(x: Tensor, rotation: Rotation, visible: Tensor | null, cache?: KeyValueCache): Tensor {
    const { layers } = this;
    if (layers instanceof LayerStack)
      return cache ? scanWithCache(layers, x, cache, rotation, visible) : layers.forward(x, rotation, visible);
    const run = this.checkpoint && !cache ? checkpoint : (f: (x: Tensor) => Tensor, x: Tensor) => f(x);
    for (const [i, layer] of [...layers].entries())
      x = run((x: Tensor) => layer.forward(x, rotation, visible, cache?.layer(i)), x);
    return x;
  }
}

function checkTokens(ids: Tensor, { positionIds: positions }: Qwen3Inputs): void {
  if (!(ids instanceof Tensor))
    throw new ArgumentError(`Qwen3: the tokens are ${describe(ids)}: it takes a tensor [B, T] of token ids`);
  if (ids.ndim !== 2)
    throw new ShapeError(
      `Qwen3: the tokens are ${ids.aval}: it takes [B, T]${ids.ndim === 1 ? ': of one sequence, inputIds.unsqueeze(0)' : ''}`,
    );
  const [B, T] = ids.shape;
  if (positions && ![`1,${T}`, `${B},${T}`].includes(String(positions.shape)))
    throw new ShapeError(
      `Qwen3: positionIds are ${positions.aval}, the tokens ${ids.aval}: they must be [1, ${T}] or [${B}, ${T}]`,
    );
}

/** The loop over layers with the cache among what it carries, so that it is written in place. */
function scanWithCache(
  layers: LayerStack<Qwen3DecoderLayer>,
  x: Tensor,
  cache: KeyValueCache,
  rotation: Rotation,
  visible: Tensor | null,
): Tensor {
  const [k, v] = [cache.keys[0]!, cache.values[0]!];
  const init = { x, i: zeros([], { dtype: 'i32' }), keys: k.detach(), values: v.detach() };
  const step = ({ x, i, keys, values }: typeof init, layer: Qwen3DecoderLayer): typeof init => {
    const next = { i: i.add(1), keys, values };
    const append = cache.row(i, keys, values, (keys, values) => void Object.assign(next, { keys, values }));
    return { x: layer.forward(x, rotation, visible, append), ...next };
  };
  const after = layers.scan(init, step, { checkpoint: false });
  k.rebind(after.keys.expr);
  v.rebind(after.values.expr);
  return after.x;
}

/** Labels that are left out of the loss, as in torch and transformers. */
const IGNORED = -100;

export interface PretrainedOptions extends Qwen3Options, HubOptions {
  /** That of the files unless told. */
  readonly dtype?: DType;
  /** Says how its tensors lie on several devices, before the weights are read: each device is then given its parts alone. */
  readonly place?: (model: Qwen3ForCausalLM) => void;
}

const picked = <O extends object, K extends keyof O>(options: O, names: readonly K[]): Pick<O, K> =>
  Object.fromEntries(Object.entries(options).filter(([name]) => names.includes(name as K))) as Pick<O, K>;

/** A Qwen3 that predicts the next token: fromPretrained(), forward(), loss(), generate(). */
export class Qwen3ForCausalLM extends Module implements CausalLM {
  readonly config: Qwen3Config;
  readonly model: Qwen3Model;
  readonly lmHead: Linear;
  tokenizer: Tokenizer | null = null;
  /** What generate does unless told. */
  generationConfig: CausalLM['generationConfig'] = { doSample: false }; // transformers' default
  /** All of the generation_config.json that it was loaded with: what is not known here is written again. */
  generationRead: GenerationJson = {};
  /** What it was loaded from. */
  folder: string | null = null;

  /** With random weights, which are drawn when they are first used. */
  constructor(config: Parameters<typeof qwen3Config>[0], options: Qwen3Options = {}) {
    super();
    this.config = qwen3Config(config);
    const { hiddenSize, vocabSize, tieWordEmbeddings, initializerRange: std, eosTokenId } = this.config;
    this.model = skipInit(() => new Qwen3Model(this.config, options));
    this.lmHead = skipInit(() => new Linear(hiddenSize, vocabSize, { bias: false }));
    this.apply((m) => {
      if (m instanceof Linear || m instanceof Embedding) normal_(m.weight, 0, std);
      if (m instanceof Linear && m.bias) zeros_(m.bias);
      if (m instanceof Embedding && m.paddingIdx !== undefined) {
        const row = tensor([m.paddingIdx]);
        noGrad(() => m.weight.indexFill_(0, row, 0));
      }
    });
    if (tieWordEmbeddings) {
      this.lmHead.weight.dispose(); // or it would be computed with whatever is computed next
      Object.assign(this.lmHead, { weight: this.model.embedTokens.weight });
    }
    if (eosTokenId !== null) this.generationConfig = { ...this.generationConfig, eosTokenIds: eosTokenId };
  }

  /** Tokens [B, T] to the logits of what comes next, [B, T, V]. */
  override forward(inputIds: Tensor, inputs: Qwen3Inputs = {}): Tensor {
    return this.lmHead.forward(this.model.forward(inputIds, inputs));
  }

  /**
   * The loss of predicting each token from those before it: the mean over the labels [B, T] that are not -100. They are the
   * tokens themselves; what comes next is found here.
   */
  loss(inputIds: Tensor, labels: Tensor = inputIds, inputs: Qwen3Inputs = {}): Tensor {
    const logits = this.forward(inputIds, inputs).float(); // [B, T, V]
    const [B, T] = labels.shape as [number, number];
    const none = full([B, 1], IGNORED, { dtype: labels.dtype }); // nothing comes after the last
    const next = cat([labels.narrow(1, 1, T - 1), none], 1); // so the logits, which are large, need no cutting
    const options = { ignoreIndex: IGNORED };
    if (Mesh.exists) return crossEntropy(logits.transpose(1, 2), next, options); // B and T may be split: they stay apart
    return crossEntropy(logits.reshape([-1, this.config.vocabSize]), next.reshape([-1]), options);
  }

  // ---- generating

  /** Tokens i32[B, T] to the logits of the one after the last, [B, V]. */
  next(inputIds: Tensor, cache: KeyValueCache): Tensor {
    return this.lmHead.forward(this.model.forward(inputIds, { cache }).select(1, -1));
  }
  makeCache(batch: number, slots: number): KeyValueCache {
    const stacked = this.model.layers instanceof LayerStack;
    return new KeyValueCache(this.config, batch, slots, { dtype: this.model.embedTokens.weight.dtype, stacked });
  }
  /** What follows each prompt (text or tokens), when all of it is there. */
  generate(prompts: Prompt | readonly Prompt[], options: GenerateOptions = {}): Promise<GeneratedSequence[]> {
    return new Generation(this, prompts, options).collect();
  }
  /** The same part by part: `for await (const { text } of model.generateStream('Once'))`. */
  generateStream(prompts: Prompt | readonly Prompt[], options: GenerateOptions = {}): Generation {
    return new Generation(this, prompts, options);
  }

  // ---- Hugging Face's folders

  /** A model from its folder, or by its name on the hub (Qwen/Qwen3-0.6B). Every weight must be there, and nothing else. */
  static async fromPretrained(name: string, options: PretrainedOptions = {}): Promise<Qwen3ForCausalLM> {
    checkOptions('fromPretrained', [...QWEN3_OPTIONS, ...HUB_OPTIONS, 'dtype', 'place'], options);
    const { dtype } = options;
    if (dtype) checkDTypeName('fromPretrained', dtype);
    const folder = await resolveModel(name, picked(options, HUB_OPTIONS));
    return Qwen3ForCausalLM.fromFolder(folder, options);
  }
  /** The model that a folder describes, with its tokenizer. `load` takes the weights: from the folder, unless told. */
  static async fromFolder(
    folder: string,
    options: Qwen3Options & Pick<PretrainedOptions, 'dtype' | 'place'> = {},
    load?: (model: Qwen3ForCausalLM, folder: string) => Promise<unknown>,
  ): Promise<Qwen3ForCausalLM> {
    if (load) return modelOf(folder, await readModel(folder), options, (m) => load(m, folder));
    const opened = await openModel(folder, async ({ isQuantized }) => {
      if (isQuantized)
        throw new ArgumentError(
          `fromPretrained: the weights of ${folder} are quantized: read them with loadStudent of tsxla/recovery`,
        );
      return openArrays(folder);
    });
    await using file = opened.weights;
    return await modelOf(folder, opened, options, (model) => loadArrays(model, file)).catch((e: unknown) => {
      if (!(e instanceof StateDictError)) throw e;
      const hint = `The model is described by ${path.join(folder, 'config.json')}: use the one that was saved with these weights.`;
      throw new StateDictError(`${e.message}\n\t${hint}`, e.keys);
    });
  }
  /** Writes such a folder, with the tokenizer it was loaded with: all of its files, or none. */
  async savePretrained(folder: string): Promise<void> {
    await saveModel('savePretrained', folder, () => shardedFiles(folder, stateArrays(this.stateEntries())), {
      config: writeQwen3Config(this.config, this.lmHead.weight.dtype),
      generation: this.generationConfig,
      generationRead: this.generationRead,
      tokenizer: this.folder,
    });
  }
}

/** A model of what was read of its folder. */
export async function modelOf(
  folder: string,
  { config, tokenizer, generation }: ModelFolder,
  { dtype, place, ...options }: Qwen3Options & Pick<PretrainedOptions, 'dtype' | 'place'>,
  load: (model: Qwen3ForCausalLM) => Promise<unknown>,
): Promise<Qwen3ForCausalLM> {
  const model = skipInit(() => new Qwen3ForCausalLM(config, picked(options, QWEN3_OPTIONS)))
    .to(dtype ?? config.dtype)
    .eval();
  place?.(model);
  await load(model);
  model.generationConfig = { ...model.generationConfig, ...generationOptions(generation) };
  model.generationRead = generation;
  model.tokenizer = tokenizer;
  model.folder = folder;
  return model;
}

// What is wrong belongs to the line that calls the model.
for (const [model, names] of [
  [Qwen3Model, ['forward']],
  [Qwen3ForCausalLM, ['forward', 'loss']],
] as const)
  for (const name of names) {
    const value = entry(model.prototype[name as 'forward']);
    Object.defineProperty(model.prototype, name, { value, writable: true, configurable: true });
  }
