// Losses by margins between classes, and the distance of rows.
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isFloat, isInteger } from '../base/promote.js';
import { sameShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { clampMin, square } from './math.js';
import { alignFloats } from './prim/align.js';
import { broadcastInDim, reduceSum } from './prim/broadcast.js';
import { iota } from './prim/constant.js';
import { gatherAlong } from './prim/gather.js';
import { convert, reshape } from './prim/move.js';
import { add, div, eq, logicalAnd, logicalNot, lt, mul, ne, neg, sub, where } from './prim/pointwise.js';
import { reduceOr } from './prim/reduce.js';
import { type Reduced, reduced } from './reduced.js';
import { cumsum, norm } from './reduction.js';
import { log1pExp } from './stable.js';

/** Scores and classes as [N, C] and [N, ...], and whether there was an N. */
function rows(op: string, input: Expr, target: Expr, sameRank: boolean): [x: Expr, y: Expr, batched: boolean] {
  if (!isFloat(input.dtype)) throw new DTypeError(`${op}: the input must be floats, got ${input.aval}: use float()`);
  if (!isInteger(target.dtype)) throw new DTypeError(`${op}: the target must be class indices, got ${target.aval}`);
  const batched = input.shape.length === 2;
  const wanted = sameRank ? input.shape : batched ? [input.shape[0]!] : [];
  const single = !sameRank && !batched && target.aval.size === 1;
  if (input.shape.length > 2 || !input.shape.at(-1) || !(single || sameShape(target.shape, wanted)))
    throw new ShapeError(`${op}: takes scores [N, C] or [C] and their target, got ${input.aval} and ${target.aval}`);
  const n = batched ? input.shape[0]! : 1;
  const c = input.shape.at(-1) ?? 1;
  return [reshape(input, [n, c]), reshape(target, sameRank ? [n, c] : [n]), batched];
}
const perRow = (losses: Expr, batched: boolean): Expr => (batched ? losses : reshape(losses, []));

export interface MultiMarginOptions extends Reduced {
  /** The exponent of the margin violation: 1 or 2. Default: 1. */
  readonly p?: number;
  readonly margin?: number;
  /** A weight for each class. */
  readonly weight?: Expr;
}
/** The margin violations: margin - (score of the target - score of each other class), at least 0. */
export function multiMarginLoss(input: Expr, target: Expr, options: MultiMarginOptions = {}): Expr {
  const op = 'multiMarginLoss';
  const { p = 1, margin = 1, weight, reduction } = options;
  if (p !== 1 && p !== 2) throw new ArgumentError(`${op}: p is ${p}: use 1 or 2`);
  const [x, y, batched] = rows(op, input, target, false);
  const [n, c] = x.shape as [number, number];
  if (weight && !sameShape(weight.shape, [c]))
    throw new ShapeError(`${op}: weight is ${weight.aval}: ${input.aval} has ${c} classes`);
  const index = reshape(convert(y, 'i64'), [n, 1]);
  const short = clampMin(add(sub(x, gatherAlong(x, index, 1)), margin), 0);
  const powered = p === 2 ? square(short) : short;
  const weighed = weight ? mul(powered, gatherAlong(broadcastInDim(weight, [n, c], [1]), index, 1)) : powered;
  const others = where(ne(iota([n, c], 1, 'i64'), index), weighed, 0);
  return reduced(op, perRow(div(reduceSum(others, [1]), c), batched), reduction);
}

/** The target lists classes up to the first -1. Compares each listed class with all classes not listed. */
export function multilabelMarginLoss(input: Expr, target: Expr, { reduction }: Reduced = {}): Expr {
  const op = 'multilabelMarginLoss';
  const [x, y, batched] = rows(op, input, target, true);
  const [n, c] = x.shape as [number, number];
  const listed = eq(cumsum(convert(lt(y, 0), 'i64'), { dim: 1 }), 0); // before the first -1
  const index = where(listed, convert(y, 'i64'), 0);
  const across = (z: Expr, dim: number) => broadcastInDim(z, [n, c, c], [0, dim]);
  const isTarget = reduceOr(logicalAnd(across(listed, 1), eq(across(index, 1), iota([n, c, c], 2, 'i64'))), [1]);
  const counts = logicalAnd(across(listed, 1), logicalNot(across(isTarget, 2)));
  const short = clampMin(add(sub(across(x, 2), across(gatherAlong(x, index, 1), 1)), 1), 0);
  const losses = div(reduceSum(where(counts, short, 0), [1, 2]), c);
  return reduced(op, perRow(losses, batched), reduction);
}

/** The mean over classes of the binary cross entropy of each, by logits. */
export function multilabelSoftMarginLoss(
  input: Expr,
  target: Expr,
  { weight, reduction }: Reduced & { readonly weight?: Expr } = {},
): Expr {
  const op = 'multilabelSoftMarginLoss';
  if (!input.shape.length) throw new ShapeError(`${op}: ${input.aval} has no dimension of classes`);
  const [x, y] = alignFloats(op, [input, target]) as [Expr, Expr];
  if (!sameShape(x.shape, y.shape)) throw new ShapeError(`${op}: ${input.aval} and ${target.aval} differ in shape`);
  const losses = add(mul(y, log1pExp(neg(x))), mul(sub(1, y), log1pExp(x)));
  const last = x.shape.length - 1;
  const weighed = weight ? mul(losses, weight) : losses;
  return reduced(op, div(reduceSum(weighed, [last]), x.shape[last]!), reduction);
}

/** The p-norm of the difference of rows, to which eps is added. */
export function pairwiseDistance(
  x1: Expr,
  x2: Expr,
  {
    p = 2,
    eps = 1e-6,
    keepdim = false,
  }: { readonly p?: number; readonly eps?: number; readonly keepdim?: boolean } = {},
): Expr {
  const [a, b] = alignFloats('pairwiseDistance', [x1, x2]) as [Expr, Expr];
  const apart = add(sub(a, b), eps);
  if (!apart.shape.length) throw new ShapeError(`pairwiseDistance: ${x1.aval} has no dimension for the vectors`);
  return norm(apart, { p, dim: -1, keepdim });
}
