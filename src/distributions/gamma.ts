// The gamma family: Gamma, Chi2, Beta, Dirichlet, StudentT.
import { ShapeError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { arange } from '../tensor/create.js';
import { stack, where } from '../tensor/functions.js';
import { randn } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Constraint, independent, nonnegative, positive, real, simplex, unitInterval } from './constraints.js';
import {
  broadcastAll,
  Distribution,
  type DistributionOptions,
  finfo,
  type SampleOptions,
  tensorLike,
  type Value,
} from './distribution.js';
import { gammaDraw, gammainc } from './gamma-functions.js';

export class Gamma extends Distribution {
  readonly concentration: Tensor;
  readonly rate: Tensor;
  constructor(concentration: Value, rate: Value, options: DistributionOptions = {}) {
    const [c, r] = broadcastAll(new.target.name, concentration, rate);
    super(c.shape, [], options);
    this.concentration = c;
    this.rate = r;
    this.checkArgs({ concentration, rate });
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { concentration: positive, rate: positive };
  }
  get support(): Constraint {
    return nonnegative;
  }
  override get hasRsample(): boolean {
    return true;
  }
  get mean(): Tensor {
    return this.concentration.div(this.rate);
  }
  override get mode(): Tensor {
    return this.concentration.sub(1).div(this.rate).clamp({ min: 0 });
  }
  get variance(): Tensor {
    return this.concentration.div(this.rate.square());
  }
  /** The gradient with respect to the concentration is implicit reparameterization's, as in torch. */
  override rsample(sampleShape: Shape = [], { generator }: SampleOptions = {}): Tensor {
    const { value } = gammaDraw(this.spread(this.concentration, sampleShape), generator);
    return value.div(this.rate);
  }
  logProb(value: Value): Tensor {
    const x = this.value('logProb', value, this.rate);
    const { concentration: a, rate } = this;
    return a.xlogy(rate).add(a.sub(1).xlogy(x)).sub(rate.mul(x)).sub(a.lgamma());
  }
  override entropy(): Tensor {
    const a = this.concentration;
    return a.sub(this.rate.log()).add(a.lgamma()).add(a.neg().add(1).mul(a.digamma()));
  }
  override cdf(value: Value): Tensor {
    const [a, rate, x] = broadcastAll('Gamma', this.concentration, this.rate, this.value('cdf', value, this.rate));
    return gammainc(a, rate.mul(x));
  }
  expand(batchShape: Shape): Gamma {
    const options = { validateArgs: this.validates };
    return new Gamma(this.concentration.expand(batchShape), this.rate.expand(batchShape), options);
  }
}

/** The sum of `df` squared standard normal numbers. */
export class Chi2 extends Gamma {
  constructor(df: Value, options: DistributionOptions = {}) {
    const [d] = broadcastAll('Chi2', df);
    super(d.mul(0.5), 0.5, options);
    this.checkArgs({ df });
  }
  override get argConstraints(): Readonly<Record<string, Constraint>> {
    return { df: positive };
  }
  get df(): Tensor {
    return this.concentration.mul(2);
  }
  override expand(batchShape: Shape): Chi2 {
    return new Chi2(this.df.expand(batchShape), { validateArgs: this.validates });
  }
}

/** Random probabilities of several outcomes. */
export class Dirichlet extends Distribution {
  readonly concentration: Tensor;
  constructor(concentration: Tensor, options: DistributionOptions = {}) {
    const c = tensorLike('Dirichlet: concentration', concentration);
    if (c.ndim < 1) throw new ShapeError(`Dirichlet: concentration is ${c.aval}: it needs at least one dimension`);
    super(c.shape.slice(0, -1), c.shape.slice(-1), options);
    this.concentration = c;
    this.checkArgs({ concentration });
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { concentration: independent(positive, 1) };
  }
  get support(): Constraint {
    return simplex;
  }
  override get hasRsample(): boolean {
    return true;
  }
  get #total(): Tensor {
    return this.concentration.sum(-1, { keepdim: true });
  }
  get mean(): Tensor {
    return this.concentration.div(this.#total);
  }
  override get mode(): Tensor {
    const c = this.concentration;
    const above = c.sub(1).clamp({ min: 0 });
    const isConvex = c.lt(1).all({ dim: -1, keepdim: true });
    const corner = arange(this.eventShape[0]!).eq(0).to(c.dtype); // the first of equals, as torch answers
    return where(isConvex, corner, above.div(above.sum(-1, { keepdim: true })));
  }
  get variance(): Tensor {
    const total = this.#total;
    return this.concentration.mul(total.sub(this.concentration)).div(total.square().mul(total.add(1)));
  }
  /**
   * Gamma draws divided by their sum. Unlike torch: the gradient is that of the gamma draws (implicit reparameterization), which
   * differs from torch's for single draws and agrees on average.
   */
  override rsample(sampleShape: Shape = [], { generator }: SampleOptions = {}): Tensor {
    const { log } = gammaDraw(this.spread(this.concentration, sampleShape), generator);
    const x = log.softmax(-1);
    return x.clamp({ min: finfo(x).tiny });
  }
  logProb(value: Value): Tensor {
    const x = this.value('logProb', value, this.concentration);
    const c = this.concentration;
    return c.sub(1).xlogy(x).sum(-1).add(c.sum(-1).lgamma()).sub(c.lgamma().sum(-1));
  }
  override entropy(): Tensor {
    const c = this.concentration;
    const total = c.sum(-1);
    return c
      .lgamma()
      .sum(-1)
      .sub(total.lgamma())
      .sub(total.neg().add(this.eventShape[0]!).mul(total.digamma()))
      .sub(c.sub(1).mul(c.digamma()).sum(-1));
  }
  expand(batchShape: Shape): Dirichlet {
    const c = this.concentration.expand([...batchShape, ...this.eventShape]);
    return new Dirichlet(c, { validateArgs: this.validates });
  }
}

/** A random probability. */
export class Beta extends Distribution {
  readonly concentration1: Tensor;
  readonly concentration0: Tensor;
  readonly #pair: Dirichlet;
  constructor(concentration1: Value, concentration0: Value, options: DistributionOptions = {}) {
    const [a, b] = broadcastAll('Beta', concentration1, concentration0);
    super(a.shape, [], options);
    this.concentration1 = a;
    this.concentration0 = b;
    this.#pair = new Dirichlet(stack([a, b], -1), { validateArgs: false });
    this.checkArgs({ concentration1, concentration0 });
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { concentration1: positive, concentration0: positive };
  }
  get support(): Constraint {
    return unitInterval;
  }
  override get hasRsample(): boolean {
    return true;
  }
  get mean(): Tensor {
    return this.concentration1.div(this.concentration1.add(this.concentration0));
  }
  override get mode(): Tensor {
    return this.#pair.mode.select(-1, 0);
  }
  get variance(): Tensor {
    const total = this.concentration1.add(this.concentration0);
    return this.concentration1.mul(this.concentration0).div(total.square().mul(total.add(1)));
  }
  override rsample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return this.#pair.rsample(sampleShape, options).select(-1, 0);
  }
  logProb(value: Value): Tensor {
    const x = this.value('logProb', value, this.concentration1);
    return this.#pair.logProb(stack([x, x.neg().add(1)], -1));
  }
  override entropy(): Tensor {
    return this.#pair.entropy();
  }
  expand(batchShape: Shape): Beta {
    const options = { validateArgs: this.validates };
    return new Beta(this.concentration1.expand(batchShape), this.concentration0.expand(batchShape), options);
  }
}

export class StudentT extends Distribution {
  readonly df: Tensor;
  readonly loc: Tensor;
  readonly scale: Tensor;
  constructor(df: Value, loc: Value = 0, scale: Value = 1, options: DistributionOptions = {}) {
    const [d, l, s] = broadcastAll('StudentT', df, loc, scale);
    super(d.shape, [], options);
    this.df = d;
    this.loc = l;
    this.scale = s;
    this.checkArgs({ df, loc, scale });
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { df: positive, loc: real, scale: positive };
  }
  get support(): Constraint {
    return real;
  }
  override get hasRsample(): boolean {
    return true;
  }
  get mean(): Tensor {
    return where(this.df.le(1), Number.NaN, this.loc);
  }
  override get mode(): Tensor {
    return this.loc;
  }
  get variance(): Tensor {
    const hasVariance = this.df.gt(2);
    const safe = where(hasVariance, this.df, 3);
    const finite = this.scale.square().mul(safe).div(safe.sub(2));
    const none = where(this.df.gt(1), Number.POSITIVE_INFINITY, this.df.mul(Number.NaN));
    return where(hasVariance, finite, none);
  }
  override rsample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    const x = randn(this.extended(sampleShape), { dtype: this.df.dtype, ...options });
    const { value } = gammaDraw(this.spread(this.df.mul(0.5), sampleShape), options.generator);
    return this.loc.add(this.scale.mul(x.mul(value.mul(2).div(this.df).rsqrt())));
  }
  get #logNorm(): Tensor {
    const half = this.df.mul(0.5);
    return this.df
      .log()
      .mul(0.5)
      .add(0.5 * Math.log(Math.PI))
      .add(half.lgamma())
      .sub(half.add(0.5).lgamma());
  }
  logProb(value: Value): Tensor {
    const y = this.value('logProb', value, this.loc).sub(this.loc).div(this.scale);
    const power = this.df.add(1).mul(0.5).mul(y.square().div(this.df).log1p());
    return power.add(this.scale.log()).add(this.#logNorm).neg();
  }
  override entropy(): Tensor {
    const half = this.df.mul(0.5);
    const more = half.add(0.5);
    return this.scale
      .log()
      .add(more.mul(more.digamma().sub(half.digamma())))
      .add(this.#logNorm);
  }
  expand(batchShape: Shape): StudentT {
    const [d, l, s] = [this.df, this.loc, this.scale].map((t) => t.expand(batchShape)) as [Tensor, Tensor, Tensor];
    return new StudentT(d, l, s, { validateArgs: this.validates });
  }
}
