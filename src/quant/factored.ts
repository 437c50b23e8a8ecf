// FactoredLinear, V2 of the original: fixed codes, and low-rank scales whose directions and magnitudes are learned separately.
//   W = levels[codes] * ((a * g) @ b)     a [out, r] with columns of length 1, g [r], b [r, in] with rows of length 1
// The original computes the same as the sum over k of g_k a_k * (Q (b_k * x)), with r products instead of one.
import { ArgumentError } from '../base/errors.js';
import type { Linear } from '../nn/linear.js';
import { Buffer, Parameter } from '../nn/module.js';
import { checkCount, optionsOf } from '../nn/options.js';
import { noGrad } from '../tensor/autograd.js';
import { ones, tensor, zeros } from '../tensor/create.js';
import { softplus } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Parts, QuantLinear, weightOf } from './linear.js';
import { bitsOf, gapLogits, nearest, roundF16, symmetricLut, toF16, uniformLut } from './lut.js';
import { checkInit, factorize, groupScales, type LevelOptions } from './scales.js';

// Symbols instead of private names, so that copies of a module (clone) have them too.
const LEVELS = Symbol('levels');
const SOURCE = Symbol('source');

export interface FactoredOptions extends LevelOptions {
  readonly scaleRank?: number;
  /** Learn the levels: symmetric and in order, up to lutMaxAbs. Default: false. */
  readonly learnableLut?: boolean;
  readonly lutMaxAbs?: number;
  /** Make scales positive by the absolute values or softplus of their factors. Default: false. */
  readonly positive?: false | 'abs' | 'softplus';
  /** The function from parameters to magnitudes. Default: 'identity'. */
  readonly magnitude?: 'identity' | 'abs' | 'softplus';
  /** Round everything to f16, as devices that only have f16 do, with straight-through gradients. Default: false. */
  readonly f16?: boolean;
}
const DEFAULTS: Required<Omit<FactoredOptions, 'init'>> & { readonly init: undefined } = {
  init: undefined,
  lutSize: 16,
  scaleRank: 32,
  groupSize: 32,
  includeZero: false,
  learnableLut: false,
  lutMaxAbs: 1,
  positive: false,
  magnitude: 'identity',
  f16: false,
};
const LEAST_NORM = 1e-6;
const MAGNITUDE_OFFSET = 1e-6;
const ACTIVATIONS = {
  identity: { of: (x: Tensor) => x, inverse: (y: number) => y },
  abs: { of: (x: Tensor) => x.abs(), inverse: (y: number) => y },
  softplus: { of: (x: Tensor) => softplus(x), inverse: (y: number) => (y > 30 ? y : Math.log(Math.expm1(y))) },
} as const;

export class FactoredLinear extends QuantLinear {
  readonly kind = 'factored';
  readonly scaleA: Parameter;
  readonly scaleB: Parameter;
  readonly rankMagnitude: Parameter;
  /** Levels [..., L]; if levels are learned, the initial ones. */
  readonly lut: Buffer;
  /** [..., L / 2], the parameters of learned levels. */
  readonly lutRawDeltas: Parameter | null;
  /** u8 [..., out, in] */
  readonly indices: Buffer;
  readonly options: Required<FactoredOptions>;
  /** Whether scaleA and scaleB are used without normalization, as in exported files of the original. */
  scalesBaked = false;
  readonly [LEVELS]: readonly number[]; // the initial levels
  [SOURCE]: Tensor | null;

  /** Replaces a linear. Codes and scales are set by fit(), or by loading them. */
  constructor(linear: Linear, options: FactoredOptions = {}) {
    super(linear);
    const given = optionsOf<Required<FactoredOptions>>('FactoredLinear', DEFAULTS, options);
    this.options = { ...given, init: given.init ?? (given.lutSize <= 4 ? 'best' : 'max') };
    const { lutSize, scaleRank, groupSize, includeZero, learnableLut, lutMaxAbs } = this.options;
    checkCount('FactoredLinear: scaleRank', scaleRank);
    checkCount('FactoredLinear: groupSize', groupSize);
    checkInit('FactoredLinear', this.options.init);
    bitsOf(lutSize);
    if (learnableLut && (lutSize % 2 || includeZero))
      throw new ArgumentError(
        'FactoredLinear: learnableLut needs an even lutSize without includeZero, because learned levels are symmetric',
      );
    const lead = linear.weight.shape.slice(0, -2);
    const [out, width] = [this.outFeatures, this.inFeatures];
    const levels = uniformLut(lutSize, { includeZero }).map((x) => x * lutMaxAbs);
    this[LEVELS] = levels;
    const each = (values: readonly number[]) => tensor(values, { dtype: 'f32' }).expand([...lead, values.length]);
    this.scaleA = new Parameter(zeros([...lead, out, scaleRank]));
    this.scaleB = new Parameter(zeros([...lead, scaleRank, width]));
    this.rankMagnitude = new Parameter(ones([...lead, scaleRank]));
    this.lut = new Buffer(each(levels));
    this.lutRawDeltas = learnableLut ? new Parameter(each(gapLogits(levels, lutMaxAbs))) : null;
    this.indices = new Buffer(zeros([...lead, out, width], { dtype: 'u8' }));
    this[SOURCE] = linear.weight.detach();
  }

  override async fit(): Promise<void> {
    const weight = this[SOURCE];
    if (!weight)
      throw new ArgumentError('FactoredLinear.fit: the layer is already fitted and keeps no weight: use requantize_');
    this[SOURCE] = null;
    const { scaleRank: rank, groupSize, init, positive, magnitude } = this.options;
    const groups = await groupScales(weight, groupSize, this[LEVELS], init);
    const parts = Array.from({ length: groups.layers }, (_, i) => factorize(groups, i, rank, positive !== false));
    const inverse = (y: number) => toF16(ACTIVATIONS[magnitude].inverse(Math.max(y - MAGNITUDE_OFFSET, 0)));
    const undo = (x: number) => (positive === 'softplus' ? ACTIVATIONS.softplus.inverse(Math.max(x, 1e-12)) : x);
    const set = (p: Parameter, arrays: readonly ArrayLike<number>[]) => {
      const data = new Float32Array(p.numel());
      arrays.forEach((a, i) => void data.set(a, i * a.length));
      p.become(tensor(data, { shape: p.shape }).to(p.dtype).expr);
    };
    set(
      this.scaleA,
      parts.map(({ left }) => left.map(undo)),
    );
    set(
      this.scaleB,
      parts.map(({ right }) => right.map(undo)),
    );
    set(
      this.rankMagnitude,
      parts.map(({ magnitudes }) => magnitudes.map((g) => inverse(g))),
    );
    this.requantize_(weight);
  }

  /** The levels, [..., L]. */
  levels(): Tensor {
    return this.lutRawDeltas ? symmetricLut(this.lutRawDeltas, this.options.lutMaxAbs) : this.lut;
  }
  private scaleNow(): { left: Tensor; right: Tensor } {
    const { positive, magnitude, f16 } = this.options;
    const rounded = (x: Tensor) => (f16 ? roundF16(x) : x);
    if (this.scalesBaked)
      return { left: rounded(this.scaleA.mul(this.rankMagnitude.unsqueeze(-2))), right: rounded(this.scaleB) };
    const sign = (x: Tensor) => (positive ? ACTIVATIONS[positive].of(x) : x);
    const unit = (x: Tensor, dim: number) =>
      x.div(
        x
          .square()
          .sum({ dim, keepdim: true })
          .clamp({ min: LEAST_NORM ** 2 })
          .sqrt(),
      );
    const g = rounded(ACTIVATIONS[magnitude].of(this.rankMagnitude).add(MAGNITUDE_OFFSET));
    return {
      left: rounded(unit(sign(this.scaleA), -2).mul(g.unsqueeze(-2))),
      right: rounded(unit(sign(this.scaleB), -1)),
    };
  }
  override parts(): Parts {
    const { lutSize, f16 } = this.options;
    const levels = f16 ? roundF16(this.levels()) : this.levels();
    return { bits: bitsOf(lutSize), codes: this.indices, levels, scale: this.scaleNow(), f16 };
  }
  override effectiveWeight(): Tensor {
    return weightOf(this.parts());
  }
  protected override product(x: Tensor, weight: Tensor): Tensor {
    const y = super.product(x, weight);
    return this.options.f16 ? roundF16(y) : y;
  }
  /** The scales, [..., out, in]. */
  scales(): Tensor {
    const { left, right } = this.scaleNow();
    return left.matmul(right);
  }
  /** Computes codes of a weight with the current scales and levels, as the original's tighten_q. */
  override requantize_(weight: Tensor): void {
    const codes = noGrad(() => nearest(weight.detach().to(this.scaleA.dtype).div(this.scales()), this.levels()));
    this.indices.become(codes.expr);
    if (this.effective) this.materialize();
  }
  override extraRepr(): string {
    const { lutSize, scaleRank, learnableLut, f16 } = this.options;
    const more = `${learnableLut ? ', learned levels' : ''}${f16 ? ', f16' : ''}`;
    return `inFeatures=${this.inFeatures}, outFeatures=${this.outFeatures}, levels=${lutSize}, rank=${scaleRank}${more}`;
  }
}
