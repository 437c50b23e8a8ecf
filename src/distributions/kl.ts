// klDivergence, by a table of rules: torch's, and those registered by users.
import { ArgumentError } from '../base/errors.js';
import { broadcastShapes, sameShape } from '../base/shape.js';
import { full } from '../tensor/create.js';
import { solveTriangular, where } from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import { Categorical, OneHotCategorical } from './categorical.js';
import { Independent, TransformedDistribution } from './compound.js';
import { Bernoulli, Binomial, Geometric, Poisson } from './discrete.js';
import { type Distribution, sumRightmost } from './distribution.js';
import { Beta, Dirichlet, Gamma } from './gamma.js';
import { Exponential, Uniform } from './interval.js';
import { Cauchy, EULER, Gumbel, HalfNormal, Laplace, Normal } from './location.js';
import { logDiagonal, MultivariateNormal, mahalanobis } from './multivariate-normal.js';

// biome-ignore lint/suspicious/noExplicitAny: constructors differ in their arguments
type Class<D extends Distribution> = abstract new (...args: any[]) => D;
type Rule<P, Q> = (p: P, q: Q) => Tensor;
interface Entry {
  readonly p: Class<Distribution>;
  readonly q: Class<Distribution>;
  readonly rule: Rule<Distribution, Distribution>;
}
const TABLE: Entry[] = [];

/** Registers a rule for two classes, replacing an earlier one. It also applies to subclasses without a rule. */
export function registerKl<P extends Distribution, Q extends Distribution>(
  p: Class<P>,
  q: Class<Q>,
  rule: Rule<P, Q>,
): void {
  TABLE.unshift({ p, q, rule: rule as unknown as Entry['rule'] });
}

/** How many classes lie between an object's and this one; undefined: it is none of it. */
function distance(d: Distribution, of: Class<Distribution>): number | undefined {
  let steps = 0;
  for (let at: object | null = Object.getPrototypeOf(d); at; at = Object.getPrototypeOf(at), steps++)
    if (at === of.prototype) return steps;
  return undefined;
}

/** KL(p || q): the expectation under p of log p - log q. */
export function klDivergence(p: Distribution, q: Distribution): Tensor {
  let best: { readonly rule: Entry['rule']; readonly cost: number } | undefined;
  for (const entry of TABLE) {
    const [a, b] = [distance(p, entry.p), distance(q, entry.q)];
    if (a === undefined || b === undefined) continue;
    if (!best || a + b < best.cost) best = { rule: entry.rule, cost: a + b };
  }
  if (best) return best.rule(p, q);
  throw new ArgumentError(
    `klDivergence: no rule for ${p.constructor.name} and ${q.constructor.name}: add one with registerKl, or use the mean of p.logProb(x) - q.logProb(x) over x = p.rsample([n])`,
  );
}

const INF = Number.POSITIVE_INFINITY;
const kl = registerKl;
/** Where p can have values that q cannot. */
const infinite = (p: Distribution, q: Distribution): Tensor =>
  full(broadcastShapes('klDivergence', p.batchShape, q.batchShape), INF, { dtype: p.mean.dtype });
const xLogX = (x: Tensor): Tensor => x.xlogy(x);

// ---- of one family

kl(Bernoulli, Bernoulli, (p, q) => {
  const [a, b] = [p.probs, q.probs];
  const yes = a.mul(q.logits.neg().softplus().sub(p.logits.neg().softplus()));
  const no = a.neg().add(1).mul(q.logits.softplus().sub(p.logits.softplus()));
  const first = where(a.eq(0), 0, where(b.eq(0), INF, yes));
  return first.add(where(a.eq(1), 0, where(b.eq(1), INF, no)));
});
kl(Beta, Beta, (p, q) => {
  const [a, b, c, d] = [p.concentration1, p.concentration0, q.concentration1, q.concentration0];
  const [n, m] = [a.add(b), c.add(d)];
  const norms = c.lgamma().add(d.lgamma()).add(n.lgamma()).sub(a.lgamma()).sub(b.lgamma()).sub(m.lgamma());
  const slopes = a.sub(c).mul(a.digamma()).add(b.sub(d).mul(b.digamma()));
  return norms.add(slopes).add(m.sub(n).mul(n.digamma()));
});
/** Unlike torch, which reads the counts: NaN where q has more trials than p. */
kl(Binomial, Binomial, (p, q) => {
  const one = p.probs.mul(p.logits.sub(q.logits)).add(p.probs.neg().log1p()).sub(q.probs.neg().log1p());
  const same = p.totalCount.mul(one);
  return where(p.totalCount.gt(q.totalCount), INF, where(p.totalCount.lt(q.totalCount), Number.NaN, same));
});
const categories = (p: Categorical | OneHotCategorical, q: Categorical | OneHotCategorical): Tensor => {
  const each = p.probs.mul(p.logits.sub(q.logits));
  return where(p.probs.eq(0), 0, where(q.probs.eq(0), INF, each)).sum(-1);
};
kl(Categorical, Categorical, categories);
kl(OneHotCategorical, OneHotCategorical, categories);
kl(Cauchy, Cauchy, (p, q) => {
  const away = p.scale.add(q.scale).square().add(p.loc.sub(q.loc).square());
  return away.log().sub(p.scale.mul(q.scale).mul(4).log());
});
kl(Dirichlet, Dirichlet, (p, q) => {
  const [a, b] = [p.concentration, q.concentration];
  const total = a.sum(-1);
  const norms = total.lgamma().sub(b.sum(-1).lgamma()).sub(a.lgamma().sub(b.lgamma()).sum(-1));
  return norms.add(
    a
      .sub(b)
      .mul(a.digamma().sub(total.digamma().unsqueeze(-1)))
      .sum(-1),
  );
});
kl(Exponential, Exponential, (p, q) => {
  const ratio = q.rate.div(p.rate);
  return ratio.sub(ratio.log()).sub(1);
});
kl(Gamma, Gamma, (p, q) => {
  const [a, b] = [p.concentration, q.concentration];
  const norms = b.mul(p.rate.div(q.rate).log()).add(b.lgamma()).sub(a.lgamma());
  return norms.add(a.sub(b).mul(a.digamma())).add(q.rate.sub(p.rate).mul(a.div(p.rate)));
});
kl(Geometric, Geometric, (p, q) => p.entropy().neg().sub(q.probs.neg().log1p().div(p.probs)).sub(q.logits));
kl(Gumbel, Gumbel, (p, q) => {
  const [ratio, to, from] = [p.scale.div(q.scale), q.loc.div(q.scale), p.loc.div(q.scale)];
  const grown = to.add(ratio.add(1).lgamma()).sub(from).exp();
  return from
    .sub(to)
    .sub(ratio.log())
    .add(ratio.mul(EULER))
    .add(grown)
    .sub(1 + EULER);
});
const normals = (p: Normal, q: Normal): Tensor => {
  const ratio = p.scale.div(q.scale).square();
  return ratio.add(p.loc.sub(q.loc).div(q.scale).square()).sub(1).sub(ratio.log()).mul(0.5);
};
kl(HalfNormal, HalfNormal, (p, q) => normals(p.baseDist, q.baseDist));
kl(Normal, Normal, normals);
kl(Laplace, Laplace, (p, q) => {
  const ratio = p.scale.div(q.scale);
  const away = p.loc.sub(q.loc).abs();
  return away
    .div(q.scale)
    .sub(ratio.log())
    .add(ratio.mul(away.div(p.scale).neg().exp()))
    .sub(1);
});
kl(MultivariateNormal, MultivariateNormal, (p, q) => {
  if (!sameShape(p.eventShape, q.eventShape))
    throw new ArgumentError(`klDivergence: event shapes ${p} and ${q} differ`);
  const [a, b] = [p.scaleTril, q.scaleTril];
  const n = p.eventShape[0]!;
  const batch = broadcastShapes('klDivergence', p.batchShape, q.batchShape);
  const whitened = solveTriangular(b.expand([...batch, n, n]), a.expand([...batch, n, n]), { upper: false });
  const spread = whitened
    .square()
    .sum([-2, -1])
    .add(mahalanobis(b, q.loc.sub(p.loc)))
    .sub(n);
  return logDiagonal(b).sub(logDiagonal(a)).add(spread.mul(0.5));
});
kl(Poisson, Poisson, (p, q) => p.rate.mul(p.rate.log().sub(q.rate.log())).sub(p.rate.sub(q.rate)));
kl(Uniform, Uniform, (p, q) => {
  const ratio = q.high.sub(q.low).div(p.high.sub(p.low)).log();
  return where(q.low.gt(p.low).logicalOr(q.high.lt(p.high)), INF, ratio);
});

// ---- of those made of others

kl(Independent, Independent, (p, q) => {
  if (p.reinterpretedBatchNdims !== q.reinterpretedBatchNdims)
    throw new ArgumentError(
      `klDivergence: reinterpretedBatchNdims differ: ${p.reinterpretedBatchNdims} and ${q.reinterpretedBatchNdims}`,
    );
  return sumRightmost(klDivergence(p.baseDist, q.baseDist), p.reinterpretedBatchNdims);
});
kl(TransformedDistribution, TransformedDistribution, (p, q) => {
  const isSame =
    p.transforms.length === q.transforms.length && p.transforms.every((t, i) => t.equals(q.transforms[i]!));
  if (!isSame || !sameShape(p.eventShape, q.eventShape))
    throw new ArgumentError('klDivergence: the transforms or event shapes of these TransformedDistributions differ');
  return klDivergence(p.baseDist, q.baseDist);
});

// ---- of two families

kl(Bernoulli, Poisson, (p, q) => p.entropy().neg().sub(p.probs.mul(q.rate.log()).sub(q.rate)));
kl(Beta, Exponential, (p, q) => q.rate.mul(p.mean).sub(q.rate.log()).sub(p.entropy()));
kl(Beta, Gamma, (p, q) => {
  const total = p.concentration1.add(p.concentration0);
  const norm = q.concentration.lgamma().sub(q.concentration.mul(q.rate.log()));
  const log = q.concentration.sub(1).mul(p.concentration1.digamma().sub(total.digamma()));
  return norm.sub(p.entropy()).sub(log).add(q.rate.mul(p.mean));
});
kl(Beta, Normal, (p, q) => {
  const [mean, variance] = [p.mean, q.scale.square()];
  const second = p.variance.add(mean.square()).mul(0.5).sub(q.loc.mul(mean)).add(q.loc.square().mul(0.5));
  return variance
    .mul(2 * Math.PI)
    .log()
    .mul(0.5)
    .sub(p.entropy())
    .add(second.div(variance));
});
kl(Beta, Uniform, (p, q) => {
  const inside = q.high.sub(q.low).log().sub(p.entropy());
  return where(q.low.gt(0).logicalOr(q.high.lt(1)), INF, inside);
});
kl(Exponential, Gamma, (p, q) => {
  const ratio = q.rate.div(p.rate);
  const a = q.concentration;
  return ratio
    .sub(a.mul(ratio.log()))
    .add(a.lgamma())
    .add(a.mul(EULER))
    .sub(1 + EULER);
});
kl(Exponential, Gumbel, (p, q) => {
  const [product, place] = [p.rate.mul(q.scale), q.loc.div(q.scale)];
  const grown = place.exp().mul(product).div(product.add(1));
  return product.log().sub(1).sub(place).add(grown).add(product.reciprocal());
});
kl(Exponential, Normal, (p, q) => {
  const [variance, square] = [q.scale.square(), p.rate.square()];
  const second = square.reciprocal().sub(q.loc.div(p.rate)).add(q.loc.square().mul(0.5));
  return square
    .mul(variance)
    .mul(2 * Math.PI)
    .log()
    .mul(0.5)
    .sub(1)
    .add(second.div(variance));
});
kl(Gamma, Exponential, (p, q) => q.rate.mul(p.mean).sub(q.rate.log()).sub(p.entropy()));
kl(Gamma, Gumbel, (p, q) => {
  const a = p.concentration;
  const [product, place] = [p.rate.mul(q.scale), q.loc.div(q.scale)];
  const own = a.sub(1).mul(a.digamma()).sub(a.lgamma()).sub(a);
  const grown = place.exp().mul(product.reciprocal().add(1).pow(a.neg()));
  return own.add(product.log()).add(a.div(product)).add(grown).sub(place);
});
kl(Gamma, Normal, (p, q) => {
  const a = p.concentration;
  const [variance, square] = [q.scale.square(), p.rate.square()];
  const own = square
    .mul(variance)
    .mul(2 * Math.PI)
    .log()
    .mul(0.5)
    .sub(a)
    .sub(a.lgamma());
  const second = a.square().add(a).mul(0.5).div(square).sub(q.loc.mul(p.mean)).add(q.loc.square().mul(0.5));
  return own.add(a.sub(1).mul(a.digamma())).add(second.div(variance));
});
kl(Gumbel, Normal, (p, q) => {
  const ratio = p.scale.div(q.scale);
  const away = p.mean.sub(q.loc).div(q.scale).square().mul(0.5);
  const spread = ratio
    .mul(Math.PI / 2)
    .square()
    .div(3);
  return spread
    .add(away)
    .sub(ratio.div(Math.sqrt(2 * Math.PI)).log())
    .sub(EULER + 1);
});
kl(Laplace, Normal, (p, q) => {
  const variance = q.scale.square();
  const ratio = p.scale.square().div(variance);
  const away = p.loc.sub(q.loc).square().mul(0.5).div(variance);
  return ratio
    .sub(
      ratio
        .mul(2 / Math.PI)
        .log()
        .mul(0.5),
    )
    .add(away)
    .sub(1);
});
kl(Normal, Gumbel, (p, q) => {
  const [mean, ratio, place] = [p.loc.div(q.scale), p.scale.div(q.scale).square(), q.loc.div(q.scale)];
  const grown = ratio.mul(0.5).sub(mean).add(place).exp();
  return mean
    .sub(place)
    .sub(ratio.log().mul(0.5))
    .add(grown)
    .sub(0.5 * (1 + Math.log(2 * Math.PI)));
});
kl(Normal, Laplace, (p, q) => {
  const away = p.loc.sub(q.loc);
  const scaled = away.div(p.scale);
  const near = scaled
    .square()
    .mul(-0.5)
    .exp()
    .mul(p.scale)
    .mul(Math.sqrt(2 / Math.PI));
  const far = away.mul(scaled.mul(Math.SQRT1_2).erf());
  return near
    .add(far)
    .div(q.scale)
    .sub(p.scale.div(q.scale).log())
    .sub(0.5 * (1 + Math.log(0.5 * Math.PI)));
});
kl(Uniform, Beta, (p, q) => {
  const [a, b, width] = [q.concentration1, q.concentration0, p.high.sub(p.low)];
  const below = xLogX(p.high).sub(xLogX(p.low)).sub(width);
  const above = xLogX(p.high.neg().add(1))
    .sub(xLogX(p.low.neg().add(1)))
    .add(width);
  const logs = b.sub(1).mul(above).sub(a.sub(1).mul(below)).div(width);
  const inside = logs.add(a.lgamma()).add(b.lgamma()).sub(a.add(b).lgamma()).sub(width.log());
  return where(p.high.gt(1).logicalOr(p.low.lt(0)), INF, inside);
});
kl(Uniform, Exponential, (p, q) => {
  const inside = q.rate.mul(p.mean).sub(p.high.sub(p.low).mul(q.rate).log());
  return where(p.low.lt(0), INF, inside);
});
kl(Uniform, Gamma, (p, q) => {
  const [a, width] = [q.concentration, p.high.sub(p.low)];
  const logs = a
    .neg()
    .add(1)
    .mul(xLogX(p.high).sub(xLogX(p.low)).sub(width))
    .div(width);
  const inside = a.lgamma().sub(a.mul(q.rate.log())).sub(width.log()).add(logs).add(q.rate.mul(p.mean));
  return where(p.low.lt(0), INF, inside);
});
kl(Uniform, Gumbel, (p, q) => {
  const part = q.scale.div(p.high.sub(p.low));
  const [high, low] = [p.high.sub(q.loc).div(q.scale), p.low.sub(q.loc).div(q.scale)];
  return part
    .log()
    .add(high.add(low).mul(0.5))
    .sub(part.mul(high.neg().exp().sub(low.neg().exp())));
});
kl(Uniform, Normal, (p, q) => {
  const width = p.high.sub(p.low);
  const away = width.square().div(12).add(p.mean.sub(q.loc).square());
  return q.scale
    .div(width)
    .mul(Math.sqrt(2 * Math.PI))
    .log()
    .add(away.mul(0.5).div(q.scale.square()));
});
for (const q of [Beta, Uniform] as const)
  for (const p of [Exponential, Gamma] as const) kl<Distribution, Distribution>(p, q, infinite);
for (const p of [Gumbel, Laplace, Normal] as const)
  for (const q of [Beta, Exponential, Gamma, Uniform] as const) kl<Distribution, Distribution>(p, q, infinite);
for (const q of [Bernoulli, Binomial] as const) kl<Distribution, Distribution>(Poisson, q, infinite);
