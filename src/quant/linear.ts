// What all quantized linears share: one product with the weight that their levels and scales stand for.
import type { DType } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import type { Linear } from '../nn/linear.js';
import { Buffer, Module, type Parameter } from '../nn/module.js';
import { gathered } from '../spmd/gathered.js';
import { linear } from '../tensor/functions.js';
import { dependOn } from '../tensor/scope.js';
import type { Tensor } from '../tensor/tensor.js';
import { lookup, roundF16 } from './lut.js';

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
/** One for all [..., 1, 1], one for each weight [..., out, in], or a product of [..., out, r] and [..., r, in]; at least `least`. */
export type Scale =
  | { readonly whole: Tensor; readonly least?: number }
  | { readonly left: Tensor; readonly right: Tensor; readonly least?: number };

/** Its names in state dicts, where they are not the spelling of its fields: those of the original. */
const NAMES: Readonly<Record<string, string>> = {
  scale_a: 'scale_A',
  scale_b: 'scale_B',
  indices: '_indices',
  lut_raw_deltas: '_lut_raw_deltas',
  f_param: '_f_param',
  qat_nbits: '_qat_nbits',
};

/**
 * x times the transpose of a quantized weight, plus a bias: in place of a Linear. In a LayerStack its tensors have a
 * leading dimension that counts the layers.
 */
export abstract class QuantLinear extends Module {
  abstract readonly kind: string;
  readonly inFeatures: number;
  readonly outFeatures: number;
  readonly bias: Parameter | null;
  /** The effective weight, while it is kept. */
  effective: Buffer | null = null;
  readonly #kept = {};
  #dims = 0; // of the weight that is kept

  constructor({ inFeatures, outFeatures, bias }: Pick<Linear, 'inFeatures' | 'outFeatures' | 'bias'>) {
    super();
    this.inFeatures = inFeatures;
    this.outFeatures = outFeatures;
    this.bias = bias;
  }

  /** [..., out, in]: what its levels and scales stand for, with gradients to all that is trained. */
  abstract effectiveWeight(): Tensor;
  /** The same in parts, as they are stored. */
  abstract parts(): Parts;
  /** Sets the scales, and then the codes, from the weight of the linear it was made of. */
  abstract fit(): Promise<void>;
  /** Other codes (and where there are such, weights) for this weight [..., out, in]; the scales stay. */
  abstract requantize_(weight: Tensor): void;

  override forward(x: Tensor): Tensor {
    const kept = dependOn(this.#kept, () => this.effective);
    // In the loop of a LayerStack, where it has a dimension less, all is computed from variables, trained or not.
    if (kept?.ndim === this.#dims) this.#checkFrozen();
    return this.product(x, kept ?? this.effectiveWeight());
  }
  protected product(x: Tensor, weight: Tensor): Tensor {
    return linear(x, gathered(weight).to(x.dtype), this.bias?.to(x.dtype));
  }

  /**
   * Computes the weight now, once, instead of in every step; its scales and levels are not trained any more. It is kept in
   * this dtype: as it was before, or else as its levels are, unless told.
   */
  materialize(dtype?: DType): this {
    for (const p of this.#own()) p.requiresGrad_(false);
    const weight = this.effectiveWeight();
    this.effective = new Buffer(weight.to(dtype ?? this.effective?.dtype ?? weight.dtype), { persistent: false });
    this.#dims = this.effective.ndim;
    return this;
  }
  /** The weight is computed in every step again; `requiresGrad_()` what is to be trained. */
  dematerialize(): this {
    this.effective?.dispose();
    this.effective = null;
    return this;
  }
  #own(): Parameter[] {
    return this.parameters().filter((p) => p !== this.bias);
  }
  #checkFrozen(): void {
    if (this.#own().some((p) => p.requiresGrad))
      throw new ArgumentError(
        `${this.constructor.name}: its scales are to be trained, but its weight is materialized: call dematerialize() first`,
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
/** What the parts stand for. */
export function weightOf({ levels, codes, scale, f16 }: Parts): Tensor {
  const weight = lookup(levels, codes).mul(scaleOf(scale));
  return f16 ? roundF16(weight) : weight;
}
