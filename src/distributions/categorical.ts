// One of several outcomes: Categorical (its index), OneHotCategorical, and Multinomial (how often each came).
import { checkWhole } from '../base/check.js';
import { ShapeError } from '../base/errors.js';
import { broadcastShapes, type Shape } from '../base/shape.js';
import { arange, eye, full, fullLike } from '../tensor/create.js';
import { oneHot, where } from '../tensor/functions.js';
import { fromUniform } from '../tensor/samplers.js';
import { Tensor } from '../tensor/tensor.js';
import type { Constraint } from './constraints.js';
import * as constraints from './constraints.js';
import { Binomial } from './discrete.js';
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

type Given = Tensor | ProbsOrLogits;

/** 0 to n - 1, i64, with the probabilities of the last dimension: they are divided by their sum. */
export class Categorical extends Distribution {
  readonly #name: 'probs' | 'logits';
  /** The normalized parameter. */
  readonly param: Tensor;
  constructor(given: Given, options: DistributionOptions = {}) {
    const { name, param } = oneOf('Categorical', given);
    const x = tensorLike(`Categorical: ${name}`, param);
    if (x.ndim < 1) throw new ShapeError(`Categorical: ${name} is ${x.aval}: it needs at least one dimension`);
    super(x.shape.slice(0, -1), [], optionsOf(given, options));
    this.#name = name;
    this.param =
      name === 'probs' ? x.div(x.sum(-1, { keepdim: true })) : x.sub(x.logsumexp({ dim: -1, keepdim: true }));
    this.checkArgs({ [name]: param });
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return { probs: constraints.independent(constraints.nonnegative, 1), logits: constraints.realVector };
  }
  get support(): Constraint {
    return constraints.integerInterval(0, this.numEvents - 1);
  }
  override get hasEnumerateSupport(): boolean {
    return true;
  }
  get numEvents(): number {
    return this.param.shape.at(-1)!;
  }
  get probs(): Tensor {
    return this.#name === 'probs' ? this.param : this.param.softmax(-1);
  }
  get logits(): Tensor {
    return this.#name === 'logits' ? this.param : clampProbs(this.param).log();
  }
  get mean(): Tensor {
    return full(this.batchShape, Number.NaN, { dtype: this.param.dtype });
  }
  get variance(): Tensor {
    return this.mean;
  }
  override get mode(): Tensor {
    return this.probs.argmax({ dim: -1 });
  }
  /** A race: each outcome arrives after an exponential time at the rate of its probability; the first is drawn. */
  override sample(sampleShape: Shape = [], { generator }: SampleOptions = {}): Tensor {
    const p = this.probs.detach();
    const shape = [...this.extended(sampleShape), this.numEvents];
    const wait = fromUniform(shape, p.dtype === 'f64' ? 'f64' : 'f32', generator, (u) => u.log().neg());
    return p.div(wait).argmax({ dim: -1 });
  }
  logProb(value: Value): Tensor {
    const checked = this.value('logProb', value, this.param);
    const index = (value instanceof Tensor ? value : checked).long();
    const shape = broadcastShapes('Categorical.logProb', index.shape, this.batchShape);
    const logits = this.logits.expand([...shape, this.numEvents]);
    return logits.gather(-1, index.expand(shape).unsqueeze(-1)).squeeze({ dim: -1 });
  }
  override entropy(): Tensor {
    const logits = this.logits.clamp({ min: LOWEST[this.param.dtype as 'f32'] ?? LOWEST.f32 });
    return logits.mul(this.probs).sum(-1).neg();
  }
  override enumerateSupport({ expand = true }: { readonly expand?: boolean } = {}): Tensor {
    const n = this.numEvents;
    const values = arange(n).reshape([n, ...this.batchShape.map(() => 1)]);
    return expand ? values.expand([n, ...this.batchShape]) : values;
  }
  expand(batchShape: Shape): Categorical {
    const param = this.param.expand([...batchShape, this.numEvents]);
    return new Categorical({ [this.#name]: param, validateArgs: this.validates });
  }
}
const LOWEST = { f64: -Number.MAX_VALUE, f32: -3.4028234663852886e38, f16: -65504, bf16: -3.3895313892515355e38 };

/** Whether there is anything to do with a category, shared by those that are made of one. */
abstract class OfCategorical extends Distribution {
  protected readonly categorical: Categorical;
  constructor(categorical: Categorical, options: DistributionOptions) {
    super(categorical.batchShape, [categorical.numEvents], options);
    this.categorical = categorical;
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return this.categorical.argConstraints;
  }
  get probs(): Tensor {
    return this.categorical.probs;
  }
  get logits(): Tensor {
    return this.categorical.logits;
  }
}

/** 1 for the outcome that came, else 0. */
export class OneHotCategorical extends OfCategorical {
  constructor(given: Given | Categorical, options: DistributionOptions = {}) {
    const categorical = given instanceof Categorical ? given : new Categorical(given, options);
    super(categorical, given instanceof Categorical ? options : optionsOf(given, options));
  }
  get support(): Constraint {
    return constraints.oneHot;
  }
  override get hasEnumerateSupport(): boolean {
    return true;
  }
  get mean(): Tensor {
    return this.probs;
  }
  override get mode(): Tensor {
    return oneHot(this.categorical.mode, this.eventShape[0]!).to(this.probs.dtype);
  }
  get variance(): Tensor {
    const p = this.probs;
    return p.mul(p.neg().add(1));
  }
  override sample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return oneHot(this.categorical.sample(sampleShape, options), this.eventShape[0]!).to(this.probs.dtype);
  }
  logProb(value: Value): Tensor {
    return this.categorical.logProb(this.value('logProb', value, this.probs).argmax({ dim: -1 }));
  }
  override entropy(): Tensor {
    return this.categorical.entropy();
  }
  override enumerateSupport({ expand = true }: { readonly expand?: boolean } = {}): Tensor {
    const n = this.eventShape[0]!;
    const values = eye(n, { dtype: this.probs.dtype }).reshape([n, ...this.batchShape.map(() => 1), n]);
    return expand ? values.expand([n, ...this.batchShape, n]) : values;
  }
  expand(batchShape: Shape): OneHotCategorical {
    const Same = this.constructor as new (given: Categorical, options: DistributionOptions) => OneHotCategorical;
    return new Same(this.categorical.expand(batchShape), { validateArgs: this.validates });
  }
}

/** The same, whose rsample has the gradient of the probabilities (straight-through). */
export class OneHotCategoricalStraightThrough extends OneHotCategorical {
  override get hasRsample(): boolean {
    return true;
  }
  override rsample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    const p = this.probs;
    return this.sample(sampleShape, options).add(p.sub(p.detach()));
  }
}

/** How often each outcome came in `totalCount` draws (a number). */
export class Multinomial extends OfCategorical {
  readonly totalCount: number;
  constructor(totalCount: number, given: Given | Categorical, options: DistributionOptions = {}) {
    const categorical = given instanceof Categorical ? given : new Categorical(given, options);
    super(categorical, given instanceof Categorical ? options : optionsOf(given, options));
    this.totalCount = checkWhole('Multinomial: totalCount', totalCount);
  }
  get support(): Constraint {
    return constraints.multinomial(this.totalCount);
  }
  get mean(): Tensor {
    return this.probs.mul(this.totalCount);
  }
  get variance(): Tensor {
    const p = this.probs;
    return p.mul(p.neg().add(1)).mul(this.totalCount);
  }
  override sample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    const drawn = this.categorical.sample([this.totalCount, ...sampleShape], options);
    return oneHot(drawn, this.eventShape[0]!).to(this.probs.dtype).sum(0);
  }
  logProb(value: Value): Tensor {
    const [logits, x] = broadcastAll('Multinomial', this.logits, this.value('logProb', value, this.probs));
    const safe = where(x.eq(0).logicalAnd(logits.isneginf()), 0, logits);
    return x.sum(-1).add(1).lgamma().sub(x.add(1).lgamma().sum(-1)).add(safe.mul(x).sum(-1));
  }
  override entropy(): Tensor {
    const n = this.totalCount;
    const counts = new Binomial(n, this.probs, { validateArgs: false });
    const support = counts.enumerateSupport({ expand: false });
    const weights = support.add(1).lgamma(); // 0 for none
    const expected = counts.logProb(support).exp().mul(weights).sum([0, -1]);
    const ways = fullLike(expected, n + 1).lgamma();
    return this.categorical.entropy().mul(n).sub(ways).add(expected);
  }
  expand(batchShape: Shape): Multinomial {
    return new Multinomial(this.totalCount, this.categorical.expand(batchShape), { validateArgs: this.validates });
  }
}
