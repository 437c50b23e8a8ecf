// Normalizations with running statistics, which they update in place.
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { range, type Shape, showShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { moments, widened } from '../ops/moments.js';
import { convert, reshape } from '../ops/prim/move.js';
import { add, mul, rsqrt, sub } from '../ops/prim/pointwise.js';
import { detach } from '../ops/prim/variable.js';
import { mean } from '../ops/reduction.js';
import { checked, named } from './arguments.js';
import { Tensor } from './tensor.js';

interface StatisticsOptions {
  readonly weight?: Tensor | null;
  readonly bias?: Tensor | null;
  /** The weight of this batch in the running statistics; a tensor if it changes from step to step. */
  readonly momentum?: number | Tensor;
  /** Added to the variance for numerical stability. */
  readonly eps?: number;
}
export interface BatchNormOptions extends StatisticsOptions {
  /** true normalizes by the statistics of the batch and updates the running ones; false uses the running ones. */
  readonly training?: boolean;
}
export interface InstanceNormOptions extends StatisticsOptions {
  /** true normalizes each sample by its own statistics; false uses the running ones. */
  readonly useInputStats?: boolean;
}

/** Normalizes each channel of [N, C, ...] to mean 0 and variance 1; then multiplies by weight and adds bias. */
export const batchNorm = checked(
  'batchNorm',
  (
    x: Tensor,
    runningMean: Tensor | null,
    runningVar: Tensor | null,
    ...given:
      | [options?: BatchNormOptions]
      | [
          weight: Tensor | null,
          bias?: Tensor | null,
          training?: boolean,
          momentum?: number | Tensor,
          eps?: number,
          options?: BatchNormOptions,
        ]
      | [weight: Tensor | null, bias: Tensor | null, options: BatchNormOptions]
  ): Tensor => {
    const { training = false, ...options } = named<BatchNormOptions>(
      ['weight', 'bias', 'training', 'momentum', 'eps'],
      given,
    );
    if (training && x.ndim > 1 && x.numel() === x.shape[1])
      throw new ShapeError(
        `batchNorm: training needs more than 1 value per channel, got ${x.aval}: use a larger batch, or eval()`,
      );
    const dims = range(x.ndim).filter((d) => d !== 1);
    return withStatistics('batchNorm', x, [runningMean, runningVar], training, dims, options);
  },
);

/** Normalizes each channel of each sample of [N, C, ...space] to mean 0 and variance 1; then multiplies by weight and adds bias. */
export const instanceNorm = checked(
  'instanceNorm',
  (
    x: Tensor,
    {
      runningMean = null,
      runningVar = null,
      useInputStats = true,
      ...options
    }: InstanceNormOptions & { readonly runningMean?: Tensor | null; readonly runningVar?: Tensor | null } = {},
  ): Tensor => {
    const space = range(x.ndim).slice(2);
    if (useInputStats && x.numel() === x.shape[0]! * x.shape[1]!)
      throw new ShapeError(`instanceNorm: training needs more than 1 spatial element, got ${x.aval}`);
    return withStatistics('instanceNorm', x, [runningMean, runningVar], useInputStats, space, options);
  },
);

/** Normalizes over `dims`, by the input's statistics or by the running ones. */
function withStatistics(
  op: string,
  t: Tensor,
  [runningMean, runningVar]: readonly [Tensor | null, Tensor | null],
  own: boolean,
  dims: readonly number[],
  { weight, bias, momentum = 0.1, eps = 1e-5 }: StatisticsOptions,
): Tensor {
  check(op, t, { runningMean, runningVar, weight, bias });
  const channels = t.shape[1]!;
  const x = widened(t.expr);
  const perChannel = (s: Expr) => reshape(convert(s, x.dtype), [channels, ...t.shape.slice(2).map(() => 1)]);
  let y: Expr;
  if (own) {
    const { centered, mean: middle, variance } = moments(x, dims);
    y = mul(centered, rsqrt(add(variance, eps)));
    const count = dims.reduce((n, d) => n * t.shape[d]!, 1);
    if (t.numel()) {
      learn(runningMean, middle, momentum); // an empty batch has no statistics
      learn(runningVar, mul(variance, count / (count - 1)), momentum);
    }
  } else {
    if (!runningMean || !runningVar)
      throw new ArgumentError(
        `${op}: of ${t.aval}: give runningMean and runningVar, or use the statistics of the input`,
      );
    y = mul(sub(x, perChannel(runningMean.expr)), rsqrt(add(perChannel(runningVar.expr), eps)));
  }
  if (weight) y = mul(y, perChannel(weight.expr));
  if (bias) y = add(y, perChannel(bias.expr));
  return new Tensor(convert(y, t.dtype));
}

/** Updates a running statistic from the batch's; if each sample has its own, from their mean. */
function learn(running: Tensor | null, found: Expr, momentum: number | Tensor): void {
  if (!running) return;
  const channels = found.shape[1]!;
  const now = mean(reshape(detach(found), [found.shape[0]!, channels]), { dim: 0 });
  const was = convert(detach(running.expr), now.dtype);
  const step = momentum instanceof Tensor ? convert(detach(momentum.expr), now.dtype) : momentum;
  running.rebind(convert(add(was, mul(sub(now, was), step)), running.dtype));
}

function check(op: string, x: Tensor, perChannel: Record<string, Tensor | null | undefined>): void {
  if (!isFloat(x.dtype)) throw new DTypeError(`${op}: takes floats, got ${x.aval}: use float()`);
  if (x.ndim < 2) throw new ShapeError(`${op}: takes [N, C, ...], got ${x.aval}`);
  const sizes: Shape = [x.shape[1]!];
  for (const [name, t] of Object.entries(perChannel)) {
    if (t && String(t.shape) !== String(sizes))
      throw new ShapeError(`${op}: ${name} is ${t.aval}: ${x.aval} has channels ${showShape(sizes)}`);
  }
}
