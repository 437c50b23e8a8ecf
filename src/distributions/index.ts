// tx.distributions: torch.distributions' samples, log probabilities, entropies and divergences.
import '../tensor/index.js'; // side effect: installs the Tensor methods
import { entry } from '../ir/source.js';
import * as categorical from './categorical.js';
import * as compound from './compound.js';
import * as discrete from './discrete.js';
import { Distribution } from './distribution.js';
import * as gamma from './gamma.js';
import * as interval from './interval.js';
import * as location from './location.js';
import * as multivariate from './multivariate-normal.js';
import * as transformed from './transformed.js';

export { Categorical, Multinomial, OneHotCategorical, OneHotCategoricalStraightThrough } from './categorical.js';
export { Independent, MixtureSameFamily, TransformedDistribution } from './compound.js';
export * as constraints from './constraints.js';
export { Bernoulli, Binomial, Geometric, Poisson } from './discrete.js';
export {
  Distribution,
  type DistributionOptions,
  type ProbsOrLogits,
  type SampleOptions,
  setDefaultValidateArgs,
  type Value,
} from './distribution.js';
export { Beta, Chi2, Dirichlet, Gamma, StudentT } from './gamma.js';
export { Exponential, Uniform } from './interval.js';
export { klDivergence, registerKl } from './kl.js';
export { Cauchy, Gumbel, HalfCauchy, HalfNormal, Laplace, Normal, VonMises } from './location.js';
export { MultivariateNormal, type MultivariateNormalOptions } from './multivariate-normal.js';
export {
  ExpRelaxedCategorical,
  LogitRelaxedBernoulli,
  LogNormal,
  RelaxedBernoulli,
  RelaxedOneHotCategorical,
} from './transformed.js';
export * from './transforms.js';

// Nodes and errors made in a method are attributed to the line that calls it.
const METHODS = [
  'sample',
  'rsample',
  'sampleN',
  'logProb',
  'entropy',
  'perplexity',
  'cdf',
  'icdf',
  'enumerateSupport',
  'expand',
];
const modules = [categorical, compound, discrete, gamma, interval, location, multivariate, transformed];
const done = new Set<object>();
for (const each of [Distribution, ...modules.flatMap((m) => Object.values(m))]) {
  if (typeof each !== 'function') continue;
  for (let at = each.prototype; at && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    if (done.has(at)) break;
    done.add(at);
    for (const name of METHODS) {
      const own = Object.getOwnPropertyDescriptor(at, name)?.value;
      if (own) Object.defineProperty(at, name, { value: entry(own), writable: true, configurable: true });
    }
  }
}
