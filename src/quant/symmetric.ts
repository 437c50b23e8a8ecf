// V0 of the original, after Apple's report: levels at halves (2 bits: -1.5, -0.5, 0.5, 1.5), one learned scale for a matrix,
// and weights that are learned through the rounding.
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
  /** 2 or 4. */
  readonly bits?: number;
  /** Where the largest level lies at first: by Newton's method on the error, at a percentile, or at the best of six. */
  readonly init?: ClipMethod;
}

const LEAST = 1e-8; // of weights and shares
const OFFSET = 0.5; // codes are whole numbers, levels lie between them

export class SymmetricLinear extends QuantLinear {
  readonly kind = 'symmetric';
  readonly weight: Parameter;
  /** softplus of it is the share of the largest weight at which levels end: [...]. */
  readonly fParam: Parameter;
  /** Part of state dicts, so that a file cannot be taken for one of other bits. */
  readonly qatNbits: Buffer;
  readonly bits: number;
  readonly init: ClipMethod;

  /** In place of a linear, whose weight it takes over. */
  constructor(linear: Linear, options: SymmetricOptions = {}) {
    super(linear);
    const defaults = { bits: 2, init: 'newton' } as const;
    const { bits, init } = optionsOf<Required<SymmetricOptions>>('SymmetricLinear', defaults, options);
    if (bits !== 2 && bits !== 4) throw new ArgumentError(`SymmetricLinear: ${bits} bits: it has 2 or 4`);
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
  #step(): Tensor {
    const share = softplus(this.fParam).add(LEAST).unsqueeze(-1).unsqueeze(-1);
    return share.to(this.weight.dtype).mul(this.#largest()).div(this.most);
  }
  /** A constant: f is what is learned. */
  #largest(): Tensor {
    return this.weight.detach().abs().amax([-2, -1], true).clamp({ min: LEAST });
  }
  /** least to most; weights beyond them get no gradient. */
  #codes(step: Tensor): Tensor {
    return roundThrough(this.weight.div(step).add(OFFSET)).clamp(this.least, this.most);
  }
  override effectiveWeight(): Tensor {
    const step = this.#step();
    return this.#codes(step).sub(OFFSET).mul(step);
  }
  override parts(): Parts {
    const step = this.#step();
    const codes = this.#codes(step).sub(this.least).to('u8');
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
      const step = this.#step();
      this.weight.become(weight.detach().to(this.weight.dtype).expr);
      // The levels stay where they are, whatever the largest weight is now: softplus of f is another share of it.
      const share = step.mul(this.most).div(this.#largest()).sub(LEAST).clamp({ min: LEAST });
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
