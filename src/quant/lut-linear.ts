// LutLinear, V1 of the original: a table of levels, and low-rank scales for each weight. Codes are recomputed from weights and
// scales in every step; weights are trained with a straight-through estimator, scales and table with exact gradients.
import type { Linear } from '../nn/linear.js';
import { Buffer, Parameter } from '../nn/module.js';
import { checkCount, optionsOf } from '../nn/options.js';
import { tensor, zeros } from '../tensor/create.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Parts, QuantLinear, type Scale, scaleOf } from './linear.js';
import { bitsOf, nearest, snap, uniformLut } from './lut.js';
import { checkInit, factorize, groupScales, type LevelOptions } from './scales.js';

export interface LutOptions extends LevelOptions {
  /** The rank of the scales; 0: one scale for each weight. Default: 4. */
  readonly scaleRank?: number;
  readonly learnableLut?: boolean;
}
const DEFAULTS: Required<Omit<LutOptions, 'init'>> & { readonly init: undefined } = {
  init: undefined,
  lutSize: 16,
  scaleRank: 4,
  groupSize: 128,
  includeZero: false,
  learnableLut: false,
};
const LEAST_SCALE = 1e-8;

export class LutLinear extends QuantLinear {
  readonly kind = 'lut';
  readonly weight: Parameter;
  /** [..., out, r] and [..., r, in], where in is rounded up to whole groups, as in the original's files. */
  readonly scaleA: Parameter | null;
  readonly scaleB: Parameter | null;
  /** Scales [..., out, in] without low rank, instead of scaleA and scaleB. */
  readonly fullScales: Parameter | null;
  /** [..., L] */
  readonly lut: Parameter | Buffer;
  readonly options: Required<LutOptions>;

  /** Replaces a linear and takes over its weight. */
  constructor(linear: Linear, options: LutOptions = {}) {
    super(linear);
    const given = optionsOf<Required<LutOptions>>('LutLinear', DEFAULTS, options);
    this.options = { ...given, init: given.init ?? (given.lutSize <= 4 ? 'best' : 'max') };
    const { lutSize, groupSize, includeZero, learnableLut } = this.options;
    checkCount('LutLinear: groupSize', groupSize);
    checkCount('LutLinear: scaleRank', this.options.scaleRank, 0);
    checkInit('LutLinear', this.options.init);
    bitsOf(lutSize);
    const lead = linear.weight.shape.slice(0, -2);
    const [out, width] = [this.outFeatures, Math.ceil(this.inFeatures / groupSize) * groupSize];
    const rank = this.options.scaleRank < Math.min(out, width) ? this.options.scaleRank : 0;
    this.weight = linear.weight;
    this.scaleA = rank ? new Parameter(zeros([...lead, out, rank])) : null;
    this.scaleB = rank ? new Parameter(zeros([...lead, rank, width])) : null;
    this.fullScales = rank ? null : new Parameter(zeros([...lead, out, width]));
    const levels = tensor(uniformLut(lutSize, { includeZero }), { dtype: 'f32' }).expand([...lead, lutSize]);
    this.lut = learnableLut ? new Parameter(levels) : new Buffer(levels);
  }

  override async fit(): Promise<void> {
    const { groupSize, lutSize, includeZero, init } = this.options;
    const padded = Math.ceil(this.inFeatures / groupSize) * groupSize;
    const groups = await groupScales(this.weight, groupSize, uniformLut(lutSize, { includeZero }), init);
    const whole = { ...groups, sizes: groups.sizes.map(() => groupSize) };
    const rank = this.scaleA?.size(-1) ?? 0;
    const out = this.outFeatures;
    const [a, b] = [new Float32Array(groups.layers * out * rank), new Float32Array(groups.layers * rank * padded)];
    for (let i = 0; rank && i < groups.layers; i++) {
      const { left, magnitudes, right } = factorize(whole, i, rank);
      a.set(
        left.map((x, j) => x * magnitudes[j % rank]!),
        i * out * rank,
      );
      b.set(right, i * rank * padded);
    }
    const set = (p: Parameter | null, data: Float32Array) =>
      p?.become(tensor(data, { shape: p.shape }).to(p.dtype).expr);
    set(this.scaleA, a);
    set(this.scaleB, b);
    if (this.fullScales)
      set(
        this.fullScales,
        Float32Array.from({ length: this.fullScales.numel() }, (_, i) => groups.values[Math.floor(i / groupSize)]!),
      );
  }

  private scaleNow(): Scale {
    const within = (t: Tensor) => t.narrow(-1, 0, this.inFeatures); // without the padding of the last group
    return this.scaleA
      ? { left: this.scaleA, right: within(this.scaleB!), least: LEAST_SCALE }
      : { whole: within(this.fullScales!), least: LEAST_SCALE };
  }
  /** The weight in units of its scales, without gradients. */
  private relative(scale: Tensor): Tensor {
    return this.weight.detach().to(scale.dtype).div(scale.detach());
  }
  override parts(): Parts {
    const scale = this.scaleNow();
    const codes = nearest(this.relative(scaleOf(scale)), this.lut);
    return { bits: bitsOf(this.options.lutSize), codes, levels: this.lut, scale, f16: false };
  }
  override effectiveWeight(): Tensor {
    const scale = scaleOf(this.scaleNow());
    const quantized = snap(this.relative(scale), this.lut).mul(scale);
    // Straight-through estimator: adds 0, and passes the gradient of the quantized weight to the weight.
    return this.weight.requiresGrad ? quantized.add(this.weight.sub(this.weight.detach())) : quantized;
  }
  override requantize_(weight: Tensor): void {
    this.weight.become(weight.detach().to(this.weight.dtype).expr);
    if (this.effective) this.materialize();
  }
  override extraRepr(): string {
    const { lutSize, groupSize } = this.options;
    return `inFeatures=${this.inFeatures}, outFeatures=${this.outFeatures}, levels=${lutSize}, rank=${this.scaleA?.size(-1) ?? 'full'}, group=${groupSize}`;
  }
}
