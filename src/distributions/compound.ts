// Distributions built from others: Independent, TransformedDistribution, MixtureSameFamily.
import { checkWhole } from '../base/check.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { broadcastShapes, type Shape, showShape } from '../base/shape.js';
import { noGrad } from '../tensor/autograd.js';
import type { Tensor } from '../tensor/tensor.js';
import type { Categorical } from './categorical.js';
import { type Constraint, independent } from './constraints.js';
import {
  Distribution,
  type DistributionOptions,
  type SampleOptions,
  sumRightmost,
  tensorLike,
  type Value,
} from './distribution.js';
import { ComposeTransform, type Transform } from './transforms.js';

/** Reinterprets the last batch dimensions of a distribution as event dimensions: their log probabilities are summed. */
export class Independent<Base extends Distribution = Distribution> extends Distribution {
  readonly baseDist: Base;
  readonly reinterpretedBatchNdims: number;
  constructor(base: Base, reinterpretedBatchNdims: number, options: DistributionOptions = {}) {
    checkWhole('Independent: reinterpretedBatchNdims', reinterpretedBatchNdims);
    const cut = base.batchShape.length - reinterpretedBatchNdims;
    if (cut < 0)
      throw new ShapeError(
        `Independent: reinterpretedBatchNdims is ${reinterpretedBatchNdims}, but the batch shape ${showShape(base.batchShape)}`,
      );
    super(base.batchShape.slice(0, cut), [...base.batchShape.slice(cut), ...base.eventShape], options);
    this.baseDist = base;
    this.reinterpretedBatchNdims = reinterpretedBatchNdims;
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return {};
  }
  get support(): Constraint {
    return independent(this.baseDist.support, this.reinterpretedBatchNdims);
  }
  override get hasRsample(): boolean {
    return this.baseDist.hasRsample;
  }
  override get hasEnumerateSupport(): boolean {
    return this.reinterpretedBatchNdims === 0 && this.baseDist.hasEnumerateSupport;
  }
  get mean(): Tensor {
    return this.baseDist.mean;
  }
  override get mode(): Tensor {
    return this.baseDist.mode;
  }
  get variance(): Tensor {
    return this.baseDist.variance;
  }
  override sample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return this.baseDist.sample(sampleShape, options);
  }
  override rsample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return this.baseDist.rsample(sampleShape, options);
  }
  logProb(value: Value): Tensor {
    return sumRightmost(this.baseDist.logProb(value), this.reinterpretedBatchNdims);
  }
  override entropy(): Tensor {
    return sumRightmost(this.baseDist.entropy(), this.reinterpretedBatchNdims);
  }
  override enumerateSupport(options: { readonly expand?: boolean } = {}): Tensor {
    if (this.reinterpretedBatchNdims)
      throw this.missing('enumerateSupport', 'products of distributions do not support it');
    return this.baseDist.enumerateSupport(options);
  }
  expand(batchShape: Shape): Independent {
    const base = this.baseDist.expand([...batchShape, ...this.eventShape.slice(0, this.reinterpretedBatchNdims)]);
    return new Independent(base, this.reinterpretedBatchNdims, { validateArgs: this.validates });
  }
}

/** Applies transforms, one after the other, to draws of a base distribution. */
export class TransformedDistribution extends Distribution {
  readonly baseDist: Distribution;
  readonly transforms: readonly Transform[];
  constructor(base: Distribution, transforms: Transform | readonly Transform[], options: DistributionOptions = {}) {
    const list = Array.isArray(transforms) ? (transforms as readonly Transform[]) : [transforms as Transform];
    const whole = new ComposeTransform(list);
    const [domain, codomain] = [whole.domain.eventDim, whole.codomain.eventDim];
    const shape = [...base.batchShape, ...base.eventShape];
    if (shape.length < domain)
      throw new ShapeError(
        `TransformedDistribution: the transforms take events of ${domain} dimensions, the base distribution has the shape ${showShape(shape)}`,
      );
    const forward = whole.forwardShape(shape);
    const needed = whole.inverseShape(forward);
    const expanded =
      String(needed) === String(shape) ? base : base.expand(needed.slice(0, needed.length - base.eventShape.length));
    const joined = domain - base.eventShape.length;
    const eventDim = Math.max(codomain, base.eventShape.length + codomain - domain);
    super(forward.slice(0, forward.length - eventDim), forward.slice(forward.length - eventDim), options);
    this.baseDist = joined > 0 ? new Independent(expanded, joined) : expanded;
    this.transforms = list;
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return {};
  }
  get support(): Constraint {
    const last = this.transforms.at(-1);
    if (!last) return this.baseDist.support;
    return independent(last.codomain, Math.max(0, this.eventShape.length - last.codomain.eventDim));
  }
  override get hasRsample(): boolean {
    return this.baseDist.hasRsample;
  }
  get mean(): Tensor {
    throw this.missing('mean', 'it has no closed form for transforms: use the mean of samples');
  }
  get variance(): Tensor {
    throw this.missing('variance', 'it has no closed form for transforms: use the variance of samples');
  }
  #forward(x: Tensor): Tensor {
    return this.transforms.reduce((at, t) => t.forward(at), x);
  }
  override sample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return noGrad(() => this.#forward(this.baseDist.sample(sampleShape, options)));
  }
  override rsample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    return this.#forward(this.baseDist.rsample(sampleShape, options));
  }
  /** The dtype that a number is taken in. */
  protected get like(): Tensor | undefined {
    return undefined;
  }
  logProb(value: Value): Tensor {
    let y = this.value('logProb', value, this.like as Tensor);
    let events = this.eventShape.length;
    let log: Tensor | undefined;
    for (const t of [...this.transforms].reverse()) {
      const x = t.inverse(y);
      events += t.domain.eventDim - t.codomain.eventDim;
      const part = sumRightmost(t.logAbsDetJacobian(x, y), events - t.domain.eventDim);
      log = log ? log.add(part) : part;
      y = x;
    }
    const base = sumRightmost(this.baseDist.logProb(y), events - this.baseDist.eventShape.length);
    return log ? base.sub(log) : base;
  }
  /** Of a probability of the base distribution: decreasing transforms turn it around. */
  #turned(p: Tensor, op: string): Tensor {
    const { sign } = new ComposeTransform(this.transforms);
    if (sign === undefined) throw this.missing(op, 'its transforms are not monotone');
    if (sign === 1) return p;
    return p.sub(0.5).mul(sign).add(0.5);
  }
  override cdf(value: Value): Tensor {
    const y = tensorLike(`${this.constructor.name}.cdf: value`, value, this.like);
    const x = this.transforms.reduceRight((at, t) => t.inverse(at), y);
    return this.#turned(this.baseDist.cdf(x), 'cdf');
  }
  override icdf(probability: Value): Tensor {
    const p = tensorLike(`${this.constructor.name}.icdf: probability`, probability, this.like);
    return this.#forward(this.baseDist.icdf(this.#turned(p, 'icdf')));
  }
  expand(batchShape: Shape): TransformedDistribution {
    const shape = this.transforms.reduceRight((s, t) => t.inverseShape(s), [
      ...batchShape,
      ...this.eventShape,
    ] as Shape);
    const base = this.baseDist.expand(shape.slice(0, shape.length - this.baseDist.eventShape.length));
    return new TransformedDistribution(base, this.transforms, { validateArgs: this.validates });
  }
}

/** A mixture of distributions of one family: a Categorical chooses along the last batch dimension of the component. */
export class MixtureSameFamily extends Distribution {
  readonly mixtureDistribution: Categorical;
  readonly componentDistribution: Distribution;
  constructor(mixture: Categorical, component: Distribution, options: DistributionOptions = {}) {
    const [count, own] = [mixture.numEvents, component.batchShape.at(-1)];
    if (count !== own)
      throw new ArgumentError(
        `MixtureSameFamily: ${count} probabilities for components of batch shape ${showShape(component.batchShape)}: its last size must be ${count}`,
      );
    const batch = component.batchShape.slice(0, -1);
    broadcastShapes('MixtureSameFamily', mixture.batchShape, batch);
    super(batch, component.eventShape, options);
    this.mixtureDistribution = mixture;
    this.componentDistribution = component;
  }
  get argConstraints(): Readonly<Record<string, Constraint>> {
    return {};
  }
  get support(): Constraint {
    return this.componentDistribution.support;
  }
  /** Probabilities or others of [..., k], to be multiplied with what components have. */
  #weights(): Tensor {
    const { probs } = this.mixtureDistribution;
    return probs.reshape([...probs.shape, ...this.eventShape.map(() => 1)]);
  }
  get #dim(): number {
    return -1 - this.eventShape.length;
  }
  get mean(): Tensor {
    return this.#weights().mul(this.componentDistribution.mean).sum(this.#dim);
  }
  get variance(): Tensor {
    const weights = this.#weights();
    const within = weights.mul(this.componentDistribution.variance).sum(this.#dim);
    const away = this.componentDistribution.mean.sub(this.mean.unsqueeze(this.#dim));
    return within.add(weights.mul(away.square()).sum(this.#dim));
  }
  #padded(op: string, value: Value): Tensor {
    return this.value(op, value, this.mixtureDistribution.param).unsqueeze(this.#dim);
  }
  override cdf(value: Value): Tensor {
    return this.componentDistribution.cdf(this.#padded('cdf', value)).mul(this.mixtureDistribution.probs).sum(-1);
  }
  logProb(value: Value): Tensor {
    const log = this.componentDistribution.logProb(this.#padded('logProb', value));
    return log.add(this.mixtureDistribution.logits.logSoftmax(-1)).logsumexp({ dim: -1 });
  }
  override sample(sampleShape: Shape = [], options: SampleOptions = {}): Tensor {
    const shape = [...sampleShape, ...this.batchShape];
    const which = this.mixtureDistribution.expand(this.batchShape).sample(sampleShape, options);
    const drawn = this.componentDistribution.sample(sampleShape, options);
    const index = which
      .reshape([...shape, 1, ...this.eventShape.map(() => 1)])
      .expand([...shape, 1, ...this.eventShape]);
    return drawn.gather(shape.length, index).squeeze({ dim: shape.length });
  }
  expand(batchShape: Shape): MixtureSameFamily {
    const component = this.componentDistribution.expand([...batchShape, this.mixtureDistribution.numEvents]);
    return new MixtureSameFamily(this.mixtureDistribution.expand(batchShape), component, {
      validateArgs: this.validates,
    });
  }
}
