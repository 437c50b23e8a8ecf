// Gradient accumulation: the gradients of a batch too large to compute at once, micro-batch by micro-batch in one program.

import { withGrad } from '../autograd/mode.js';
import { sumOver } from '../autograd/scan.js';
import { gradients } from '../autograd/sweep.js';
import { ArgumentError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { describe, type Flat, leafName } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { insideBody } from '../ir/scope.js';
import { entry } from '../ir/source.js';
import { onesLike, zerosLike } from '../ops/prim/constant.js';
import { div } from '../ops/prim/pointwise.js';
import { detach } from '../ops/prim/variable.js';
import { Tensor } from '../tensor/tensor.js';
import { callUser, exprsOf, lengthOf, raiseTree, tensorsOf } from '../tensor/trees.js';
import { variables } from '../tensor/variables.js';

export interface AccumulateOptions {
  /** How losses and gradients of micro-batches are combined. 'mean' equals the whole batch's mean if fn's loss is a mean. */
  readonly reduction?: 'mean' | 'sum';
}

const IN_PLACE =
  'accumulate calls fn once for all micro-batches: change it after accumulate, or put the layer in eval mode';

/**
 * Calls fn on the micro-batches (the elements of `microBatches` along the first dimension) and adds the gradient of its loss,
 * averaged over them, to the `grad` of every variable it depends on, as backward() would. Returns the mean loss. This is one
 * loop inside the program: neither the program nor its memory grows with the number of micro-batches.
 */
export const accumulate = entry(
  <B>(microBatches: B, fn: (batch: B) => Tensor, { reduction = 'mean' }: AccumulateOptions = {}): Tensor => {
    const batches = tensorsOf('accumulate: microBatches', microBatches);
    const count = checkBatches(batches, reduction);
    let owners: Tensor[] = []; // of the variables that fn reaches
    const pass = (rows: readonly Expr[]): Expr[] => {
      const loss = checkLoss(callUser('accumulate', fn, raiseTree(batches, rows) as B));
      const part = reduction === 'mean' ? div(loss, count) : loss;
      const reached = collect([part], (e) => !e.differentiable).nodes.filter((e) => variables.has(e));
      const flow = gradients([part], [onesLike(part)], reached);
      owners = reached.filter((_, i) => flow[i]).map((v) => variables.get(v)!);
      if (!owners.length)
        throw new ArgumentError(
          `accumulate: the loss of fn, ${loss.aval}, depends on no tensor that requires a gradient: call requiresGrad_() on the parameters`,
        );
      return [part, ...flow.filter((g) => g !== null)];
    };
    // Existing gradients are added to, as in a loop that calls backward().
    const start = ([part, ...flow]: readonly Expr[]) => [
      zerosLike(part!),
      ...flow.map((g, i) => (owners[i]!.grad ? detach(owners[i]!.grad.expr) : zerosLike(g))),
    ];
    const [loss, ...grads] = withGrad(true, 'accumulate', () =>
      sumOver(exprsOf(batches), count, pass, start, IN_PLACE),
    );
    owners.forEach((owner, i) => (owner.grad = new Tensor(detach(grads[i]!))));
    return new Tensor(detach(loss!));
  },
);

/** The number of micro-batches. */
function checkBatches(batches: Flat<Tensor>, reduction: string): number {
  if (insideBody())
    throw new ArgumentError(
      'accumulate: called inside the body of a loop or a branch, where gradients cannot be stored: call it outside',
    );
  if (reduction !== 'mean' && reduction !== 'sum')
    throw new ArgumentError(`accumulate: reduction is ${String(reduction)}: it must be mean or sum`);
  if (!batches.leaves.length) throw new ArgumentError('accumulate: microBatches contains no tensor: pass at least one');
  batches.leaves.forEach((x, i) => {
    if (x.requiresGrad)
      throw new ArgumentError(
        `accumulate: ${leafName('microBatches', batches.paths[i]!)}, ${x.aval}, requires a gradient, but micro-batches get none: detach() it`,
      );
  });
  const count = lengthOf('accumulate', 'microBatches', batches);
  if (count === 0)
    throw new ArgumentError('accumulate: microBatches have a first dimension of 0: pass at least one micro-batch');
  return count;
}

function checkLoss(loss: unknown): Expr {
  if (!(loss instanceof Tensor))
    throw new ArgumentError(`accumulate: fn returned ${describe(loss)}: it must return the loss, a tensor`);
  if (loss.shape.length || !isFloat(loss.dtype))
    throw new ArgumentError(
      `accumulate: fn returned ${loss.aval}: the loss must be a scalar of a floating point dtype (use sum or mean)`,
    );
  return loss.expr;
}
