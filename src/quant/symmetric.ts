// SymmetricLinear, V0 of the original, after Apple's report: levels at halves (2 bits: -1.5, -0.5, 0.5, 1.5), one learned scale
// per matrix, and weights trained with a straight-through estimator.
import { ArgumentError } from '../base/errors.js';
import type { Linear } from '../nn/linear.js';
import { Buffer, Parameter } from '../nn/module.js';
import { optionsOf } from '../nn/options.js';
import { noGrad } from '../tensor/autograd.js';
import { arange, full, tensor, zeros } from '../tensor/create.js';
import { softplus } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { CLIP_METHODS, type ClipMethod, clipShare } from './clip.js';
import { type Parts, QuantLinear } from './linear.js';
import { roundThrough } from './lut.js';

export interface SymmetricOptions {
  /** 2 or 4. Default: 2. */
  readonly bits?: number;
  /** How the initial largest level is chosen: by Newton's method on the error, a percentile, or the best of six. Default: 'newton'. */
  readonly init?: ClipMethod;
}

const LEAST = 1e-8; // of weights and shares
const OFFSET = 0.5; // codes are integers, levels are halfway between them

export class SymmetricLinear extends QuantLinear {
  readonly kind = 'symmetric';
  readonly weight: Parameter;
  /** softplus of it is the largest level as a fraction of the largest weight: [...]. */
  readonly fParam: Parameter;
  /** In state dicts, so that a file of another number of bits is not accepted. */
  readonly qatNbits: Buffer;
  readonly bits: number;
  readonly init: ClipMethod;

  /** Replaces a linear and takes over its weight. */
  constructor(linear: Linear, options: SymmetricOptions = {}) {
    super(linear);
    const defaults = { bits: 2, init: 'newton' } as const;
    const { bits, init } = optionsOf<Required<SymmetricOptions>>('SymmetricLinear', defaults, options);
    if (bits !== 2 && bits !== 4) throw new ArgumentError(`SymmetricLinear: bits is ${bits}: it must be 2 or 4`);
    if (!CLIP_METHODS.includes(init))
      throw new ArgumentError(`SymmetricLinear: init is '${init}': it must be one of ${CLIP_METHODS.join(', ')}`);
    const lead = linear.weight.shape.slice(0, -2);
    this.weight = linear.weight;
    this.fParam = new Parameter(zeros(lead));
    this.qatNbits = new Buffer(full(lead, bits, { dtype: 'i16' }));
    this.bits = bits;
    this.init = init;
  }

  get least(): number {
    return 1 - 2 ** (this.bits - 1);
  }
  get most(): number {
    return 2 ** (this.bits - 1);
  }

  override async fit(): Promise<void> {
    const rows = this.weight
      .detach()
      .float()
      .reshape([-1, this.outFeatures * this.inFeatures]);
    const factors: number[] = [];
    for (let i = 0; i < rows.size(0); i++)
      factors.push(Math.log(Math.expm1(await clipShare(this.init, rows.select(0, i), this))));
    this.fParam.become(tensor(factors, { dtype: this.fParam.dtype }).reshape(this.fParam.shape).expr);
  }

  /** The distance between levels, [..., 1, 1]. */
  private stepNow(): Tensor {
    const share = softplus(this.fParam).add(LEAST).unsqueeze(-1).unsqueeze(-1);
    return share.to(this.weight.dtype).mul(this.largest()).div(this.most);
  }
  /** The largest weight, without gradients: only fParam is learned. */
  private largest(): Tensor {
    return this.weight.detach().abs().amax([-2, -1], true).clamp({ min: LEAST });
  }
  /** Codes from least to most; weights beyond them get no gradient. */
  private codesFor(step: Tensor): Tensor {
    return roundThrough(this.weight.div(step).add(OFFSET)).clamp(this.least, this.most);
  }
  override effectiveWeight(): Tensor {
    const step = this.stepNow();
    return this.codesFor(step).sub(OFFSET).mul(step);
  }
  override parts(): Parts {
    const step = this.stepNow();
    const codes = this.codesFor(step).sub(this.least).to('u8');
    const levels = arange(2 ** this.bits, { dtype: this.weight.dtype }).add(this.least - OFFSET);
    return {
      bits: this.bits,
      codes,
      levels: levels.expand([...this.fParam.shape, 2 ** this.bits]),
      scale: { whole: step },
      f16: false,
    };
  }
  override requantize_(weight: Tensor): void {
    noGrad(() => {
      const step = this.stepNow();
      this.weight.become(weight.detach().to(this.weight.dtype).expr);
      // Keeps the levels although the largest weight has changed: fParam is adjusted to the new fraction.
      const share = step.mul(this.most).div(this.largest()).sub(LEAST).clamp({ min: LEAST });
      this.fParam.become(
        share.add(share.neg().expm1().neg().log()).reshape(this.fParam.shape).to(this.fParam.dtype).expr,
      );
    });
    if (this.effective) this.materialize();
  }
  override extraRepr(): string {
    return `inFeatures=${this.inFeatures}, outFeatures=${this.outFeatures}, bits=${this.bits}`;
  }
}
