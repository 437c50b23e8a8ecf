// LogNormal, and the relaxed (Concrete) forms of Bernoulli and OneHotCategorical.
import type { Shape } from '../base/shape.js';
import { fromUniform, standardGumbel } from '../tensor/samplers.js';
import type { Tensor } from '../tensor/tensor.js';
import { Categorical } from './categorical.js';
import { TransformedDistribution } from './compound.js';
import type { Constraint } from './constraints.js';
import * as constraints from './constraints.js';
import { Binary } from './discrete.js';
import {
  broadcastAll,
  clampProbs,
  Distribution,
  type DistributionOptions,
  oneOf,
  optionsOf,
  type ProbsOrLogits,
  type SampleOptions,
  tensorLike,
  type Value,
} from './distribution.js';
import { Normal } from './location.js';
import { ExpTransform, SigmoidTransform } from './transforms.js';

/** The exponential of a normal number. */
export class LogNormal extends TransformedDistribution {
  declare readonly baseDist: Normal;
  constructor(loc: Value, scale: Value, options: DistributionOptions = {}) {
    super(new Normal(loc, scale, options), new ExpTransform(), options);
  }
  override get argConstraints(): Readonly<Record<string, Constraint>> {
    return this.baseDist.argConstraints;
  }
  protected override get like(): Tensor {
    return this.loc;
  }
  get loc(): Tensor {
    return this.baseDist.loc;
  }
  get scale(): Tensor {
    return this.baseDist.scale;
  }
  override get mean(): Tensor {
    return this.loc.add(this.scale.square().div(2)).exp();
  }
  override get mode(): Tensor {
    return this.loc.sub(this.scale.square()).exp();
  }
  override get variance(): Tensor {
    const square = this.scale.square();
    return square.expm1().mul(this.loc.mul(2).add(square).exp());
  }
  override entropy(): Tensor {
    return this.baseDist.entropy().add(this.loc);
  }
  override expand(batchShape: Shape): LogNormal {
    const options = { validateArgs: this.validates };
    return new LogNormal(this.loc.expand(batchShape), this.scale.expand(batchShape), options);
  }
}

/** The logit of a RelaxedBernoulli draw. */
export class LogitRelaxedBernoulli extends Binary {
  readonly temperature: Tensor;
  constructor(temperature: Value, given: Value | ProbsOrLogits, options: DistributionOptions = {}) {
    const { name, param } = oneOf('LogitRelaxedBernoulli', given);
    const [tensor] = broadcastAll('LogitRelaxedBernoulli', param);
    super(name, tensor, param, optionsOf(given, options));
    this.temperature = tensorLike('LogitRelaxedBernoulli: temperature', temperature, tensor);
  }
  get support(): Constraint {
    return constraints.real;
  }
  override get hasRsample(): boolean {
    return true;
  }
  get mean(): Tensor {
    throw this.missing('mean');
  }
  get variance(): Tensor {
    throw this.missing('variance');
  }
  override rsample(sampleShape: Shape = [], { generator }: SampleOptions = {}): Tensor {
    const p = clampProbs(this.spread(this.probs, sampleShape));
    const noise = fromUniform(p.shape, p.dtype, generator, (u) => u.log().sub(u.neg().log1p()));
    return noise.add(p.log()).sub(p.neg().log1p()).div(this.temperature);
  }
  logProb(value: Value): Tensor {
    const [logits, x] = broadcastAll('RelaxedBernoulli', this.logits, this.value('logProb', value, this.probs));
    const away = logits.sub(x.mul(this.temperature));
    return this.temperature.log().add(away).sub(away.softplus().mul(2));
  }
  expand(batchShape: Shape): LogitRelaxedBernoulli {
    return new LogitRelaxedBernoulli(this.temperature, this.expanded(batchShape));
  }
}

/** A relaxed Bernoulli in (0, 1) with gradients, near 0 or 1 for low temperatures (Maddison, Mnih, Teh, 2016). */
export class RelaxedBernoulli extends TransformedDistribution {
  declare readonly baseDist: LogitRelaxedBernoulli;
  constructor(temperature: Value, given: Value | ProbsOrLogits, options: DistributionOptions = {}) {
    super(new LogitRelaxedBernoulli(temperature, given, options), new SigmoidTransform(), optionsOf(given, options));
  }
  override get argConstraints(): Readonly<Record<string, Constraint>> {
    return this.baseDist.argConstraints;
  }
  protected override get like(): Tensor {
    return this.probs;
  }
  get temperature(): Tensor {
    return this.baseDist.temperature;
  }
  get probs(): Tensor {
    return this.baseDist.probs;
  }
  get logits(): Tensor {
    return this.baseDist.logits;
  }
  override expand(batchShape: Shape): RelaxedBernoulli {
    return new RelaxedBernoulli(this.temperature, this.baseDist.expanded(batchShape));
  }
}

/** The logarithm of a RelaxedOneHotCategorical draw. */
export class ExpRelaxedCategorical extends Distribution {
  readonly temperature: Tensor;
  /** The distribution that it relaxes. */
  readonly categorical: Categorical;
  constructor(temperature: Value, given: Tensor | ProbsOrLogits | Categorical, options: DistributionOptions = {}) {
    const categorical = given instanceof Categorical ? given : new Categorical(given, options);
    super(
      categorical.batchShape,
      [categorical.numEvents],
      given instanceof Categorical ? options : optionsOf(given, options),
    );
    this.categorical = categorical;
    this.temperature = tensorLike('ExpRelaxedCategorical: temperature', temperature, categorical.param);
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return this.categorical.argConstraints;
  }
  get support(): Constraint {
    return constraints.realVector;
  }
  override get hasRsample(): boolean {
    return true;
  }
  get probs(): Tensor {
    return this.categorical.probs;
  }
  get logits(): Tensor {
    return this.categorical.logits;
  }
  get mean(): Tensor {
    throw this.missing('mean');
  }
  get variance(): Tensor {
    throw this.missing('variance');
  }
  override rsample(sampleShape: Shape = [], { generator }: SampleOptions = {}): Tensor {
    const noise = standardGumbel(this.extended(sampleShape), this.logits.dtype, generator);
    return this.logits.add(noise).div(this.temperature).logSoftmax(-1);
  }
  logProb(value: Value): Tensor {
    const [logits, x] = broadcastAll('ExpRelaxedCategorical', this.logits, this.value('logProb', value, this.probs));
    const k = this.eventShape[0]!;
    let factorial = 0;
    for (let i = 2; i < k; i++) factorial += Math.log(i);
    const score = logits.sub(x.mul(this.temperature)).logSoftmax(-1).sum(-1);
    return score.add(this.temperature.log().mul(k - 1)).add(factorial);
  }
  expand(batchShape: Shape): ExpRelaxedCategorical {
    const options = { validateArgs: this.validates };
    return new ExpRelaxedCategorical(this.temperature, this.categorical.expand(batchShape), options);
  }
}

/** The Gumbel-softmax distribution: probabilities with gradients, near one-hot for low temperatures. */
export class RelaxedOneHotCategorical extends TransformedDistribution {
  declare readonly baseDist: ExpRelaxedCategorical;
  constructor(temperature: Value, given: Tensor | ProbsOrLogits | Categorical, options: DistributionOptions = {}) {
    const own = given instanceof Categorical ? options : optionsOf(given, options);
    super(new ExpRelaxedCategorical(temperature, given, options), new ExpTransform(), own);
  }
  override get argConstraints(): Readonly<Record<string, Constraint>> {
    return this.baseDist.argConstraints;
  }
  override get support(): Constraint {
    return constraints.simplex;
  }
  get temperature(): Tensor {
    return this.baseDist.temperature;
  }
  get probs(): Tensor {
    return this.baseDist.probs;
  }
  get logits(): Tensor {
    return this.baseDist.logits;
  }
  override expand(batchShape: Shape): RelaxedOneHotCategorical {
    const options = { validateArgs: this.validates };
    return new RelaxedOneHotCategorical(this.temperature, this.baseDist.categorical.expand(batchShape), options);
  }
}
