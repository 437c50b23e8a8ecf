// torch's Transformer modules (Vaswani et al., 2017), with the same names and order of computation.
import type { DType } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { describe, shown } from '../base/tree.js';
import { full } from '../tensor/create.js';
import { gelu, relu } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { type AttendOptions, MultiheadAttention } from './attention.js';
import { ModuleList } from './containers.js';
import { Dropout } from './dropout.js';
import * as init from './init.js';
import { Linear } from './linear.js';
import { Module } from './module.js';
import { LayerNorm } from './norm.js';
import { checkCount, type Given, optionsInOrder } from './options.js';

// Symbols, and no private names: a copy of a module (clone) has them, too.
const ACTIVATION = Symbol('activation');
const GIVEN = Symbol('given');

export interface TransformerLayerOptions {
  readonly dimFeedforward?: number;
  readonly dropout?: number;
  readonly activation?: 'relu' | 'gelu' | ((x: Tensor) => Tensor);
  readonly layerNormEps?: number;
  readonly batchFirst?: boolean;
  /** Whether norms come before attention and feedforward instead of after. Default: false. */
  readonly normFirst?: boolean;
  readonly bias?: boolean;
}
const NORMALLY: Required<TransformerLayerOptions> = {
  dimFeedforward: 2048,
  dropout: 0.1,
  activation: 'relu',
  layerNormEps: 1e-5,
  batchFirst: false,
  normFirst: false,
  bias: true,
};
const ORDER = ['dimFeedforward', 'dropout', 'activation', 'layerNormEps', 'batchFirst', 'normFirst', 'bias'] as const;
type GivenLayer = Given<TransformerLayerOptions, typeof ORDER>;
type Mask = Tensor | null | undefined;
export interface EncoderLayerMasks {
  /** The same as MultiheadAttention's attnMask. */
  readonly srcMask?: Mask;
  /** The same as MultiheadAttention's keyPaddingMask. */
  readonly srcKeyPaddingMask?: Mask;
  /** Whether each position attends only to itself and those before. A given mask is used instead. Default: false. */
  readonly isCausal?: boolean | null;
}
export interface EncoderMasks extends Omit<EncoderLayerMasks, 'srcMask'> {
  readonly mask?: Mask;
}
export interface DecoderMasks {
  readonly tgtMask?: Mask;
  readonly memoryMask?: Mask;
  readonly tgtKeyPaddingMask?: Mask;
  readonly memoryKeyPaddingMask?: Mask;
  readonly tgtIsCausal?: boolean | null;
  readonly memoryIsCausal?: boolean | null;
}

const DECODER_MASKS = [
  'tgtMask',
  'memoryMask',
  'tgtKeyPaddingMask',
  'memoryKeyPaddingMask',
  'tgtIsCausal',
  'memoryIsCausal',
] as const;
const ENCODER_LAYER_MASKS = ['srcMask', 'srcKeyPaddingMask', 'isCausal'] as const;
const ENCODER_MASKS = ['mask', 'srcKeyPaddingMask', 'isCausal'] as const;
/** Masks by place or by name: what was not given is null. */
function masksOf<O extends object>(
  what: string,
  order: readonly (keyof O & string)[],
  given: readonly unknown[],
): { readonly [K in keyof O]-?: NonNullable<O[K]> | null } {
  const none = Object.fromEntries(order.map((name) => [name, null]));
  return optionsInOrder(what, order as never, none as never, given);
}

/** The base of both kinds of layers: self-attention, two linear layers, and norms. */
class TransformerLayer extends Module {
  readonly selfAttn: MultiheadAttention;
  /** A decoder's attention to the encoder. Declared here, as optimizers' state dicts depend on the order of fields. */
  readonly multiheadAttn?: MultiheadAttention;
  readonly linear1: Linear;
  readonly dropout: Dropout;
  readonly linear2: Linear;
  readonly norm1: LayerNorm;
  readonly norm2: LayerNorm;
  readonly dropout1: Dropout;
  readonly dropout2: Dropout;
  readonly normFirst: boolean;
  readonly [ACTIVATION]: (x: Tensor) => Tensor;
  readonly [GIVEN]: Required<TransformerLayerOptions>;

  constructor(
    readonly dModel: number,
    readonly nhead: number,
    options: GivenLayer,
  ) {
    super();
    const given = optionsInOrder<Required<TransformerLayerOptions>>(new.target.name, ORDER, NORMALLY, options);
    const { activation, bias } = given;
    this[GIVEN] = given;
    this.selfAttn = this.attention();
    this.linear1 = new Linear(dModel, given.dimFeedforward, { bias });
    this.dropout = new Dropout(given.dropout);
    this.linear2 = new Linear(given.dimFeedforward, dModel, { bias });
    this.norm1 = this.norm();
    this.norm2 = this.norm();
    this.dropout1 = new Dropout(given.dropout);
    this.dropout2 = new Dropout(given.dropout);
    this.normFirst = given.normFirst;
    if (typeof activation !== 'function' && activation !== 'relu' && activation !== 'gelu')
      throw new ArgumentError(
        `${new.target.name}: activation is ${shown(activation)}: use 'relu', 'gelu' or a function of a tensor`,
      );
    this[ACTIVATION] =
      typeof activation === 'function' ? activation : activation === 'gelu' ? (x) => gelu(x) : (x) => relu(x);
  }
  protected attention(): MultiheadAttention {
    const { dropout, bias, batchFirst } = this[GIVEN];
    return new MultiheadAttention(this.dModel, this.nhead, { dropout, bias, batchFirst });
  }
  protected norm(): LayerNorm {
    const { layerNormEps: eps, bias } = this[GIVEN];
    return new LayerNorm(this.dModel, { eps, bias });
  }
  /** A residual connection: x plus `part` of it, with a norm before or after. */
  protected residual(x: Tensor, norm: LayerNorm, part: (x: Tensor) => Tensor): Tensor {
    return this.normFirst ? x.add(part(norm.forward(x))) : norm.forward(x.add(part(x)));
  }
  protected attendToSelf(x: Tensor, masks: AttendOptions): Tensor {
    return this.dropout1.forward(this.selfAttn.forward(x, x, x, { ...masks, needWeights: false })[0]);
  }
  protected feedForward(x: Tensor): Tensor {
    return this.linear2.forward(this.dropout.forward(this[ACTIVATION](this.linear1.forward(x))));
  }
}

/** Self-attention, then feedforward: [L, N, dModel] to the same ([N, L, dModel] with batchFirst). */
export class TransformerEncoderLayer extends TransformerLayer {
  constructor(dModel: number, nhead: number, ...options: GivenLayer) {
    super(dModel, nhead, options);
  }
  override forward(src: Tensor, ...masks: Given<EncoderLayerMasks, typeof ENCODER_LAYER_MASKS>): Tensor {
    const given = masksOf<EncoderLayerMasks>('TransformerEncoderLayer.forward', ENCODER_LAYER_MASKS, masks);
    const attention = {
      attnMask: given.srcMask,
      keyPaddingMask: given.srcKeyPaddingMask,
      isCausal: given.isCausal ?? false,
    };
    const x = this.residual(src, this.norm1, (y) => this.attendToSelf(y, attention));
    return this.residual(x, this.norm2, (y) => this.dropout2.forward(this.feedForward(y)));
  }
}

/** Self-attention, attention to the encoder's output (memory), then feedforward. */
export class TransformerDecoderLayer extends TransformerLayer {
  declare readonly multiheadAttn: MultiheadAttention;
  readonly norm3: LayerNorm;
  readonly dropout3: Dropout;
  constructor(dModel: number, nhead: number, ...options: GivenLayer) {
    super(dModel, nhead, options);
    this.multiheadAttn = this.attention();
    this.norm3 = this.norm();
    this.dropout3 = new Dropout(this.dropout.p);
  }
  override forward(tgt: Tensor, memory: Tensor, ...masks: Given<DecoderMasks, typeof DECODER_MASKS>): Tensor {
    const given = masksOf<DecoderMasks>('TransformerDecoderLayer.forward', DECODER_MASKS, masks);
    const own = {
      attnMask: given.tgtMask,
      keyPaddingMask: given.tgtKeyPaddingMask,
      isCausal: given.tgtIsCausal ?? false,
    };
    const x = this.residual(tgt, this.norm1, (y) => this.attendToSelf(y, own));
    const seen = this.residual(x, this.norm2, (y) => {
      const [found] = this.multiheadAttn.forward(y, memory, memory, {
        attnMask: given.memoryMask,
        keyPaddingMask: given.memoryKeyPaddingMask,
        isCausal: given.memoryIsCausal ?? false,
        needWeights: false,
      });
      return this.dropout2.forward(found);
    });
    return this.residual(seen, this.norm3, (y) => this.dropout3.forward(this.feedForward(y)));
  }
}
export interface StackOptions {
  readonly norm?: LayerNorm | null;
}
export interface EncoderStackOptions extends StackOptions {
  /** Accepted as in torch, without effect: there are no nested tensors. */
  readonly enableNestedTensor?: boolean;
  readonly maskCheck?: boolean;
}
/** Copies of a layer with its values, as in torch; or layers created by a function, each with its own values. */
function layersOf<M extends Module>(name: string, layer: M | (() => M), numLayers: number): ModuleList<M> {
  checkCount(`${name}: numLayers`, numLayers);
  if (!(layer instanceof Module) && typeof layer !== 'function')
    throw new ArgumentError(
      `${name}: takes a layer, or a function that makes one, got ${describe(layer)}: write new ${name}(new ${name}Layer(...), ${numLayers})`,
    );
  const make = layer instanceof Module ? () => layer.clone() : layer;
  return new ModuleList(Array.from({ length: numLayers }, make));
}
/** A stack of encoder layers and a final norm. Pass a function instead of a layer to give each its own initial values. */
export class TransformerEncoder extends Module {
  readonly layers: ModuleList<TransformerEncoderLayer>;
  readonly norm: LayerNorm | null;
  constructor(
    encoderLayer: TransformerEncoderLayer | (() => TransformerEncoderLayer),
    numLayers: number,
    ...options: Given<EncoderStackOptions, ['norm', 'enableNestedTensor', 'maskCheck']>
  ) {
    super();
    this.layers = layersOf('TransformerEncoder', encoderLayer, numLayers);
    this.norm = optionsInOrder<Required<EncoderStackOptions>>(
      'TransformerEncoder',
      ['norm', 'enableNestedTensor', 'maskCheck'],
      { norm: null, enableNestedTensor: true, maskCheck: true },
      options,
    ).norm;
  }
  override forward(src: Tensor, ...masks: Given<EncoderMasks, typeof ENCODER_MASKS>): Tensor {
    const { mask, ...rest } = masksOf<EncoderMasks>('TransformerEncoder.forward', ENCODER_MASKS, masks);
    let x = src;
    for (const layer of this.layers) x = layer.forward(x, { srcMask: mask, ...rest });
    return this.norm?.forward(x) ?? x;
  }
}
/** A stack of decoder layers, which all attend to the same memory. */
export class TransformerDecoder extends Module {
  readonly layers: ModuleList<TransformerDecoderLayer>;
  readonly norm: LayerNorm | null;
  constructor(
    decoderLayer: TransformerDecoderLayer | (() => TransformerDecoderLayer),
    numLayers: number,
    ...options: Given<StackOptions, ['norm']>
  ) {
    super();
    this.layers = layersOf('TransformerDecoder', decoderLayer, numLayers);
    this.norm = optionsInOrder<Required<StackOptions>>('TransformerDecoder', ['norm'], { norm: null }, options).norm;
  }
  override forward(tgt: Tensor, memory: Tensor, ...masks: Given<DecoderMasks, typeof DECODER_MASKS>): Tensor {
    const given = masksOf<DecoderMasks>('TransformerDecoder.forward', DECODER_MASKS, masks);
    let x = tgt;
    for (const layer of this.layers) x = layer.forward(x, memory, given);
    return this.norm?.forward(x) ?? x;
  }
}

export interface TransformerOptions extends TransformerLayerOptions {
  readonly dModel?: number;
  readonly nhead?: number;
  readonly numEncoderLayers?: number;
  readonly numDecoderLayers?: number;
  /** Custom modules: forward(src, masks) for the encoder, forward(tgt, memory, masks) for the decoder. */
  readonly customEncoder?: Encoding | null;
  readonly customDecoder?: Decoding | null;
}
export interface Encoding extends Module {
  forward(src: Tensor, masks: EncoderMasks): Tensor;
}
export interface Decoding extends Module {
  forward(tgt: Tensor, memory: Tensor, masks: DecoderMasks): Tensor;
}
export interface TransformerMasks extends DecoderMasks {
  readonly srcMask?: Mask;
  readonly srcKeyPaddingMask?: Mask;
  readonly srcIsCausal?: boolean | null;
}
const TRANSFORMER = [
  'dModel',
  'nhead',
  'numEncoderLayers',
  'numDecoderLayers',
  'dimFeedforward',
  'dropout',
  'activation',
  'customEncoder',
  'customDecoder',
  'layerNormEps',
  'batchFirst',
  'normFirst',
  'bias',
] as const;
const TRANSFORMER_MASKS = [
  'srcMask',
  'tgtMask',
  'memoryMask',
  'srcKeyPaddingMask',
  'tgtKeyPaddingMask',
  'memoryKeyPaddingMask',
  'srcIsCausal',
  'tgtIsCausal',
  'memoryIsCausal',
] as const;
/** An encoder and a decoder that attends to its output: forward(src, tgt), both [L, N, dModel] ([N, L, dModel] with batchFirst). */
export class Transformer extends Module {
  readonly encoder: Encoding;
  readonly decoder: Decoding;
  readonly dModel: number;
  readonly nhead: number;
  readonly batchFirst: boolean;
  constructor(...options: Given<TransformerOptions, typeof TRANSFORMER>) {
    super();
    const given = optionsInOrder<Required<TransformerOptions>>(
      'Transformer',
      TRANSFORMER,
      {
        ...NORMALLY,
        dModel: 512,
        nhead: 8,
        numEncoderLayers: 6,
        numDecoderLayers: 6,
        customEncoder: null,
        customDecoder: null,
      },
      options,
    );
    const { dModel, nhead, numEncoderLayers, numDecoderLayers, customEncoder, customDecoder, ...rest } = given;
    const norm = () => new LayerNorm(dModel, { eps: rest.layerNormEps, bias: rest.bias });
    const layer = { encoder: () => new TransformerEncoderLayer(dModel, nhead, rest) };
    this.encoder = customEncoder ?? new TransformerEncoder(layer.encoder, numEncoderLayers, { norm: norm() });
    this.decoder =
      customDecoder ??
      new TransformerDecoder(() => new TransformerDecoderLayer(dModel, nhead, rest), numDecoderLayers, {
        norm: norm(),
      });
    for (const p of this.parameters()) if (p.ndim > 1) init.xavierUniform_(p);
    [this.dModel, this.nhead, this.batchFirst] = [dModel, nhead, rest.batchFirst];
  }
  override forward(src: Tensor, tgt: Tensor, ...masks: Given<TransformerMasks, typeof TRANSFORMER_MASKS>): Tensor {
    const given = masksOf<TransformerMasks>('Transformer.forward', TRANSFORMER_MASKS, masks);
    const { srcMask, srcKeyPaddingMask, srcIsCausal, ...decoderMasks } = given;
    const batch = this.batchFirst ? 0 : 1;
    if (src.ndim !== tgt.ndim || (src.ndim === 3 && src.size(batch) !== tgt.size(batch)))
      throw new ShapeError(`Transformer: the batch sizes of src ${src.aval} and tgt ${tgt.aval} differ`);
    for (const [name, x] of Object.entries({ src, tgt }))
      if (x.size(-1) !== this.dModel)
        throw new ShapeError(`Transformer: ${name} is ${x.aval}: its last dimension must be dModel, ${this.dModel}`);
    const memory = this.encoder.forward(src, { mask: srcMask, srcKeyPaddingMask, isCausal: srcIsCausal });
    return this.decoder.forward(tgt, memory, decoderMasks);
  }
  /** The causal mask [size, size]: -infinity above the diagonal, otherwise 0. */
  static generateSquareSubsequentMask(size: number, options: { readonly dtype?: DType } = {}): Tensor {
    checkCount('generateSquareSubsequentMask: size', size);
    return full([size, size], Number.NEGATIVE_INFINITY, { dtype: options.dtype ?? 'f32' }).triu(1);
  }
  generateSquareSubsequentMask(size: number, options: { readonly dtype?: DType } = {}): Tensor {
    return Transformer.generateSquareSubsequentMask(size, options);
  }
}
