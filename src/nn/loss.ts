// Losses as modules. Tensors among their options (the weights of classes) are buffers, as in torch.
import * as f from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type * as options from '../tensor/types.js';
import { layer } from './layer.js';

const MEAN = { reduction: 'mean' } as const;
const { weight, none } = { weight: undefined, none: [] as const };

/** The mean of squared differences. */
export class MSELoss extends layer(none, MEAN, (o: options.LossOptions, x: Tensor, y: Tensor) => f.mseLoss(x, y, o)) {}
/** The mean of absolute differences. */
export class L1Loss extends layer(none, MEAN, (o: options.LossOptions, x: Tensor, y: Tensor) => f.l1Loss(x, y, o)) {}
/** Squared where the difference is below beta, else absolute. */
export class SmoothL1Loss extends layer(
  none,
  { ...MEAN, beta: 1 },
  (o: options.LossOptions & { readonly beta: number }, x: Tensor, y: Tensor) => f.smoothL1Loss(x, y, o),
) {}
/** Squared where the difference is below delta, else delta times the absolute one. */
export class HuberLoss extends layer(
  none,
  { ...MEAN, delta: 1 },
  (o: options.LossOptions & { readonly delta: number }, x: Tensor, y: Tensor) => f.huberLoss(x, y, o),
) {}
/** Logits [N, C, ...] against classes [N, ...] or the probability of each: -log softmax. */
export class CrossEntropyLoss extends layer(
  ['weight'],
  { weight, ignoreIndex: undefined, ...MEAN, labelSmoothing: 0 },
  (o: options.CrossEntropyOptions & { readonly labelSmoothing: number }, x: Tensor, y: Tensor) =>
    f.crossEntropy(x, y, o),
) {}
/** Logarithms of probabilities [N, C, ...] against classes [N, ...]. */
export class NLLLoss extends layer(
  ['weight'],
  { weight, ignoreIndex: undefined, ...MEAN },
  (o: options.CrossEntropyOptions, x: Tensor, y: Tensor) => f.nllLoss(x, y, o),
) {}
/** Probabilities against 0 and 1; of logits use BCEWithLogitsLoss. */
export class BCELoss extends layer(
  ['weight'],
  { weight, ...MEAN },
  (o: options.BinaryCrossEntropyOptions, x: Tensor, y: Tensor) => f.binaryCrossEntropy(x, y, o),
) {}
/** Logits against 0 and 1: a sigmoid and BCELoss, without overflow. */
export class BCEWithLogitsLoss extends layer(
  ['weight'],
  { weight, ...MEAN, posWeight: undefined },
  (o: options.BinaryCrossEntropyOptions & { readonly posWeight?: Tensor }, x: Tensor, y: Tensor) =>
    f.binaryCrossEntropyWithLogits(x, y, o),
) {}
/** The Kullback-Leibler divergence of logarithms of probabilities from a target. */
export class KLDivLoss extends layer(
  none,
  { ...MEAN, logTarget: false },
  (o: options.KlDivOptions, x: Tensor, y: Tensor) => f.klDiv(x, y, o),
) {}
/** Counts that are Poisson distributed, against their rate or its logarithm. */
export class PoissonNLLLoss extends layer(
  ['logInput', 'full'],
  { logInput: true, full: false, eps: 1e-8, ...MEAN },
  (o: options.PoissonNllLossOptions, x: Tensor, y: Tensor) => f.poissonNllLoss(x, y, o),
) {}
/** Means and variances of normal distributions against values. */
export class GaussianNLLLoss extends layer(
  none,
  { full: false, eps: 1e-6, ...MEAN },
  (o: options.GaussianNllLossOptions, x: Tensor, y: Tensor, variance: Tensor | number) =>
    f.gaussianNllLoss(x, y, variance, o),
) {}
/** Distances against 1 (alike) and -1 (not): the latter should exceed the margin. */
export class HingeEmbeddingLoss extends layer(
  ['margin'],
  { margin: 1, ...MEAN },
  (o: options.MarginLossOptions, x: Tensor, y: Tensor) => f.hingeEmbeddingLoss(x, y, o),
) {}
/** log(1 + exp(-y x)) for labels 1 and -1. */
export class SoftMarginLoss extends layer(none, MEAN, (o: options.LossOptions, x: Tensor, y: Tensor) =>
  f.softMarginLoss(x, y, o),
) {}
/** Which of two is to be the greater: 1 the first, -1 the second. */
export class MarginRankingLoss extends layer(
  ['margin'],
  { margin: 0, ...MEAN },
  (o: options.MarginLossOptions, x1: Tensor, x2: Tensor, y: Tensor) => f.marginRankingLoss(x1, x2, y, o),
) {}
/** The angle of two vectors against 1 (alike) and -1 (not). */
export class CosineEmbeddingLoss extends layer(
  ['margin'],
  { margin: 0, ...MEAN },
  (o: options.MarginLossOptions, x1: Tensor, x2: Tensor, y: Tensor) => f.cosineEmbeddingLoss(x1, x2, y, o),
) {}
/** An anchor is to be nearer to the positive than to the negative, by the margin. */
export class TripletMarginLoss extends layer(
  ['margin', 'p', 'eps', 'swap'],
  { margin: 1, p: 2, eps: 1e-6, swap: false, ...MEAN },
  (o: options.TripletMarginLossOptions, anchor: Tensor, positive: Tensor, negative: Tensor) =>
    f.tripletMarginLoss(anchor, positive, negative, o),
) {}

// ---- likeness and distance, which are not reduced

/** The cosine of the angle between two tensors along a dimension. */
export class CosineSimilarity extends layer(
  ['dim', 'eps'],
  { dim: 1, eps: 1e-8 },
  (o: options.CosineSimilarityOptions, x1: Tensor, x2: Tensor) => f.cosineSimilarity(x1, x2, o),
) {}
interface Distance {
  readonly p: number;
  readonly eps: number;
  readonly keepdim: boolean;
}
/** The p-norm of the differences of two tensors along the last dimension. */
export class PairwiseDistance extends layer(
  ['p', 'eps', 'keepdim'],
  { p: 2, eps: 1e-6, keepdim: false },
  ({ p, eps, keepdim }: Distance, x1: Tensor, x2: Tensor) => f.vectorNorm(x1.sub(x2).add(eps), { p, dim: -1, keepdim }),
) {}
