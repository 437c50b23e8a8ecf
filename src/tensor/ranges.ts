// Range checks for operations with indices along a dimension: indices out of range are rejected if the host has them.
import { ArgumentError, ShapeError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import * as ops from '../ops/indexing.js';
import * as losses from '../ops/loss.js';
import { flat } from '../ops/prim/move.js';
import { checkRange, elementOf, numberOf } from './offsets.js';

type Along = (x: Expr, dim: number, index: Expr, ...rest: never[]) => Expr;
const along = <F extends Along>(op: string, f: F): F =>
  ((x: Expr, dim: number, index: Expr, ...rest: never[]) => {
    checkRange(op, index, x, dim);
    return f(x, dim, index, ...rest);
  }) as F;

type OfClasses = (input: Expr, target: Expr, options?: { readonly ignoreIndex?: number }) => Expr;
const ofClasses = <F extends OfClasses>(op: string, f: F): F =>
  ((input: Expr, target: Expr, options: { readonly ignoreIndex?: number } = {}) => {
    const [count = 1, { ignoreIndex = -100 }] = [input.shape[input.shape.length === 1 ? 0 : 1], options];
    const wrong = elementOf(target, (c) => (c < 0 || c >= count) && Number(c) !== ignoreIndex);
    if (wrong !== undefined)
      throw new ShapeError(
        `${op}: the target ${target.aval} has class ${wrong}, and ${input.aval} has classes 0 to ${count - 1}`,
      );
    return f(input, target, options);
  }) as F;

const binaryCrossEntropy: typeof losses.binaryCrossEntropy = (input, target, options) => {
  for (const [name, x] of Object.entries({ input, target })) {
    const wrong = numberOf(x, (p) => p >= 0 && p <= 1);
    if (wrong !== undefined)
      throw new ArgumentError(
        `binaryCrossEntropy: the ${name} ${x.aval} has ${wrong}: all must be from 0 to 1 (for logits use binaryCrossEntropyWithLogits)`,
      );
  }
  return losses.binaryCrossEntropy(input, target, options);
};

/** Replacements for the operations of the same names. */
export const inRange = {
  gather: along('gather', ops.gather),
  scatter: along('scatter', ops.scatter),
  scatterAdd: along('scatterAdd', ops.scatterAdd),
  scatterReduce: along('scatterReduce', ops.scatterReduce),
  indexSelect: along('indexSelect', ops.indexSelect),
  indexCopy: along('indexCopy', ops.indexCopy),
  indexAdd: along('indexAdd', ops.indexAdd),
  take: (x: Expr, index: Expr) => {
    checkRange('take', index, flat(x), 0);
    return ops.take(x, index);
  },
  embedding: (ids: Expr, weight: Expr, ...rest: [{ readonly paddingIdx?: number }?]) => {
    checkRange('embedding', ids, weight, 0);
    return ops.embedding(ids, weight, ...rest);
  },
  crossEntropy: ofClasses('crossEntropy', losses.crossEntropy),
  nllLoss: ofClasses('nllLoss', losses.nllLoss),
  binaryCrossEntropy,
};
