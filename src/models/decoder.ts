// DecoderModel, the layers of a decoder, and DecoderForCausalLM, the language model. Architectures differ by data (ModelParts).
//   B sequences, T tokens, S visible tokens, D = hiddenSize, V = vocabSize
import type { DType } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { isInteger } from '../base/promote.js';
import { describe } from '../base/tree.js';
import { Mesh } from '../ir/mesh.js';
import { entry } from '../ir/source.js';
import { ModuleList } from '../nn/containers.js';
import { Embedding } from '../nn/embedding.js';
import { normal_, skipInit, zeros_ } from '../nn/init.js';
import { Linear } from '../nn/linear.js';
import { Buffer, Module } from '../nn/module.js';
import { LayerStack, type ScanLayersOptions } from '../nn/stack.js';
import type { ParallelTable } from '../spmd/parallel.js';
import { checkpoint, noGrad } from '../tensor/autograd.js';
import { arange, full, onesLike, tensor, zeros, zerosLike } from '../tensor/create.js';
import { cat, crossEntropy, where } from '../tensor/functions.js';
import { Tensor } from '../tensor/tensor.js';
import type { DecoderLayer, Norm } from './blocks.js';
import { KeyValueCache } from './cache.js';
import type { DecoderConfig, Json } from './config.js';
import { type CausalLM, type GeneratedSequence, type GenerateOptions, Generation, type Prompt } from './generate.js';
import type { GgufForm } from './gguf-form.js';
import {
  Collected,
  capped,
  type DecoderModelOutput,
  type DecoderOutput,
  OUTPUTS,
  type OutputOptions,
  refuseStack,
  type WithOutputs,
  wantsOutputs,
} from './outputs.js';
import { type GenerationJson, type StoredNames, saveWeights } from './pretrained.js';
import { type RopeParameters, RotaryEmbedding, type Rotation } from './rope.js';
import { addLoad, loadBalancingLoss, noLoad, routerLoad } from './router-load.js';
import type { Tokenizer } from './tokenizer.js';

// ---- architectures

/** Linear layers that can have adapters, by the ends of their names. */
export interface LoraTargets {
  readonly attention: readonly string[];
  /** Key projections, which recovery LoRA leaves out by default. */
  readonly key: readonly string[];
  readonly mlp: readonly string[];
}

/** The description of an architecture; `models/auto.ts` has the table of them. */
export interface Architecture<C extends DecoderConfig = DecoderConfig> {
  /** The model_type in config.json. */
  readonly modelType: string;
  /** Other model types that it reads. */
  readonly otherTypes?: readonly string[];
  /** The name in errors, such as 'Llama'. */
  readonly name: string;
  /** Reads and checks a config.json; `where` names it in errors. */
  read(json: Json, where: string): C;
  write(config: C, dtype: DType): Json;
  parts(config: C): ModelParts;
  /** Creates a model with random weights. Default: a DecoderForCausalLM. */
  create?(config: C, options: DecoderOptions): DecoderForCausalLM;
  /** Creates the layers of the model. Default: a DecoderModel. */
  layers?(config: C, options: DecoderOptions): DecoderModel;
  readonly tensorParallel: ParallelTable;
  readonly lora: LoraTargets;
  /** How tensors in files differ from the model's. */
  readonly stored?: StoredNames;
  /** The form of GGUF files; undefined if llama.cpp does not support the architecture. */
  readonly gguf?: GgufForm<C>;
}

/** A kind of layers: the window of attention and the rotary positions. */
export interface LayerKind {
  /** The number of tokens that a token sees, including itself; null: all before it. */
  readonly window: number | null;
  readonly rope: 'rope' | 'localRope' | null;
}
export interface ModelParts {
  readonly name: string;
  layer(index: number, light: boolean): DecoderLayer;
  kind?(index: number): LayerKind;
  norm(): Norm;
  /** Rotary positions; null: none. */
  readonly rope: RopeParameters | null;
  readonly localRope?: RopeParameters;
  /** Embeddings are multiplied by it. Default: 1. */
  readonly embedScale?: number;
  /** Whether positions have learned embeddings. */
  readonly learnedPositions?: boolean;
  /** The soft cap of logits; null: none. */
  readonly logitsSoftcap?: number | null;
  /** The routers of experts, if there are any. */
  readonly router?: RouterParts;
  /** Whether layers have different structures, which rules out scanLayers. */
  readonly differ?: boolean;
  /** Names in state dicts that differ from the modules' names. */
  readonly names?: Readonly<Record<string, string>>;
}
export interface RouterParts {
  readonly numExperts: number;
  readonly topK: number;
  /** The weight of the load-balancing loss. */
  readonly auxLossCoef: number;
  /** Whether it is added by default (output_router_logits in config.json). */
  readonly outputs: boolean;
}
const ALL_BEFORE: LayerKind = { window: null, rope: 'rope' };

// ---- inputs and options

export interface DecoderInputs extends OutputOptions {
  /** bool[B, T]: true for a token, false for padding. */
  readonly attentionMask?: Tensor | undefined;
  /** Integers [B, T]: the document of each token in packed rows, as of packSequences. Tokens only see their own document. */
  readonly segmentIds?: Tensor | undefined;
  /** Positions [B, T] or [1, T]. Default: 0, 1, 2, ... */
  readonly positionIds?: Tensor | undefined;
  /** The cache of earlier tokens, to which these are added. It has its own mask and positions. */
  readonly cache?: KeyValueCache | undefined;
}
const INPUTS = ['attentionMask', 'segmentIds', 'positionIds', 'cache', ...OUTPUTS] as const;

export interface DecoderOptions extends Omit<ScanLayersOptions, 'checkpoint'> {
  /**
   * What is recomputed in the backward pass instead of being kept: whole layers (true), or with 'light' only what takes little
   * time (norms and gates, not products). Default: false.
   */
  readonly checkpoint?: boolean | 'light';
  /** Run the layers as one loop, which compiles as fast as a single layer. Their parameters are stacked. Default: false. */
  readonly scanLayers?: boolean;
}
export const DECODER_OPTIONS = ['scanLayers', 'checkpoint', 'unroll'] as const;

/** The values of `checkpoint` by their names in commands. */
export const CHECKPOINT = { none: false, light: 'light', full: true } as const;

/** The inputs of a layer besides x. */
interface Context {
  readonly rotation: Rotation | null;
  /** The mask bool[B, 1, T, S]; null: causal. */
  readonly visible: Tensor | null;
}

// ---- the layers

/** The layers of a decoder: from tokens [B, T] to the last hidden states, [B, T, D]. */
export class DecoderModel extends Module {
  readonly embedTokens: Embedding;
  readonly embedPositions: Embedding | null;
  readonly layers: ModuleList<DecoderLayer> | LayerStack<DecoderLayer>;
  readonly norm: Norm;
  readonly rotaryEmb: RotaryEmbedding | null;
  readonly rotaryEmbLocal: RotaryEmbedding | null;
  readonly checkpoint: boolean;
  /** The different kinds of layers, and the kind of each layer. */
  readonly kinds: readonly LayerKind[];
  readonly kindOf: readonly number[];
  readonly parts: ModelParts;
  constructor(
    readonly config: DecoderConfig,
    parts: ModelParts,
    given: DecoderOptions = {},
  ) {
    super();
    const { name, rope, localRope } = parts;
    checkOptions(name, DECODER_OPTIONS, given);
    const { scanLayers = false, checkpoint = false, ...options } = given;
    if (![true, false, 'light'].includes(checkpoint))
      throw new ArgumentError(`${name}: checkpoint is ${describe(checkpoint)}: it must be true, false or 'light'`);
    if (options.unroll !== undefined && !scanLayers)
      throw new ArgumentError(
        `${name}: unroll is ${options.unroll}, but there is no loop: pass scanLayers: true as well`,
      );
    const { vocabSize: V, hiddenSize: D, padTokenId, numHiddenLayers: L, headDim, maxPositionEmbeddings } = config;
    this.parts = parts;
    this.embedTokens = new Embedding(V, D, padTokenId === null ? {} : { paddingIdx: padTokenId });
    this.embedPositions = parts.learnedPositions ? new Embedding(maxPositionEmbeddings, D) : null;
    const each = Array.from({ length: L }, (_, i) => parts.kind?.(i) ?? ALL_BEFORE);
    const texts = [...new Set(each.map((kind) => JSON.stringify(kind)))];
    this.kinds = texts.map((text) => JSON.parse(text) as LayerKind);
    this.kindOf = each.map((kind) => texts.indexOf(JSON.stringify(kind)));
    const layers = each.map((_, i) => parts.layer(i, checkpoint === 'light'));
    if (scanLayers && !parts.differ && this.kinds.length > 1)
      for (const [i, layer] of layers.entries())
        layer.kind = new Buffer(tensor(this.kindOf[i]!, { dtype: 'i32' }), { persistent: false });
    this.checkpoint = checkpoint === true;
    this.layers =
      scanLayers && !parts.differ
        ? new LayerStack(layers, { ...options, checkpoint: this.checkpoint })
        : new ModuleList(layers);
    this.norm = parts.norm();
    this.rotaryEmb = rope && new RotaryEmbedding(rope, headDim, maxPositionEmbeddings);
    this.rotaryEmbLocal = localRope ? new RotaryEmbedding(localRope, headDim, maxPositionEmbeddings) : null;
  }
  override forward(inputIds: Tensor, inputs: WithOutputs<DecoderInputs>): DecoderModelOutput;
  override forward(inputIds: Tensor, inputs?: DecoderInputs): Tensor;
  override forward(inputIds: Tensor, inputs: DecoderInputs = {}): Tensor | DecoderModelOutput {
    const { name } = this.parts;
    checkOptions(`${name}.forward`, INPUTS, inputs);
    checkTokens(name, inputIds, inputs);
    checkMasks(name, inputIds, inputs);
    const { positionIds, cache } = inputs;
    const T = inputIds.size(1);
    const slots = cache?.slotsOf(T) ?? arange(T, { dtype: 'i32' });
    const positions = positionIds ?? cache?.positionsOf(T) ?? slots.unsqueeze(0);
    const x = this.embed(inputIds, positions); // [B, T, D]
    const contexts = this.contexts(x, inputIds, positions, slots, inputs);
    const collected = wantsOutputs(inputs) ? new Collected(inputs, this.loadOf(inputs)) : undefined;
    const y = this.throughLayers(x, contexts, cache, collected);
    cache?.advance(T);
    const lastHiddenState = this.norm.forward(y);
    if (!collected) return lastHiddenState;
    collected.state(lastHiddenState);
    return { lastHiddenState, ...collected.outputs() };
  }

  private loadOf({ attentionMask }: DecoderInputs): Collected['loadOf'] {
    const { router } = this.parts;
    return router ? (logits) => routerLoad(logits, router.topK, attentionMask) : null;
  }

  private embed(inputIds: Tensor, positions: Tensor): Tensor {
    const { embedTokens, embedPositions } = this;
    const { embedScale = 1 } = this.parts;
    const tokens = embedTokens.forward(inputIds);
    const scaled = embedScale === 1 ? tokens : tokens.mul(tensor(embedScale, { dtype: tokens.dtype }));
    return embedPositions ? scaled.add(embedPositions.forward(positions)) : scaled;
  }

  /** The context of each kind of layers. */
  private contexts(x: Tensor, ids: Tensor, positions: Tensor, slots: Tensor, inputs: DecoderInputs): Context[] {
    const S = inputs.cache?.slots ?? ids.size(1);
    const windows = this.kinds.map(({ window }) => (window !== null && window < S ? window : null));
    const isExplicit = windows.some((window) => window !== null) && this.layers instanceof LayerStack;
    const masks = new Map<number | null, Tensor | null>();
    const visibleTo = (window: number | null): Tensor | null => {
      if (!masks.has(window)) masks.set(window, visibleIn(slots, ids, inputs, window, isExplicit));
      return masks.get(window)!;
    };
    const rotations = new Map<RotaryEmbedding | null, Rotation | null>([[null, null]]);
    const rotationOf = (rotary: RotaryEmbedding | null): Rotation | null => {
      if (!rotations.has(rotary))
        rotations.set(rotary, rotary!.forward(positions).map((t) => t.to(x.dtype)) as [Tensor, Tensor]); // once for all layers
      return rotations.get(rotary)!;
    };
    const rotaries = { rope: this.rotaryEmb, localRope: this.rotaryEmbLocal };
    return this.kinds.map(({ rope }, i) => ({
      visible: visibleTo(windows[i]!),
      rotation: rotationOf(rope && rotaries[rope]),
    }));
  }

  private throughLayers(x: Tensor, contexts: readonly Context[], cache?: KeyValueCache, collected?: Collected): Tensor {
    const { layers, kindOf } = this;
    if (collected && layers instanceof LayerStack) refuseStack(this.parts.name, collected.options);
    if (layers instanceof LayerStack) {
      const contextOf = (layer: DecoderLayer) => (layer.kind ? chosen(contexts, layer.kind) : contexts[0]!);
      if (cache) return scanWithCache(layers, x, cache, contextOf);
      if (collected?.wantsRouters) return scanWithLoad(layers, x, collected, this.parts.router!.numExperts, contextOf);
      return layers.scan(x, (x, layer) => {
        const { rotation, visible } = contextOf(layer);
        return layer.forward(x, rotation, visible);
      });
    }
    const plain = (f: (x: Tensor) => Tensor[], x: Tensor) => f(x);
    const run = this.checkpoint && !cache && !collected?.seen ? checkpoint : plain;
    for (const [i, layer] of [...layers].entries()) {
      const { rotation, visible } = contexts[kindOf[i] ?? 0]!;
      collected?.state(x);
      const through = (x: Tensor): Tensor[] => {
        const routers: Tensor[] = [];
        const routed = collected?.wantsRouters ? (logits: Tensor) => void routers.push(logits) : undefined;
        return [layer.forward(x, rotation, visible, cache?.layer(i), collected?.seen, routed), ...routers];
      };
      const [y, logits] = run(through, x);
      if (logits) collected!.router(logits);
      x = y!;
    }
    return x;
  }

  override *members(): ReturnType<Module['members']> {
    for (const [name, member] of super.members()) yield [this.parts.names?.[name] ?? name, member];
  }
}

/** Selects the context by a kind that is a tensor: all contexts are computed. */
function chosen(contexts: readonly Context[], kind: Tensor): Context {
  const [first, ...others] = contexts.map(({ rotation, visible }) => ({ rotation, visible }));
  const turning = contexts.find((c) => c.rotation)?.rotation;
  // The identity rotation: cosines of 1, sines of 0.
  const still: Rotation | null = turning ? [onesLike(turning[0]), zerosLike(turning[1])] : null;
  const rotationOf = (c: Context): Rotation | null => c.rotation ?? still;
  return others.reduce<Context>(
    (before, other, i) => {
      const is = kind.eq(i + 1);
      const [a, b] = [rotationOf(other), before.rotation];
      return {
        rotation: a && b && a !== b ? [where(is, a[0], b[0]), where(is, a[1], b[1])] : b,
        visible:
          other.visible && before.visible && other.visible !== before.visible
            ? where(is, other.visible, before.visible)
            : before.visible,
      };
    },
    { ...first!, rotation: rotationOf(first!) },
  );
}

/** The loop over layers that carries the cache, so that it is updated in place. */
function scanWithCache(
  layers: LayerStack<DecoderLayer>,
  x: Tensor,
  cache: KeyValueCache,
  contextOf: (layer: DecoderLayer) => Context,
): Tensor {
  const [k, v] = [cache.keys[0]!, cache.values[0]!];
  const init = { x, i: zeros([], { dtype: 'i32' }), keys: k.detach(), values: v.detach() };
  const step = ({ x, i, keys, values }: typeof init, layer: DecoderLayer): typeof init => {
    const next = { i: i.add(1), keys, values };
    const append = cache.row(i, keys, values, (keys, values) => void Object.assign(next, { keys, values }));
    const { rotation, visible } = contextOf(layer);
    return { x: layer.forward(x, rotation, visible, append), ...next };
  };
  const after = layers.scan(init, step, { checkpoint: false });
  k.rebind(after.keys.expr);
  v.rebind(after.values.expr);
  return after.x;
}

/** The loop over layers that carries the load of routers. */
function scanWithLoad(
  layers: LayerStack<DecoderLayer>,
  x: Tensor,
  collected: Collected,
  numExperts: number,
  contextOf: (layer: DecoderLayer) => Context,
): Tensor {
  const after = layers.scan({ x, load: noLoad(numExperts) }, ({ x, load }, layer) => {
    const { rotation, visible } = contextOf(layer);
    let next = load;
    const routed = (logits: Tensor) => void (next = addLoad(next, collected.loadOf!(logits)));
    return { x: layer.forward(x, rotation, visible, undefined, undefined, routed), load: next };
  });
  collected.load = after.load;
  return after.x;
}

// ---- masks

/**
 * The keys that each query sees, bool[B, 1, T, S], by their slots: no later ones, none outside its window, no padding, and none of
 * other documents; null: causal attention.
 */
function visibleIn(
  slots: Tensor,
  inputIds: Tensor,
  { attentionMask, segmentIds, cache }: DecoderInputs,
  window: number | null,
  isExplicit: boolean,
): Tensor | null {
  if (!cache && !attentionMask && !segmentIds && window === null && !isExplicit) return null;
  const seen = cache?.seenBy(inputIds.size(1)) ?? { slots, kept: attentionMask };
  const conditions = [
    seen.slots.unsqueeze(0).le(slots.unsqueeze(1)), // [T, S]
    window === null ? undefined : seen.slots.unsqueeze(0).gt(slots.unsqueeze(1).sub(window)), // [T, S]
    seen.kept?.unsqueeze(1), // [B, 1, S]
    segmentIds?.unsqueeze(2).eq(segmentIds.unsqueeze(1)), // [B, T, T]
  ];
  const all = conditions.filter((c) => c !== undefined).reduce((a, b) => a.logicalAnd(b));
  return all.ndim === 2 ? all.unsqueeze(0).unsqueeze(0) : all.unsqueeze(1);
}

/** Throws for wrong masks. An integer attentionMask is rejected because it may have document numbers, which segmentIds is for. */
function checkMasks(model: string, inputIds: Tensor, { attentionMask, segmentIds, cache }: DecoderInputs): void {
  for (const [name, t] of Object.entries({ attentionMask, segmentIds }))
    if (t && (cache || String(t.shape) !== String(inputIds.shape)))
      throw new ShapeError(
        cache
          ? `${model}: ${name} and cache are both given, and the cache has its own mask: pass one of them`
          : `${model}: ${name} is ${t.aval}, inputIds is ${inputIds.aval}: their shapes must be equal`,
      );
  if (attentionMask && attentionMask.dtype !== 'bool')
    throw new DTypeError(
      `${model}: attentionMask is ${attentionMask.aval}: it must be bool, true for a token: use mask.bool() for a mask of 0 and 1, ` +
        'and segmentIds for numbers of documents',
    );
  if (segmentIds && !isInteger(segmentIds.dtype))
    throw new DTypeError(
      `${model}: segmentIds is ${segmentIds.aval}: it must have integers, a number for each document`,
    );
}

function checkTokens(model: string, ids: Tensor, { positionIds: positions }: DecoderInputs): void {
  if (!(ids instanceof Tensor))
    throw new ArgumentError(`${model}: inputIds is ${describe(ids)}: it must be a tensor [B, T] of token ids`);
  if (ids.ndim !== 2)
    throw new ShapeError(
      `${model}: inputIds is ${ids.aval}: it must be [B, T]${ids.ndim === 1 ? ': for one sequence use inputIds.unsqueeze(0)' : ''}`,
    );
  const [B, T] = ids.shape;
  if (positions && ![`1,${T}`, `${B},${T}`].includes(String(positions.shape)))
    throw new ShapeError(
      `${model}: positionIds is ${positions.aval}, inputIds is ${ids.aval}: positionIds must be [1, ${T}] or [${B}, ${T}]`,
    );
}

// ---- the language model

/** The label that the loss ignores, as in torch and transformers. */
const IGNORED = -100;

/** A language model that predicts the next token: forward(), loss(), generate(). Load one with AutoModelForCausalLM.fromPretrained(). */
export class DecoderForCausalLM extends Module implements CausalLM {
  readonly model: DecoderModel;
  readonly lmHead: Linear;
  tokenizer: Tokenizer | null = null;
  /** The default options of generate. */
  generationConfig: CausalLM['generationConfig'] = { doSample: false }; // transformers' default
  /** The generation_config.json that it was loaded with: unknown fields are written again. */
  generationRead: GenerationJson = {};
  /** The folder that it was loaded from. */
  folder: string | null = null;

  /** Creates a model with random weights, which are drawn at their first use. */
  constructor(
    readonly architecture: Architecture,
    readonly config: DecoderConfig,
    options: DecoderOptions = {},
  ) {
    super();
    const { hiddenSize, vocabSize, tieWordEmbeddings, initializerRange: std, eosTokenId } = config;
    this.model = skipInit(
      () => architecture.layers?.(config, options) ?? new DecoderModel(config, architecture.parts(config), options),
    );
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
      this.lmHead.weight.dispose(); // otherwise it would be computed with the next program
      this.lmHead.weight = this.model.embedTokens.weight;
    }
    if (eosTokenId !== null) this.generationConfig = { ...this.generationConfig, eosTokenIds: eosTokenId };
  }

  /** The soft cap of its logits, for losses that compute them in chunks. */
  get logitsSoftcap(): number | null {
    return this.model.parts.logitsSoftcap ?? null;
  }
  /** From last hidden states [..., D] to logits [..., V]. */
  logits(hidden: Tensor): Tensor {
    return capped(this.lmHead.forward(hidden), this.logitsSoftcap);
  }

  /**
   * From tokens [B, T] to the logits of the next tokens, [B, T, V]; with options such as outputHiddenStates or outputAttentions an
   * object that also has these.
   */
  override forward(inputIds: Tensor, inputs: WithOutputs<DecoderInputs>): DecoderOutput;
  override forward(inputIds: Tensor, inputs?: DecoderInputs): Tensor;
  override forward(inputIds: Tensor, inputs: DecoderInputs = {}): Tensor | DecoderOutput {
    if (!wantsOutputs(inputs)) return this.logits(this.model.forward(inputIds, inputs));
    const { lastHiddenState, ...rest } = this.model.forward(inputIds, inputs as WithOutputs<DecoderInputs>);
    const auxLoss = rest.routerLoad && loadBalancingLoss(rest.routerLoad);
    return { logits: this.logits(lastHiddenState), auxLoss, ...rest };
  }

  /**
   * The loss of predicting each token from those before it: the mean over the labels [B, T] that are not -100. Labels are the
   * tokens themselves, and are shifted here. With outputRouterLogits, or if config.json says so, the routers' load-balancing loss
   * is added, as in transformers.
   */
  loss(inputIds: Tensor, labels: Tensor = inputIds, inputs: DecoderInputs = {}): Tensor {
    const { router } = this.model.parts;
    const { outputRouterLogits = router?.outputs ?? false, ...others } = inputs;
    if (!router || !outputRouterLogits) return this.nextTokenLoss(this.forward(inputIds, others), labels);
    const { logits, auxLoss } = this.forward(inputIds, { ...others, outputRouterLoad: true });
    return this.nextTokenLoss(logits, labels).add(auxLoss!.mul(router.auxLossCoef));
  }
  private nextTokenLoss(given: Tensor, labels: Tensor): Tensor {
    const logits = given.float(); // [B, T, V]
    const [B, T] = labels.shape as [number, number];
    const none = full([B, 1], IGNORED, { dtype: labels.dtype }); // the last position has no next token
    const next = cat([labels.narrow(1, 1, T - 1), none], 1); // labels are shifted, because logits are large
    const options = { ignoreIndex: IGNORED };
    if (Mesh.exists) return crossEntropy(logits.transpose(1, 2), next, options); // B and T may be sharded: not reshaped
    return crossEntropy(logits.reshape([-1, this.config.vocabSize]), next.reshape([-1]), options);
  }

  // ---- generating

  /** From tokens i32[B, T] to the logits of the next token, [B, V]. */
  next(inputIds: Tensor, cache: KeyValueCache): Tensor {
    return this.logits(this.model.forward(inputIds, { cache }).select(1, -1));
  }
  makeCache(batch: number, slots: number): KeyValueCache {
    const stacked = this.model.layers instanceof LayerStack;
    return new KeyValueCache(this.config, batch, slots, { dtype: this.model.embedTokens.weight.dtype, stacked });
  }
  /** Generates the continuation of each prompt (text or tokens). */
  generate(prompts: Prompt | readonly Prompt[], options: GenerateOptions = {}): Promise<GeneratedSequence[]> {
    return new Generation(this, prompts, options).collect();
  }
  /** Generates part by part: `for await (const { text } of model.generateStream('Once'))`. */
  generateStream(prompts: Prompt | readonly Prompt[], options: GenerateOptions = {}): Generation {
    return new Generation(this, prompts, options);
  }

  /** Writes a Hugging Face folder, with the tokenizer that the model was loaded with. All files are written, or none. */
  async savePretrained(folder: string): Promise<void> {
    const { architecture, config } = this;
    const dtype = this.lmHead.weight.dtype;
    await saveWeights(folder, this, architecture.write(config, dtype), architecture.stored);
  }

  override *members(): ReturnType<Module['members']> {
    for (const [name, member] of super.members()) yield [this.model.parts.names?.[name] ?? name, member];
  }
}

// Errors name the source line that calls the model.
for (const [model, names] of [
  [DecoderModel, ['forward']],
  [DecoderForCausalLM, ['forward', 'loss']],
] as const)
  for (const name of names) {
    const value = entry(model.prototype[name as 'forward']);
    Object.defineProperty(model.prototype, name, { value, writable: true, configurable: true });
  }
