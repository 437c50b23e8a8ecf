// QuantLinear, the base class of quantized linears: a product with the dequantized weight.
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { groupedProduct } from '../nn/grouped.js';
import type { Linear } from '../nn/linear.js';
import { Buffer, Module, type Parameter } from '../nn/module.js';
import { gathered } from '../spmd/gathered.js';
import { linear } from '../tensor/functions.js';
import { dependOn } from '../tensor/scope.js';
import type { Tensor } from '../tensor/tensor.js';
import { lookup, roundF16 } from './lut.js';

// Symbols instead of private names, so that copies of a module (clone) have them too.
const KEPT = Symbol('kept');
const DIMS = Symbol('dims');

/** A quantized weight in parts: levels[codes] times scale, or times left @ right. */
export interface Parts {
  readonly bits: number;
  /** u8 [..., out, in] */
  readonly codes: Tensor;
  /** [..., L] */
  readonly levels: Tensor;
  readonly scale: Scale;
  /** Whether the weight is rounded to f16. */
  readonly f16: boolean;
}
/** A scale for all weights [..., 1, 1], for each weight [..., out, in], or a product of [..., out, r] and [..., r, in]; at least `least`. */
export type Scale =
  | { readonly whole: Tensor; readonly least?: number }
  | { readonly left: Tensor; readonly right: Tensor; readonly least?: number };

/** The original's names in state dicts, where they differ from the fields' names. */
const NAMES: Readonly<Record<string, string>> = {
  scale_a: 'scale_A',
  scale_b: 'scale_B',
  indices: '_indices',
  lut_raw_deltas: '_lut_raw_deltas',
  f_param: '_f_param',
  qat_nbits: '_qat_nbits',
};

/**
 * Replaces a Linear: x times the transpose of a quantized weight, plus a bias. In a LayerStack its tensors have a leading
 * dimension for the layers.
 */
export abstract class QuantLinear extends Module {
  abstract readonly kind: string;
  readonly inFeatures: number;
  readonly outFeatures: number;
  readonly bias: Parameter | null;
  /** The dequantized weight, if it is kept (materialize). */
  effective: Buffer | null = null;
  readonly [KEPT] = {};
  [DIMS] = 0; // number of dimensions of `effective`

  constructor({ inFeatures, outFeatures, bias }: Pick<Linear, 'inFeatures' | 'outFeatures' | 'bias'>) {
    super();
    this.inFeatures = inFeatures;
    this.outFeatures = outFeatures;
    this.bias = bias;
  }

  /** The dequantized weight [..., out, in], with gradients to all trained parameters. */
  abstract effectiveWeight(): Tensor;
  /** The weight as codes, levels and scales. */
  abstract parts(): Parts;
  /** Computes the scales, and then the codes, from the weight of the original linear. */
  abstract fit(): Promise<void>;
  /** Computes the codes (and latent weights, if there are any) of a weight [..., out, in] with the current scales. */
  abstract requantize_(weight: Tensor): void;

  override forward(x: Tensor): Tensor {
    const kept = dependOn(this[KEPT], () => this.effective);
    // In the loop of a LayerStack the tensors are variables with one dimension less: the trained check does not apply.
    if (kept?.ndim === this[DIMS]) this.checkFrozen();
    return this.product(x, kept ?? this.effectiveWeight());
  }
  protected product(x: Tensor, weight: Tensor): Tensor {
    const [w, bias] = [gathered(weight).to(x.dtype), this.bias?.to(x.dtype)];
    return groupedProduct(x, w, bias) ?? linear(x, w, bias);
  }

  /**
   * Dequantizes the weight once instead of in every step; its scales and levels are no longer trained. It is kept in `dtype`.
   * Default: that of a previous call, else that of the weight.
   */
  materialize(dtype?: DType): this {
    for (const p of this.ownParameters()) p.requiresGrad_(false);
    const weight = this.effectiveWeight();
    this.effective = new Buffer(weight.to(dtype ?? this.effective?.dtype ?? weight.dtype), { persistent: false });
    this[DIMS] = this.effective.ndim;
    return this;
  }
  /** Dequantizes the weight in every step again. Call `requiresGrad_()` on the parameters to train. */
  dematerialize(): this {
    this.effective?.dispose();
    this.effective = null;
    return this;
  }
  private ownParameters(): Parameter[] {
    return this.parameters().filter((p) => p !== this.bias);
  }
  private checkFrozen(): void {
    if (this.ownParameters().some((p) => p.requiresGrad))
      throw new ArgumentError(
        `${this.constructor.name}: its scales require gradients, but its weight is materialized: call dematerialize() first`,
      );
  }

  override *members(): ReturnType<Module['members']> {
    for (const [name, member] of super.members()) yield [NAMES[name] ?? name, member];
  }
}

export function scaleOf(scale: Scale): Tensor {
  const each = 'left' in scale ? scale.left.matmul(scale.right) : scale.whole;
  return scale.least === undefined ? each : each.clamp({ min: scale.least });
}
/** The dequantized weight of parts. */
export function weightOf({ levels, codes, scale, f16 }: Parts): Tensor {
  const weight = lookup(levels, codes).mul(scaleOf(scale));
  return f16 ? roundF16(weight) : weight;
}
