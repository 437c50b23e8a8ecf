// The triplet loss with a custom distance function on tensors. It is not in ops/, whose operations work on expressions.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { shown } from '../base/tree.js';
import * as f from '../tensor/functions.js';
import type { Tensor } from '../tensor/tensor.js';
import type { LossOptions } from '../tensor/types.js';

export interface TripletDistance extends LossOptions {
  /** Default: pairwiseDistance. */
  readonly distanceFunction?: ((a: Tensor, b: Tensor) => Tensor) | null;
  /** Default: 1. */
  readonly margin?: number;
  readonly swap?: boolean;
}
/** An anchor should be nearer to the positive than to the negative, by the margin, with a custom distance function. */
export function tripletMarginWithDistanceLoss(
  anchor: Tensor,
  positive: Tensor,
  negative: Tensor,
  { distanceFunction, margin = 1, swap = false, reduction = 'mean' }: TripletDistance = {},
): Tensor {
  const op = 'tripletMarginWithDistanceLoss';
  if (!(margin > 0)) throw new ArgumentError(`${op}: margin is ${shown(margin)}: it must be above 0`);
  if (!['none', 'mean', 'sum'].includes(reduction as string))
    throw new ArgumentError(`${op}: reduction is ${shown(reduction)}: use 'none', 'mean' or 'sum'`);
  const all = [anchor, positive, negative];
  if (all.some((x) => x.ndim !== anchor.ndim))
    throw new ShapeError(
      `${op}: ${all.map((x) => x.aval).join(', ')} have different numbers of dimensions: they must have the same`,
    );
  const distance = distanceFunction ?? ((a: Tensor, b: Tensor) => f.pairwiseDistance(a, b));
  const far = distance(anchor, negative);
  const away = swap ? f.minimum(far, distance(positive, negative)) : far;
  const losses = distance(anchor, positive).sub(away).add(margin).clamp({ min: 0 });
  return reduction === 'none' ? losses : reduction === 'sum' ? losses.sum() : losses.mean();
}
