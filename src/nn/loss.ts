// Losses as modules. Tensors among their options (the weights of classes) are buffers, as in torch.
import * as f from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type * as options from '../tensor/types.js';
import { layer } from './layer.js';
import type { Lengths } from './packed.js';
import { type TripletDistance, tripletMarginWithDistanceLoss } from './triplet.js';

const MEAN = { reduction: 'mean' } as const;
const { weight, none } = { weight: undefined, none: [] as const };

/** The mean of squared differences. */
export class MSELoss extends layer(none, MEAN, (o: options.LossOptions, x: Tensor, y: Tensor) => f.mseLoss(x, y, o)) {}
/** The mean of absolute differences. */
export class L1Loss extends layer(none, MEAN, (o: options.LossOptions, x: Tensor, y: Tensor) => f.l1Loss(x, y, o)) {}
/** Squared for differences below beta, otherwise absolute. */
export class SmoothL1Loss extends layer(
  none,
  { ...MEAN, beta: 1 },
  (o: options.LossOptions & { readonly beta: number }, x: Tensor, y: Tensor) => f.smoothL1Loss(x, y, o),
) {}
/** Squared for differences below delta, otherwise delta times the absolute difference. */
export class HuberLoss extends layer(
  none,
  { ...MEAN, delta: 1 },
  (o: options.LossOptions & { readonly delta: number }, x: Tensor, y: Tensor) => f.huberLoss(x, y, o),
) {}
/** The cross entropy of logits [N, C, ...] and classes [N, ...] or the probability of each class. */
export class CrossEntropyLoss extends layer(
  ['weight'],
  { weight, ignoreIndex: undefined, ...MEAN, labelSmoothing: 0 },
  (o: options.CrossEntropyOptions & { readonly labelSmoothing: number }, x: Tensor, y: Tensor) =>
    f.crossEntropy(x, y, o),
) {}
/** The negative log likelihood of classes [N, ...], given log probabilities [N, C, ...]. */
export class NLLLoss extends layer(
  ['weight'],
  { weight, ignoreIndex: undefined, ...MEAN },
  (o: options.CrossEntropyOptions, x: Tensor, y: Tensor) => f.nllLoss(x, y, o),
) {}
/** The binary cross entropy of probabilities and targets from 0 to 1. For logits use BCEWithLogitsLoss. */
export class BCELoss extends layer(
  ['weight'],
  { weight, ...MEAN },
  (o: options.BinaryCrossEntropyOptions, x: Tensor, y: Tensor) => f.binaryCrossEntropy(x, y, o),
) {}
/** The binary cross entropy of logits and targets from 0 to 1: a sigmoid and BCELoss, without overflow. */
export class BCEWithLogitsLoss extends layer(
  ['weight'],
  { weight, ...MEAN, posWeight: undefined },
  (o: options.BinaryCrossEntropyOptions & { readonly posWeight?: Tensor }, x: Tensor, y: Tensor) =>
    f.binaryCrossEntropyWithLogits(x, y, o),
) {}
/** The Kullback-Leibler divergence of log probabilities from target probabilities. */
export class KLDivLoss extends layer(
  none,
  { ...MEAN, logTarget: false },
  (o: options.KlDivOptions, x: Tensor, y: Tensor) => f.klDiv(x, y, o),
) {}
/** The negative log likelihood of Poisson counts, given their rate or its logarithm. */
export class PoissonNLLLoss extends layer(
  ['logInput', 'full'],
  { logInput: true, full: false, eps: 1e-8, ...MEAN },
  (o: options.PoissonNllLossOptions, x: Tensor, y: Tensor) => f.poissonNllLoss(x, y, o),
) {}
/** The negative log likelihood of values, given means and variances of normal distributions. */
export class GaussianNLLLoss extends layer(
  none,
  { full: false, eps: 1e-6, ...MEAN },
  (o: options.GaussianNllLossOptions, x: Tensor, y: Tensor, variance: Tensor | number) =>
    f.gaussianNllLoss(x, y, variance, o),
) {}
/** Distances with targets 1 (similar) and -1 (dissimilar): the latter should exceed the margin. */
export class HingeEmbeddingLoss extends layer(
  ['margin'],
  { margin: 1, ...MEAN },
  (o: options.MarginLossOptions, x: Tensor, y: Tensor) => f.hingeEmbeddingLoss(x, y, o),
) {}
/** log(1 + exp(-y x)) for labels 1 and -1. */
export class SoftMarginLoss extends layer(none, MEAN, (o: options.LossOptions, x: Tensor, y: Tensor) =>
  f.softMarginLoss(x, y, o),
) {}
/** Ranks two inputs: with target 1 the first should be greater, with -1 the second. */
export class MarginRankingLoss extends layer(
  ['margin'],
  { margin: 0, ...MEAN },
  (o: options.MarginLossOptions, x1: Tensor, x2: Tensor, y: Tensor) => f.marginRankingLoss(x1, x2, y, o),
) {}
/** The cosine of the angle of two vectors, with targets 1 (similar) and -1 (dissimilar). */
export class CosineEmbeddingLoss extends layer(
  ['margin'],
  { margin: 0, ...MEAN },
  (o: options.MarginLossOptions, x1: Tensor, x2: Tensor, y: Tensor) => f.cosineEmbeddingLoss(x1, x2, y, o),
) {}
/** An anchor should be nearer to the positive than to the negative, by the margin. */
export class TripletMarginLoss extends layer(
  ['margin', 'p', 'eps', 'swap'],
  { margin: 1, p: 2, eps: 1e-6, swap: false, ...MEAN },
  (o: options.TripletMarginLossOptions, anchor: Tensor, positive: Tensor, negative: Tensor) =>
    f.tripletMarginLoss(anchor, positive, negative, o),
) {}

interface Ctc extends options.LossOptions {
  readonly blank: number;
  readonly zeroInfinity: boolean;
}
/**
 * Connectionist temporal classification (Graves et al., 2006): log probabilities [T, N, C] and unaligned labels, as rows
 * [N, S] or concatenated. Lengths are numbers or tensors.
 */
export class CTCLoss extends layer(
  ['blank', 'reduction', 'zeroInfinity'],
  { blank: 0, ...MEAN, zeroInfinity: false },
  (o: Ctc, logProbs: Tensor, targets: Tensor, inputLengths: Lengths, targetLengths: Lengths) =>
    f.ctcLoss(logProbs, targets, inputLengths, targetLengths, o),
) {}

interface MultiMargin extends options.LossOptions {
  readonly p: number;
  readonly margin: number;
  readonly weight?: Tensor;
}
/** Scores [N, C] and a class for each row: its score should exceed all others by the margin. */
export class MultiMarginLoss extends layer(
  ['p', 'margin', 'weight'],
  { p: 1, margin: 1, weight, ...MEAN },
  (o: MultiMargin, x: Tensor, y: Tensor) => f.multiMarginLoss(x, y, o),
) {}
/** Scores [N, C] and several classes for each row, -1 after the last: their scores should exceed all others by 1. */
export class MultiLabelMarginLoss extends layer(none, MEAN, (o: options.LossOptions, x: Tensor, y: Tensor) =>
  f.multilabelMarginLoss(x, y, o),
) {}
/** Scores [N, C] and 0 or 1 for each class: the mean over classes of binary cross entropies. */
export class MultiLabelSoftMarginLoss extends layer(
  ['weight'],
  { weight, ...MEAN },
  (o: options.BinaryCrossEntropyOptions, x: Tensor, y: Tensor) => f.multilabelSoftMarginLoss(x, y, o),
) {}
/** An anchor should be nearer to the positive than to the negative, by the margin, with a custom distance function. */
export class TripletMarginWithDistanceLoss extends layer(
  none,
  { distanceFunction: undefined, margin: 1, swap: false, ...MEAN },
  (options: TripletDistance, anchor: Tensor, positive: Tensor, negative: Tensor): Tensor =>
    tripletMarginWithDistanceLoss(anchor, positive, negative, options),
) {}

// ---- similarity and distance, which are not reduced

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
  ({ p, eps, keepdim }: Distance, x1: Tensor, x2: Tensor) => f.pairwiseDistance(x1, x2, { p, eps, keepdim }),
) {}
