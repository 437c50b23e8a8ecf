// Transformers as torch has them (Vaswani et al., 2017): names and order of computation are torch's.
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe } from '../base/tree.js';
import { gelu, relu } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { type AttendOptions, MultiheadAttention } from './attention.js';
import { ModuleList } from './containers.js';
import { Dropout } from './dropout.js';
import { Linear } from './linear.js';
import { Module } from './module.js';
import { LayerNorm } from './norm.js';
import { checkCount, type Given, optionsInOrder, optionsOf } from './options.js';

export interface TransformerLayerOptions {
  readonly dimFeedforward?: number;
  readonly dropout?: number;
  readonly activation?: 'relu' | 'gelu' | ((x: Tensor) => Tensor);
  readonly layerNormEps?: number;
  readonly batchFirst?: boolean;
  /** Norms before attention and feedforward, not after. */
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
type Mask = Tensor | null;
export interface EncoderLayerMasks {
  /** Who does not attend to whom: as MultiheadAttention's attnMask. */
  readonly srcMask?: Mask;
  /** Who is not attended to: as its keyPaddingMask. */
  readonly srcKeyPaddingMask?: Mask;
  /** Each position attends to those up to itself. */
  readonly isCausal?: boolean;
}
export interface EncoderMasks extends Omit<EncoderLayerMasks, 'srcMask'> {
  readonly mask?: Mask;
}
export interface DecoderMasks {
  readonly tgtMask?: Mask;
  readonly memoryMask?: Mask;
  readonly tgtKeyPaddingMask?: Mask;
  readonly memoryKeyPaddingMask?: Mask;
  readonly tgtIsCausal?: boolean;
  readonly memoryIsCausal?: boolean;
}

const DECODER_MASKS = [
  'tgtMask',
  'memoryMask',
  'tgtKeyPaddingMask',
  'memoryKeyPaddingMask',
  'tgtIsCausal',
  'memoryIsCausal',
] as const;

/** What layers of both kinds have: attention to itself, two linear layers, and norms around them. */
class TransformerLayer extends Module {
  readonly selfAttn: MultiheadAttention;
  readonly linear1: Linear;
  readonly dropout: Dropout;
  readonly linear2: Linear;
  readonly norm1: LayerNorm;
  readonly norm2: LayerNorm;
  readonly dropout1: Dropout;
  readonly dropout2: Dropout;
  readonly normFirst: boolean;
  readonly #activation: (x: Tensor) => Tensor;
  readonly #given: Required<TransformerLayerOptions>;

  constructor(
    readonly dModel: number,
    readonly nhead: number,
    options: GivenLayer,
  ) {
    super();
    const given = optionsInOrder<Required<TransformerLayerOptions>>(new.target.name, ORDER, NORMALLY, options);
    const { activation, bias } = given;
    this.#given = given;
    this.selfAttn = this.attention();
    this.linear1 = new Linear(dModel, given.dimFeedforward, { bias });
    this.dropout = new Dropout(given.dropout);
    this.linear2 = new Linear(given.dimFeedforward, dModel, { bias });
    this.norm1 = this.norm();
    this.norm2 = this.norm();
    this.dropout1 = new Dropout(given.dropout);
    this.dropout2 = new Dropout(given.dropout);
    this.normFirst = given.normFirst;
    this.#activation =
      typeof activation === 'function' ? activation : activation === 'gelu' ? (x) => gelu(x) : (x) => relu(x);
  }
  protected attention(): MultiheadAttention {
    const { dropout, bias, batchFirst } = this.#given;
    return new MultiheadAttention(this.dModel, this.nhead, { dropout, bias, batchFirst });
  }
  protected norm(): LayerNorm {
    const { layerNormEps: eps, bias } = this.#given;
    return new LayerNorm(this.dModel, { eps, bias });
  }
  /** x with what `part` makes of it added, and a norm before or after. */
  protected residual(x: Tensor, norm: LayerNorm, part: (x: Tensor) => Tensor): Tensor {
    return this.normFirst ? x.add(part(norm.forward(x))) : norm.forward(x.add(part(x)));
  }
  protected attendToSelf(x: Tensor, masks: AttendOptions): Tensor {
    return this.dropout1.forward(this.selfAttn.forward(x, x, x, { ...masks, needWeights: false })[0]);
  }
  protected feedForward(x: Tensor): Tensor {
    return this.linear2.forward(this.dropout.forward(this.#activation(this.linear1.forward(x))));
  }
}

/** Attention to itself, then feedforward: [L, N, dModel] to the same ([N, L, dModel] with batchFirst). */
export class TransformerEncoderLayer extends TransformerLayer {
  constructor(dModel: number, nhead: number, ...options: GivenLayer) {
    super(dModel, nhead, options);
  }
  override forward(src: Tensor, masks: EncoderLayerMasks = {}): Tensor {
    checkOptions('TransformerEncoderLayer.forward', ['srcMask', 'srcKeyPaddingMask', 'isCausal'], masks);
    const { srcMask: attnMask = null, srcKeyPaddingMask: keyPaddingMask = null, isCausal = false } = masks;
    const x = this.residual(src, this.norm1, (y) => this.attendToSelf(y, { attnMask, keyPaddingMask, isCausal }));
    return this.residual(x, this.norm2, (y) => this.dropout2.forward(this.feedForward(y)));
  }
}

/** Attention to itself, to what the encoder made (memory), then feedforward. */
export class TransformerDecoderLayer extends TransformerLayer {
  readonly multiheadAttn: MultiheadAttention;
  readonly norm3: LayerNorm;
  readonly dropout3: Dropout;
  constructor(dModel: number, nhead: number, ...options: GivenLayer) {
    super(dModel, nhead, options);
    this.multiheadAttn = this.attention();
    this.norm3 = this.norm();
    this.dropout3 = new Dropout(this.dropout.p);
  }
  override forward(tgt: Tensor, memory: Tensor, masks: DecoderMasks = {}): Tensor {
    checkOptions('TransformerDecoderLayer.forward', DECODER_MASKS, masks);
    const { tgtMask = null, tgtKeyPaddingMask = null, tgtIsCausal = false } = masks;
    const { memoryMask = null, memoryKeyPaddingMask = null, memoryIsCausal = false } = masks;
    const x = this.residual(tgt, this.norm1, (y) =>
      this.attendToSelf(y, { attnMask: tgtMask, keyPaddingMask: tgtKeyPaddingMask, isCausal: tgtIsCausal }),
    );
    const seen = this.residual(x, this.norm2, (y) => {
      const [found] = this.multiheadAttn.forward(y, memory, memory, {
        attnMask: memoryMask,
        keyPaddingMask: memoryKeyPaddingMask,
        isCausal: memoryIsCausal,
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
function layersOf<M extends Module>(name: string, makeLayer: () => M, numLayers: number): ModuleList<M> {
  if (typeof makeLayer !== 'function')
    throw new ArgumentError(
      `${name}: takes a function that makes a layer, got ${describe(makeLayer)}: write new ${name}(() => new ${name}Layer(...), ${numLayers})`,
    );
  checkCount(`${name}: numLayers`, numLayers);
  return new ModuleList(Array.from({ length: numLayers }, () => makeLayer()));
}
/**
 * Layers one after the other, and a norm after the last. Unlike torch: takes a function that makes a layer, so that each has
 * its own initial values.
 */
export class TransformerEncoder extends Module {
  readonly layers: ModuleList<TransformerEncoderLayer>;
  readonly norm: LayerNorm | null;
  constructor(makeLayer: () => TransformerEncoderLayer, numLayers: number, options: StackOptions = {}) {
    super();
    this.layers = layersOf('TransformerEncoder', makeLayer, numLayers);
    this.norm = optionsOf<Required<StackOptions>>('TransformerEncoder', { norm: null }, options).norm;
  }
  override forward(src: Tensor, given: EncoderMasks = {}): Tensor {
    checkOptions('TransformerEncoder.forward', ['mask', 'srcKeyPaddingMask', 'isCausal'], given);
    const { mask = null, ...masks } = given;
    let x = src;
    for (const layer of this.layers) x = layer.forward(x, { srcMask: mask, ...masks });
    return this.norm?.forward(x) ?? x;
  }
}
/** The same of decoder layers, all of which attend to the same memory. */
export class TransformerDecoder extends Module {
  readonly layers: ModuleList<TransformerDecoderLayer>;
  readonly norm: LayerNorm | null;
  constructor(makeLayer: () => TransformerDecoderLayer, numLayers: number, options: StackOptions = {}) {
    super();
    this.layers = layersOf('TransformerDecoder', makeLayer, numLayers);
    this.norm = optionsOf<Required<StackOptions>>('TransformerDecoder', { norm: null }, options).norm;
  }
  override forward(tgt: Tensor, memory: Tensor, masks: DecoderMasks = {}): Tensor {
    let x = tgt;
    for (const layer of this.layers) x = layer.forward(x, memory, masks);
    return this.norm?.forward(x) ?? x;
  }
}
