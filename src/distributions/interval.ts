// Uniform and Exponential distributions, sampled by inversion of a uniform draw.

import { ArgumentError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { fullLike, zerosLike } from '../tensor/create.js';
import { where } from '../tensor/functions.js';
import { rand } from '../tensor/random.js';
import { fromUniform } from '../tensor/samplers.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Constraint, interval, nonnegative, positive, real } from './constraints.js';
import {
  broadcastAll,
  Distribution,
  type DistributionOptions,
  type SampleOptions,
  type Value,
} from './distribution.js';

/** Uniform in [low, high). */
export class Uniform extends Distribution {
  readonly low: Tensor;
  readonly high: Tensor;
  readonly #bounds: readonly [Value, Value];
  constructor(low: Value, high: Value, options: DistributionOptions = {}) {
    const [l, h] = broadcastAll('Uniform', low, high);
    super(l.shape, [], options);
    this.low = l;
    this.high = h;
    this.#bounds = typeof low === 'number' && typeof high === 'number' ? [low, high] : [l, h];
    this.checkArgs({ low, high });
    if (this.validates && typeof low === 'number' && typeof high === 'number' && !(low < high))
      throw new ArgumentError(`Uniform: low is ${low} and high is ${high}: low must be below high`);
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { low: real, high: real };
  }
  get support(): Constraint {
    return interval(...this.#bounds);
  }
  override get hasRsample(): boolean {
    return true;
  }
  get #width(): Tensor {
    return this.high.sub(this.low);
  }
  get mean(): Tensor {
    return this.high.add(this.low).div(2);
  }
  override get mode(): Tensor {
    return fullLike(this.high, Number.NaN);
  }
  override get stddev(): Tensor {
    return this.#width.div(Math.sqrt(12));
  }
  get variance(): Tensor {
    return this.#width.square().div(12);
  }
  override rsample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    const u = rand(this.extended(sampleShape), { dtype: this.low.dtype, ...options });
    const x = this.low.add(u.mul(this.#width));
    const step = this.high.sub(this.high.nextafter(this.low)).detach();
    return where(x.lt(this.high), x, this.high.sub(step)); // rounding can reach high, which is not in the support
  }
  logProb(value: Value): Tensor {
    const x = this.value('logProb', value, this.low);
    const isInside = this.low.le(x).logicalAnd(this.high.gt(x));
    return where(isInside, this.#width.log().neg(), Number.NEGATIVE_INFINITY);
  }
  override entropy(): Tensor {
    return this.#width.log();
  }
  override cdf(value: Value): Tensor {
    return this.value('cdf', value, this.low).sub(this.low).div(this.#width).clamp({ min: 0, max: 1 });
  }
  override icdf(probability: Value): Tensor {
    return this.#width.mul(probability).add(this.low);
  }
  expand(batchShape: Shape): Uniform {
    const options = { validateArgs: this.validates };
    return new Uniform(this.low.expand(batchShape), this.high.expand(batchShape), options);
  }
}

/** The time between events that occur at `rate` per unit of time. */
export class Exponential extends Distribution {
  readonly rate: Tensor;
  constructor(rate: Value, options: DistributionOptions = {}) {
    const [r] = broadcastAll('Exponential', rate);
    super(r.shape, [], options);
    this.rate = r;
    this.checkArgs({ rate });
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { rate: positive };
  }
  get support(): Constraint {
    return nonnegative;
  }
  override get hasRsample(): boolean {
    return true;
  }
  get mean(): Tensor {
    return this.rate.reciprocal();
  }
  override get mode(): Tensor {
    return zerosLike(this.rate);
  }
  override get stddev(): Tensor {
    return this.rate.reciprocal();
  }
  get variance(): Tensor {
    return this.rate.square().reciprocal();
  }
  override rsample(sampleShape: Shape = [], { generator }: SampleOptions = {}): Tensor {
    const { dtype } = this.rate;
    return fromUniform(this.extended(sampleShape), dtype, generator, (u) => u.log().neg()).div(this.rate);
  }
  logProb(value: Value): Tensor {
    return this.rate.log().sub(this.rate.mul(this.value('logProb', value, this.rate)));
  }
  override entropy(): Tensor {
    return this.rate.log().neg().add(1);
  }
  override cdf(value: Value): Tensor {
    return this.rate
      .mul(this.value('cdf', value, this.rate))
      .neg()
      .expm1()
      .neg();
  }
  override icdf(probability: Value): Tensor {
    const p = typeof probability === 'number' ? fullLike(this.rate, probability) : probability;
    return p.neg().log1p().neg().div(this.rate);
  }
  expand(batchShape: Shape): Exponential {
    return new Exponential(this.rate.expand(batchShape), { validateArgs: this.validates });
  }
}
