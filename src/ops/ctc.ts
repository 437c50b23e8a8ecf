// Connectionist temporal classification (Graves et al., 2006): the forward algorithm in log space, one pass of a loop a step.
import { scan } from '../autograd/scan.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isFloat, isInteger } from '../base/promote.js';
import { range } from '../base/shape.js';
import { Expr } from '../ir/expr.js';
import { logaddexp } from './math.js';
import { broadcastTo, reduceSum } from './prim/broadcast.js';
import { constants, full, iota } from './prim/constant.js';
import { gatherAlong } from './prim/gather.js';
import { convert, flat, reshape } from './prim/move.js';
import { add, div, gt, le, logicalAnd, lt, maximum, mul, ne, neg, sub, where } from './prim/pointwise.js';
import { runningSum } from './prim/scanning.js';
import { concat, padDim, slice, sliceDim } from './prim/slice.js';
import type { Reduced } from './reduced.js';

export interface CtcLossOptions extends Reduced {
  /** The class of the blank. Default: 0. */
  readonly blank?: number;
  /** Whether loss and gradient are 0 instead of infinite for targets too long for the input. Default: false. */
  readonly zeroInfinity?: boolean;
}
/** Less than any log probability, and still a number: infinities would leave NaN in gradients. */
const NEVER = -1e30;

function lengthsOf(name: string, given: Expr | readonly number[], n: number): Expr {
  const lengths = given instanceof Expr ? flat(given) : constants(given, 'i64');
  if (!isInteger(lengths.dtype) || lengths.aval.size !== n)
    throw new ShapeError(`ctcLoss: ${name} is ${lengths.aval}: give ${n} integers, one for each sequence`);
  return convert(lengths, 'i64');
}
/** Targets as rows [N, S]: those in one vector are cut by their lengths. */
function rowsOf(targets: Expr, lengths: Expr, given: Expr | readonly number[], n: number): Expr {
  if (targets.shape.length === 2) return targets;
  const most = given instanceof Expr ? targets.aval.size : Math.max(0, ...given);
  if (n === 1 && !(given instanceof Expr) && given[0] === targets.aval.size) return reshape(targets, [1, most]);
  const starts = sub(runningSum(lengths, 0), lengths);
  const places = add(reshape(starts, [n, 1]), reshape(iota([most], 0, 'i64'), [1, most]));
  const last = Math.max(0, targets.aval.size - 1);
  return gatherAlong(broadcastTo(targets, [n, targets.aval.size]), where(le(places, last), places, last), 1);
}

/**
 * The negative log likelihood of targets, given log probabilities [T, N, C] or [T, C] of classes at each step. Targets are
 * rows [N, S] or concatenated in a vector. 'mean' first divides each loss by the length of its target.
 */
export function ctcLoss(
  logProbs: Expr,
  targets: Expr,
  inputLengths: Expr | readonly number[],
  targetLengths: Expr | readonly number[],
  { blank = 0, reduction = 'mean', zeroInfinity = false }: CtcLossOptions = {},
): Expr {
  if (logProbs.shape.length === 2) {
    const [T, C] = logProbs.shape as [number, number];
    const one = ctcLoss(
      reshape(logProbs, [T, 1, C]),
      reshape(targets, [1, targets.aval.size]),
      inputLengths,
      targetLengths,
      {
        ...{ blank, reduction, zeroInfinity },
      },
    );
    return reduction === 'none' ? reshape(one, []) : one;
  }
  const [T, N, C] = logProbs.shape as [number, number, number];
  if (logProbs.shape.length !== 3 || !isFloat(logProbs.dtype))
    throw new ShapeError(`ctcLoss: log probabilities must be [T, N, C] or [T, C], got ${logProbs.aval}`);
  if (!isInteger(targets.dtype) || targets.shape.length > 2 || (targets.shape.length === 2 && targets.shape[0] !== N))
    throw new DTypeError(`ctcLoss: targets must be integers, [${N}, S] or a vector, got ${targets.aval}`);
  if (!Number.isInteger(blank) || blank < 0 || blank >= C)
    throw new ArgumentError(`ctcLoss: blank is ${blank}: it must be a class, 0 to ${C - 1}`);
  const [steps, counts] = [lengthsOf('inputLengths', inputLengths, N), lengthsOf('targetLengths', targetLengths, N)];
  const labels = convert(rowsOf(targets, counts, targetLengths, N), 'i64');
  const S = labels.shape[1]!;
  const L = 2 * S + 1;
  // A blank before, between and after the labels.
  const apart = concat([full([N, S, 1], blank, 'i64'), reshape(labels, [N, S, 1])], 2);
  const states = padDim(reshape(apart, [N, 2 * S]), 1, 0, 1, blank);
  const wide = logProbs.dtype === 'f64' ? 'f64' : 'f32';
  const emitted = gatherAlong(convert(logProbs, wide), broadcastTo(reshape(states, [1, N, L]), [T, N, L]), 2);
  const place = iota([N, L], 1, 'i64');
  /** Each state's neighbour that many places before. */
  const before = (x: Expr, by: number, fill: number) =>
    L > by ? padDim(sliceDim(x, 1, 0, L - by), 1, by, 0, fill) : full([N, L], fill, x.dtype);
  const skips = logicalAnd(gt(place, 1), logicalAnd(ne(states, blank), ne(states, before(states, 2, blank))));
  const sum = (a: Expr, b: Expr) => logaddexp(a, b);
  const first = where(lt(place, 2), reshape(slice(emitted, [0, 0, 0], [1, N, L]), [N, L]), NEVER);
  const rest = sliceDim(emitted, 0, 1, T);
  const times = add(iota([T - 1], 0, 'i64'), 1);
  const { carry } = scan([first], [rest, times], T - 1, ([alpha], [row, t]) => {
    const stays = sum(alpha!, before(alpha!, 1, NEVER));
    const moved = where(skips, sum(stays, before(alpha!, 2, NEVER)), stays);
    const next = maximum(add(moved, row!), NEVER);
    return { carry: [where(lt(broadcastTo(t!, [N, 1]), reshape(steps, [N, 1])), next, alpha!)], ys: [] };
  });
  const alpha = carry[0]!;
  const at = (state: Expr) => reshape(gatherAlong(alpha, reshape(maximum(state, 0), [N, 1]), 1), [N]);
  const ends = mul(counts, 2);
  const likelihood = where(gt(counts, 0), sum(at(ends), at(sub(ends, 1))), at(ends));
  const impossible = lt(likelihood, NEVER / 10);
  const losses = where(impossible, zeroInfinity ? 0 : Number.POSITIVE_INFINITY, neg(likelihood));
  const typed = convert(losses, logProbs.dtype);
  if (reduction === 'none') return typed;
  if (reduction === 'sum') return reduceSum(typed);
  return div(reduceSum(div(typed, convert(maximum(counts, 1), typed.dtype))), range(N).length);
}
