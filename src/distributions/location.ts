// Location-scale distributions: a standard draw, scaled and shifted.
import type { Shape } from '../base/shape.js';
import { fullLike, zerosLike } from '../tensor/create.js';
import { where } from '../tensor/functions.js';
import { randn } from '../tensor/random.js';
import { fromUniform, standardGumbel, standardVonMises } from '../tensor/samplers.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Constraint, nonnegative, positive, real } from './constraints.js';
import {
  broadcastAll,
  Distribution,
  type DistributionOptions,
  type SampleOptions,
  type Value,
} from './distribution.js';

export const EULER = 0.5772156649015329;

type LocScaleClass = new (loc: Value, scale: Value, options?: DistributionOptions) => Distribution;

/** The base of distributions of real numbers around `loc`. */
export abstract class LocScale extends Distribution {
  readonly loc: Tensor;
  readonly scale: Tensor;

  constructor(loc: Value, scale: Value, options: DistributionOptions = {}) {
    const [l, s] = broadcastAll(new.target.name, loc, scale);
    super(l.shape, [], options);
    this.loc = l;
    this.scale = s;
    this.checkArgs({ loc, scale });
  }

  /** A draw with loc 0 and scale 1. */
  protected abstract standard(shape: Shape, options: SampleOptions): Tensor;

  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { loc: real, scale: positive };
  }
  get support(): Constraint {
    return real;
  }
  override get hasRsample(): boolean {
    return true;
  }
  get mean(): Tensor {
    return this.loc;
  }
  override get mode(): Tensor {
    return this.loc;
  }
  override rsample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return this.loc.add(this.scale.mul(this.standard(this.extended(sampleShape), options)));
  }
  expand(batchShape: Shape): this {
    const Same = this.constructor as LocScaleClass;
    const options = { validateArgs: this.validates };
    return new Same(this.loc.expand(batchShape), this.scale.expand(batchShape), options) as this;
  }
  /** (value - loc) / scale. */
  protected standardized(op: string, value: Value): Tensor {
    return this.value(op, value, this.loc).sub(this.loc).div(this.scale);
  }
}

export class Normal extends LocScale {
  protected standard(shape: Shape, options: SampleOptions): Tensor {
    return randn(shape, { dtype: this.loc.dtype, ...options });
  }
  override get stddev(): Tensor {
    return this.scale;
  }
  get variance(): Tensor {
    return this.scale.square();
  }
  logProb(value: Value): Tensor {
    const z = this.standardized('logProb', value);
    return z
      .square()
      .mul(-0.5)
      .sub(this.scale.log())
      .sub(0.5 * Math.log(2 * Math.PI));
  }
  override entropy(): Tensor {
    return this.scale.log().add(0.5 + 0.5 * Math.log(2 * Math.PI));
  }
  override cdf(value: Value): Tensor {
    return this.standardized('cdf', value).mul(Math.SQRT1_2).erf().add(1).mul(0.5);
  }
  override icdf(probability: Value): Tensor {
    const p = probabilityLike(probability, this.loc);
    return this.loc.add(this.scale.mul(p.mul(2).sub(1).erfinv().mul(Math.SQRT2)));
  }
}
const probabilityLike = (p: Value, like: Tensor): Tensor => (typeof p === 'number' ? fullLike(like, p) : p);

export class Cauchy extends LocScale {
  protected standard(shape: Shape, { generator }: SampleOptions): Tensor {
    return fromUniform(shape, this.loc.dtype, generator, (u) => u.sub(0.5).mul(Math.PI).tan());
  }
  override get mean(): Tensor {
    return fullLike(this.loc, Number.NaN);
  }
  get variance(): Tensor {
    return fullLike(this.loc, Number.POSITIVE_INFINITY);
  }
  logProb(value: Value): Tensor {
    const z = this.standardized('logProb', value);
    return z.square().log1p().add(this.scale.log()).add(Math.log(Math.PI)).neg();
  }
  override entropy(): Tensor {
    return this.scale.log().add(Math.log(4 * Math.PI));
  }
  override cdf(value: Value): Tensor {
    return this.standardized('cdf', value).atan().div(Math.PI).add(0.5);
  }
  override icdf(probability: Value): Tensor {
    const p = probabilityLike(probability, this.loc);
    return p.sub(0.5).mul(Math.PI).tan().mul(this.scale).add(this.loc);
  }
}

export class Laplace extends LocScale {
  protected standard(shape: Shape, { generator }: SampleOptions): Tensor {
    // Each half by the distance of u from its own end: 2u - 1 would round to -1, and its logarithm be infinite.
    return fromUniform(shape, this.loc.dtype, generator, (u) =>
      where(u.lt(0.5), u.mul(2).log(), u.neg().add(1).mul(2).log().neg()),
    );
  }
  get variance(): Tensor {
    return this.scale.square().mul(2);
  }
  override get stddev(): Tensor {
    return this.scale.mul(Math.SQRT2);
  }
  logProb(value: Value): Tensor {
    return this.standardized('logProb', value).abs().add(this.scale.mul(2).log()).neg();
  }
  override entropy(): Tensor {
    return this.scale.mul(2).log().add(1);
  }
  override cdf(value: Value): Tensor {
    const z = this.standardized('cdf', value);
    return z.sign().mul(z.abs().neg().expm1()).mul(-0.5).add(0.5);
  }
  override icdf(probability: Value): Tensor {
    const term = probabilityLike(probability, this.loc).sub(0.5);
    return this.loc.sub(this.scale.mul(term.sign()).mul(term.abs().mul(-2).log1p()));
  }
}

export class Gumbel extends LocScale {
  protected standard(shape: Shape, { generator }: SampleOptions): Tensor {
    return standardGumbel(shape, this.loc.dtype, generator);
  }
  override get mean(): Tensor {
    return this.loc.add(this.scale.mul(EULER));
  }
  override get stddev(): Tensor {
    return this.scale.mul(Math.PI / Math.sqrt(6));
  }
  get variance(): Tensor {
    return this.stddev.square();
  }
  logProb(value: Value): Tensor {
    const y = this.standardized('logProb', value).neg();
    return y.sub(y.exp()).sub(this.scale.log());
  }
  override entropy(): Tensor {
    return this.scale.log().add(1 + EULER);
  }
  override cdf(value: Value): Tensor {
    return this.standardized('cdf', value).neg().exp().neg().exp();
  }
  override icdf(probability: Value): Tensor {
    const p = probabilityLike(probability, this.loc);
    return this.loc.sub(this.scale.mul(p.log().neg().log()));
  }
}

/** The base of distributions of absolute values. */
abstract class Half<Base extends LocScale> extends Distribution {
  readonly baseDist: Base;
  constructor(base: Base, scale: Value, options: DistributionOptions) {
    super(base.batchShape, [], options);
    this.baseDist = base;
    this.checkArgs({ scale });
  }
  get scale(): Tensor {
    return this.baseDist.scale;
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { scale: positive };
  }
  get support(): Constraint {
    return nonnegative;
  }
  override get hasRsample(): boolean {
    return true;
  }
  override get mode(): Tensor {
    return zerosLike(this.scale);
  }
  override rsample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return this.baseDist.rsample(sampleShape, options).abs();
  }
  logProb(value: Value): Tensor {
    const x = this.value('logProb', value, this.scale);
    const p = this.baseDist.logProb(x).add(Math.LN2);
    return where(x.ge(0), p, Number.NEGATIVE_INFINITY);
  }
  override entropy(): Tensor {
    return this.baseDist.entropy().sub(Math.LN2);
  }
  override cdf(value: Value): Tensor {
    return this.baseDist
      .cdf(this.value('cdf', value, this.scale))
      .mul(2)
      .sub(1);
  }
  override icdf(probability: Value): Tensor {
    return this.baseDist.icdf(probabilityLike(probability, this.scale).add(1).div(2));
  }
}
const unchecked = { validateArgs: false };

export class HalfNormal extends Half<Normal> {
  constructor(scale: Value, options: DistributionOptions = {}) {
    super(new Normal(0, scale, unchecked), scale, options);
  }
  get mean(): Tensor {
    return this.scale.mul(Math.sqrt(2 / Math.PI));
  }
  get variance(): Tensor {
    return this.scale.square().mul(1 - 2 / Math.PI);
  }
  expand(batchShape: Shape): HalfNormal {
    return new HalfNormal(this.scale.expand(batchShape), { validateArgs: this.validates });
  }
}

export class HalfCauchy extends Half<Cauchy> {
  constructor(scale: Value, options: DistributionOptions = {}) {
    super(new Cauchy(0, scale, unchecked), scale, options);
  }
  get mean(): Tensor {
    return fullLike(this.scale, Number.POSITIVE_INFINITY);
  }
  get variance(): Tensor {
    return this.baseDist.variance;
  }
  expand(batchShape: Shape): HalfCauchy {
    return new HalfCauchy(this.scale.expand(batchShape), { validateArgs: this.validates });
  }
}

// ---- on a circle

// Abramowitz and Stegun 9.8.1 to 9.8.4, as torch has them.
const BESSEL = [
  {
    small: [1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813],
    large: [
      0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537, -0.01647633, 0.00392377,
    ],
  },
  {
    small: [0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411],
    large: [
      0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555, 0.02282967, -0.02895312, 0.01787654, -0.00420059,
    ],
  },
] as const;
const polynomial = (x: Tensor, coefficients: readonly number[]): Tensor =>
  coefficients.slice(0, -1).reduceRight((sum, c) => sum.mul(x).add(c), fullLike(x, coefficients.at(-1)!));
/** The logarithm of the modified Bessel function of order 0 or 1, of x > 0. */
function logBessel(x: Tensor, order: 0 | 1): Tensor {
  const { small, large } = BESSEL[order];
  const isSmall = x.lt(3.75);
  const [low, high] = [where(isSmall, x, 1), where(isSmall, 3.75, x)]; // a gradient must not meet an infinite one
  const near = polynomial(low.div(3.75).square(), small);
  const below = (order ? near.mul(low) : near).log();
  const above = high.sub(high.log().mul(0.5)).add(polynomial(high.reciprocal().mul(3.75), large).log());
  return where(isSmall, below, above);
}

/** Angles around `loc`. The second parameter is a concentration: larger values are narrower. */
export class VonMises extends Distribution {
  readonly loc: Tensor;
  readonly concentration: Tensor;
  constructor(loc: Value, concentration: Value, options: DistributionOptions = {}) {
    const [l, c] = broadcastAll('VonMises', loc, concentration);
    super(l.shape, [], options);
    this.loc = l;
    this.concentration = c;
    this.checkArgs({ loc, concentration });
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { loc: real, concentration: positive };
  }
  get support(): Constraint {
    return real;
  }
  get mean(): Tensor {
    return this.loc;
  }
  override get mode(): Tensor {
    return this.loc;
  }
  /** The circular variance. */
  get variance(): Tensor {
    return logBessel(this.concentration, 1).sub(logBessel(this.concentration, 0)).exp().neg().add(1);
  }
  override sample(sampleShape: Shape = [], { generator }: SampleOptions = {}): Tensor {
    const around = standardVonMises(this.spread(this.concentration, sampleShape), generator);
    return around
      .add(this.loc.detach())
      .add(Math.PI)
      .remainder(2 * Math.PI)
      .sub(Math.PI);
  }
  logProb(value: Value): Tensor {
    const off = this.value('logProb', value, this.loc).sub(this.loc);
    return this.concentration
      .mul(off.cos())
      .sub(Math.log(2 * Math.PI))
      .sub(logBessel(this.concentration, 0));
  }
  expand(batchShape: Shape): VonMises {
    const options = { validateArgs: this.validates };
    return new VonMises(this.loc.expand(batchShape), this.concentration.expand(batchShape), options);
  }
}
