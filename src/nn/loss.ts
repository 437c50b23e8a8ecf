// Losses as modules. Tensors among their options (the weights of classes) are buffers, as in torch.
import * as f from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type * as options from '../tensor/types.js';
import { layer } from './layer.js';

const MEAN = { reduction: 'mean' } as const;
const { weight, none } = { weight: undefined, none: [] as const };

export class MSELoss extends layer(none, MEAN, (o: options.LossOptions, x: Tensor, y: Tensor) => f.mseLoss(x, y, o)) {}
export class L1Loss extends layer(none, MEAN, (o: options.LossOptions, x: Tensor, y: Tensor) => f.l1Loss(x, y, o)) {}
export class SmoothL1Loss extends layer(
  none,
  { ...MEAN, beta: 1 },
  (o: options.LossOptions & { readonly beta: number }, x: Tensor, y: Tensor) => f.smoothL1Loss(x, y, o),
) {}
export class HuberLoss extends layer(
  none,
  { ...MEAN, delta: 1 },
  (o: options.LossOptions & { readonly delta: number }, x: Tensor, y: Tensor) => f.huberLoss(x, y, o),
) {}
export class CrossEntropyLoss extends layer(
  ['weight'],
  { weight, ignoreIndex: undefined, ...MEAN, labelSmoothing: 0 },
  (o: options.CrossEntropyOptions & { readonly labelSmoothing: number }, x: Tensor, y: Tensor) =>
    f.crossEntropy(x, y, o),
) {}
export class NLLLoss extends layer(
  ['weight'],
  { weight, ignoreIndex: undefined, ...MEAN },
  (o: options.CrossEntropyOptions, x: Tensor, y: Tensor) => f.nllLoss(x, y, o),
) {}
export class BCELoss extends layer(
  ['weight'],
  { weight, ...MEAN },
  (o: options.BinaryCrossEntropyOptions, x: Tensor, y: Tensor) => f.binaryCrossEntropy(x, y, o),
) {}
export class BCEWithLogitsLoss extends layer(
  ['weight'],
  { weight, ...MEAN, posWeight: undefined },
  (o: options.BinaryCrossEntropyOptions & { readonly posWeight?: Tensor }, x: Tensor, y: Tensor) =>
    f.binaryCrossEntropyWithLogits(x, y, o),
) {}
export class KLDivLoss extends layer(
  none,
  { ...MEAN, logTarget: false },
  (o: options.KlDivOptions, x: Tensor, y: Tensor) => f.klDiv(x, y, o),
) {}
export class PoissonNLLLoss extends layer(
  ['logInput', 'full'],
  { logInput: true, full: false, eps: 1e-8, ...MEAN },
  (o: options.PoissonNllLossOptions, x: Tensor, y: Tensor) => f.poissonNllLoss(x, y, o),
) {}
export class GaussianNLLLoss extends layer(
  none,
  { full: false, eps: 1e-6, ...MEAN },
  (o: options.GaussianNllLossOptions, x: Tensor, y: Tensor, variance: Tensor | number) =>
    f.gaussianNllLoss(x, y, variance, o),
) {}
export class HingeEmbeddingLoss extends layer(
  ['margin'],
  { margin: 1, ...MEAN },
  (o: options.MarginLossOptions, x: Tensor, y: Tensor) => f.hingeEmbeddingLoss(x, y, o),
) {}
export class SoftMarginLoss extends layer(none, MEAN, (o: options.LossOptions, x: Tensor, y: Tensor) =>
  f.softMarginLoss(x, y, o),
) {}
export class MarginRankingLoss extends layer(
  ['margin'],
  { margin: 0, ...MEAN },
  (o: options.MarginLossOptions, x1: Tensor, x2: Tensor, y: Tensor) => f.marginRankingLoss(x1, x2, y, o),
) {}
export class CosineEmbeddingLoss extends layer(
  ['margin'],
  { margin: 0, ...MEAN },
  (o: options.MarginLossOptions, x1: Tensor, x2: Tensor, y: Tensor) => f.cosineEmbeddingLoss(x1, x2, y, o),
) {}
export class TripletMarginLoss extends layer(
  ['margin', 'p', 'eps', 'swap'],
  { margin: 1, p: 2, eps: 1e-6, swap: false, ...MEAN },
  (o: options.TripletMarginLossOptions, anchor: Tensor, positive: Tensor, negative: Tensor) =>
    f.tripletMarginLoss(anchor, positive, negative, o),
) {}

// ---- likeness and distance, which are not reduced

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
export class PairwiseDistance extends layer(
  ['p', 'eps', 'keepdim'],
  { p: 2, eps: 1e-6, keepdim: false },
  ({ p, eps, keepdim }: Distance, x1: Tensor, x2: Tensor) => f.vectorNorm(x1.sub(x2).add(eps), { p, dim: -1, keepdim }),
) {}
