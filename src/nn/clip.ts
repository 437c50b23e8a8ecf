// Gradient clipping: torch's clip_grad_norm_ and clip_grad_value_, computed inside the step.
import { checkList } from '../base/check.js';
import { ArgumentError, NonfiniteGradientError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { wideType } from '../base/promote.js';
import { shown } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';
import { clamp, square } from '../ops/math.js';
import { reduceSum } from '../ops/prim/broadcast.js';
import { full } from '../ops/prim/constant.js';
import { convert } from '../ops/prim/move.js';
import { abs, add, div, maximum, minimum, mul, sqrt } from '../ops/prim/pointwise.js';
import { pow } from '../ops/prim/power.js';
import { reduceMax } from '../ops/prim/reduce.js';
import { detach } from '../ops/prim/variable.js';
import { afterStep } from '../step/closures.js';
import { Tensor } from '../tensor/tensor.js';
import { shared } from './shared.js';

export interface ClipOptions {
  /** The order of the norm; Infinity for the largest element. Default: 2. */
  readonly normType?: number;
  /** Whether a norm that is not finite is an error: thrown by the next step or sync(), when the value is known. Default: false. */
  readonly errorIfNonfinite?: boolean;
}
type Given = Tensor | Iterable<Tensor>;

const gradsOf = (params: Given): Tensor[] =>
  [...(params instanceof Tensor ? [params] : checkList('clipping', params))].flatMap((p) => {
    if (!p.grad) return [];
    if (shared.parameters.has(p) && !shared.means.has(p.grad))
      throw new ArgumentError(
        "clipping: these gradients are this worker's own and are averaged only in optimizer.step(): call " +
          'await averageGradients(model) first, outside of the compiled function that computes them',
      );
    return [p.grad];
  });
const wide = (x: Tensor): Expr => convert(detach(x.expr), wideType(x.dtype));

/** The norm of all tensors of a list, as one vector. */
function totalNorm(xs: readonly Expr[], order: number): Expr {
  if (order === Number.POSITIVE_INFINITY) return xs.map((x) => reduceMax(abs(x))).reduce((a, b) => maximum(a, b));
  const total = (power: (x: Expr) => Expr) => xs.map((x) => reduceSum(power(x))).reduce((a, b) => add(a, b));
  if (order === 2) return sqrt(total(square));
  return order === 1
    ? total(abs)
    : pow(
        total((x) => pow(abs(x), order)),
        1 / order,
      );
}

/**
 * Scales all gradients down together if their total norm exceeds maxNorm; returns the norm before scaling. Unlike torch: the
 * norm of bf16 and f16 gradients is f32.
 */
export const clipGradNorm = entry((params: Given, maxNorm: number, options: ClipOptions = {}): Tensor => {
  checkOptions('clipGradNorm', ['normType', 'errorIfNonfinite'], options);
  const { normType = 2, errorIfNonfinite = false } = options;
  if (!(typeof maxNorm === 'number' && maxNorm >= 0))
    throw new ArgumentError(
      `clipGradNorm: maxNorm is ${shown(maxNorm)}: it must be 0 or more: write clipGradNorm(parameters, 1)`,
    );
  if (!(typeof normType === 'number' && normType > 0))
    throw new ArgumentError(`clipGradNorm: normType is ${shown(normType)}: it must be positive, or Infinity`);
  const grads = gradsOf(params).filter((g) => g.numel());
  if (!grads.length) return new Tensor(full([], 0, 'f32'));
  const norm = totalNorm(grads.map(wide), normType);
  const factor = minimum(div(maxNorm, add(norm, 1e-6)), 1);
  for (const g of grads) g.rebind(convert(mul(wide(g), factor), g.dtype));
  const result = new Tensor(norm);
  if (errorIfNonfinite) afterStep(checkNorm, result);
  return result;
});
async function checkNorm(norm: Tensor): Promise<void> {
  const value = await norm.item();
  if (!Number.isFinite(value))
    throw new NonfiniteGradientError(
      `clipGradNorm: the total norm of the gradients was ${value} in an earlier step, and the parameters may be lost: go back to a checkpoint, or pass errorIfNonfinite: false`,
    );
}

/** Clamps every element of the gradients to [-clipValue, clipValue]. */
export const clipGradValue = entry((params: Given, clipValue: number): void => {
  if (!(typeof clipValue === 'number' && clipValue >= 0))
    throw new ArgumentError(`clipGradValue: clipValue is ${shown(clipValue)}: it must be 0 or more`);
  for (const g of gradsOf(params)) g.rebind(clamp(detach(g.expr), { min: -clipValue, max: clipValue }));
});
