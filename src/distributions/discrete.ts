// Discrete distributions: Bernoulli, Geometric, Binomial, Poisson.

import { ArgumentError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { arange, zerosLike } from '../tensor/create.js';
import { binaryCrossEntropyWithLogits, where } from '../tensor/functions.js';
import { bernoulli } from '../tensor/random.js';
import { binomial, fromUniform, poisson } from '../tensor/samplers.js';
import type { Tensor } from '../tensor/tensor.js';
import {
  boolean,
  type Constraint,
  integerInterval,
  nonnegative,
  nonnegativeInteger,
  real,
  unitInterval,
} from './constraints.js';
import {
  broadcastAll,
  clampProbs,
  Distribution,
  type DistributionOptions,
  oneOf,
  optionsOf,
  type ProbsOrLogits,
  type SampleOptions,
  type Value,
} from './distribution.js';

type Parameter = { readonly name: 'probs' | 'logits'; readonly tensor: Tensor };
const toLogits = (probs: Tensor): Tensor => {
  const p = clampProbs(probs);
  return p.log().sub(p.neg().log1p());
};

/** The base of distributions given by the probability of an event or its logit. */
export abstract class Binary extends Distribution {
  protected readonly parameter: Parameter;
  constructor(name: Parameter['name'], tensor: Tensor, given: Value, options: DistributionOptions) {
    super(tensor.shape, [], options);
    this.parameter = { name, tensor };
    this.checkArgs({ [name]: given });
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { probs: unitInterval, logits: real };
  }
  get probs(): Tensor {
    const { name, tensor } = this.parameter;
    return name === 'probs' ? tensor : tensor.sigmoid();
  }
  get logits(): Tensor {
    const { name, tensor } = this.parameter;
    return name === 'logits' ? tensor : toLogits(tensor);
  }
  /** The parameter with a larger batch shape, as options of the constructor. */
  expanded(batchShape: Shape): ProbsOrLogits {
    return { [this.parameter.name]: this.parameter.tensor.expand(batchShape), validateArgs: this.validates };
  }
}

/** 1 with probability `probs`, otherwise 0. */
export class Bernoulli extends Binary {
  constructor(given: Value | ProbsOrLogits, options: DistributionOptions = {}) {
    const { name, param } = oneOf('Bernoulli', given);
    const [tensor] = broadcastAll('Bernoulli', param);
    super(name, tensor, param, optionsOf(given, options));
  }
  get support(): Constraint {
    return boolean;
  }
  override get hasEnumerateSupport(): boolean {
    return true;
  }
  get mean(): Tensor {
    return this.probs;
  }
  override get mode(): Tensor {
    const p = this.probs;
    return where(p.eq(0.5), Number.NaN, p.ge(0.5).to(p.dtype));
  }
  get variance(): Tensor {
    const p = this.probs;
    return p.mul(p.neg().add(1));
  }
  override sample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return bernoulli(this.spread(this.probs, sampleShape), options);
  }
  logProb(value: Value): Tensor {
    const [logits, x] = broadcastAll('Bernoulli', this.logits, this.value('logProb', value, this.probs));
    return binaryCrossEntropyWithLogits(logits, x, { reduction: 'none' }).neg();
  }
  override entropy(): Tensor {
    return binaryCrossEntropyWithLogits(this.logits, this.probs, { reduction: 'none' });
  }
  override enumerateSupport({ expand = true }: { readonly expand?: boolean } = {}): Tensor {
    return countsUpTo(1, this.probs, expand);
  }
  expand(batchShape: Shape): Bernoulli {
    return new Bernoulli(this.expanded(batchShape));
  }
}

/** 0 to n in a new first dimension. */
function countsUpTo(n: number, like: Tensor, expand: boolean): Tensor {
  const values = arange(n + 1, { dtype: like.dtype }).reshape([n + 1, ...like.shape.map(() => 1)]);
  return expand ? values.expand([n + 1, ...like.shape]) : values;
}

/** The number of failures before the first success. */
export class Geometric extends Binary {
  constructor(given: Value | ProbsOrLogits, options: DistributionOptions = {}) {
    const { name, param } = oneOf('Geometric', given);
    const [tensor] = broadcastAll('Geometric', param);
    super(name, tensor, param, optionsOf(given, options));
    if (this.validates && param === 0) throw new ArgumentError('Geometric: probs is 0: it must be above 0');
  }
  get support(): Constraint {
    return nonnegativeInteger;
  }
  get mean(): Tensor {
    return this.probs.reciprocal().sub(1);
  }
  override get mode(): Tensor {
    return zerosLike(this.probs);
  }
  get variance(): Tensor {
    return this.probs.reciprocal().sub(1).div(this.probs);
  }
  override sample(sampleShape: Shape = [], { generator }: SampleOptions = {}): Tensor {
    const p = this.probs.detach();
    return fromUniform(this.extended(sampleShape), p.dtype, generator, (u) =>
      u.log().div(p.to(u.dtype).neg().log1p()).floor(),
    );
  }
  logProb(value: Value): Tensor {
    const [x, probs] = broadcastAll('Geometric', this.value('logProb', value, this.probs), this.probs);
    const safe = where(probs.eq(1).logicalAnd(x.eq(0)), 0, probs);
    return x.mul(safe.neg().log1p()).add(probs.log());
  }
  override entropy(): Tensor {
    return binaryCrossEntropyWithLogits(this.logits, this.probs, { reduction: 'none' }).div(this.probs);
  }
  expand(batchShape: Shape): Geometric {
    return new Geometric(this.expanded(batchShape));
  }
}

/** The number of successes in `totalCount` trials. */
export class Binomial extends Binary {
  readonly totalCount: Tensor;
  readonly #count: number | undefined;
  constructor(totalCount: Value, given: Value | ProbsOrLogits, options: DistributionOptions = {}) {
    const { name, param } = oneOf('Binomial', given);
    const [tensor, count] = broadcastAll('Binomial', param, totalCount);
    super(name, tensor, param, optionsOf(given, options));
    this.totalCount = count.to(tensor.dtype);
    this.#count = typeof totalCount === 'number' ? totalCount : undefined;
    this.checkArgs({ totalCount });
  }
  override get argConstraints(): Readonly<Record<string, Constraint>> {
    return { ...super.argConstraints, totalCount: nonnegativeInteger };
  }
  get support(): Constraint {
    return integerInterval(0, this.#count ?? this.totalCount);
  }
  override get hasEnumerateSupport(): boolean {
    return true;
  }
  get mean(): Tensor {
    return this.totalCount.mul(this.probs);
  }
  override get mode(): Tensor {
    return this.totalCount.add(1).mul(this.probs).floor().clamp({ max: this.totalCount });
  }
  get variance(): Tensor {
    const p = this.probs;
    return this.totalCount.mul(p).mul(p.neg().add(1));
  }
  override sample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return binomial(this.spread(this.totalCount, sampleShape), this.spread(this.probs, sampleShape), options);
  }
  logProb(value: Value): Tensor {
    return this.#logProb(this.value('logProb', value, this.probs));
  }
  #logProb(x: Tensor): Tensor {
    const { logits, totalCount: n } = this;
    const logOne = logits.clamp({ min: 0 }).add(logits.abs().neg().exp().log1p()); // softplus
    const ways = n.add(1).lgamma().sub(x.add(1).lgamma()).sub(n.sub(x).add(1).lgamma());
    return x.mul(logits).add(ways).sub(n.mul(logOne));
  }
  /** Sums over all outcomes: the count must be a number. */
  override entropy(): Tensor {
    const log = this.#logProb(this.enumerateSupport({ expand: false }));
    return log.exp().mul(log).sum(0).neg();
  }
  override enumerateSupport({ expand = true }: { readonly expand?: boolean } = {}): Tensor {
    if (this.#count === undefined)
      throw this.missing('enumerateSupport', 'totalCount is a tensor, but its value must be known: pass a number');
    return countsUpTo(this.#count, this.probs, expand);
  }
  expand(batchShape: Shape): Binomial {
    return new Binomial(this.#count ?? this.totalCount.expand(batchShape), this.expanded(batchShape));
  }
}

/** The number of events in a unit of time, `rate` on average. */
export class Poisson extends Distribution {
  readonly rate: Tensor;
  constructor(rate: Value, options: DistributionOptions = {}) {
    const [r] = broadcastAll('Poisson', rate);
    super(r.shape, [], options);
    this.rate = r;
    this.checkArgs({ rate });
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { rate: nonnegative };
  }
  get support(): Constraint {
    return nonnegativeInteger;
  }
  get mean(): Tensor {
    return this.rate;
  }
  override get mode(): Tensor {
    return this.rate.floor();
  }
  get variance(): Tensor {
    return this.rate;
  }
  override sample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return poisson(this.spread(this.rate, sampleShape), options);
  }
  logProb(value: Value): Tensor {
    const x = this.value('logProb', value, this.rate);
    return x.xlogy(this.rate).sub(this.rate).sub(x.add(1).lgamma());
  }
  expand(batchShape: Shape): Poisson {
    return new Poisson(this.rate.expand(batchShape), { validateArgs: this.validates });
  }
}
