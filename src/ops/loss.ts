// Loss functions of torch.nn.functional: computed element by element, then reduced.
import { sizeOf } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { noticeOnce } from '../base/log.js';
import { isFloat, isInteger, wideType } from '../base/promote.js';
import { broadcastShapes, normalizeDim, sameShape, showShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { clamp, square, xlogy } from './math.js';
import { linear } from './matmul.js';
import { alignFloats, floating, inWide, isExpr, type Operand } from './prim/align.js';
import { broadcastInDim, reduceSum } from './prim/broadcast.js';
import { full } from './prim/constant.js';
import { custom } from './prim/custom.js';
import { takeAt } from './prim/gather.js';
import { convert, reshape } from './prim/move.js';
import {
  abs,
  add,
  div,
  eq,
  exp,
  ge,
  gt,
  log,
  log1p,
  logicalAnd,
  logicalOr,
  lt,
  maximum,
  minimum,
  mul,
  ne,
  neg,
  sqrt,
  sub,
  where,
} from './prim/pointwise.js';
import { detach } from './prim/variable.js';
import { type Reduced, type Reduction, reduced } from './reduced.js';
import { norm, sum } from './reduction.js';
import { elementAt, log1pExp, logSoftmaxAt, logSoftmaxOver } from './stable.js';

/** A loss with a weight for each element. */
interface Weighted extends Reduced {
  readonly weight?: Expr;
}
type Loss<O> = (input: Expr, target: Expr, options?: O) => Expr;

const pair = (op: string, a: Operand, b: Operand) => alignFloats(op, [a, b]) as [Expr, Expr];
const weigh = (losses: Expr, weight: Expr | undefined): Expr => (weight ? mul(losses, weight) : losses);

function checkSameShape(op: string, input: Expr, target: Expr): void {
  if (sameShape(input.shape, target.shape)) return;
  throw new ShapeError(
    `${op}: the input is ${input.aval}, but the target is ${target.aval}: both must have the same shape`,
  );
}

// ---- distances

/** Input and target broadcast, as in torch: check their shapes if a loss looks too good. */
const distance =
  <O extends Reduced>(op: string, of: (difference: Expr, options: O) => Expr): Loss<O> =>
  (input, target, options = {} as O) => {
    const [x, y] = pair(op, input, target);
    if (isExpr(input) && isExpr(target) && !sameShape(input.shape, target.shape))
      noticeOnce(
        `${op}: the target ${target.aval} and the input ${input.aval} have different shapes: both are broadcast to ${showShape(x.shape)}, which is probably not intended: reshape one of them`,
      );
    return reduced(op, of(sub(x, y), options), options.reduction);
  };
export const mseLoss = distance<Weighted>('mseLoss', (d, { weight }) => weigh(square(d), weight));
export const l1Loss = distance<Weighted>('l1Loss', (d, { weight }) => weigh(abs(d), weight));
/** Half the square near zero, linear beyond a limit, with finite gradients for infinite distances. */
const bent = (d: Expr, limit: number): Expr => {
  const inner = clamp(d, { min: -limit, max: limit });
  return mul(inner, sub(d, div(inner, 2)));
};
/** Squared for distances below beta, linear beyond. */
export const smoothL1Loss = distance<Reduced & { readonly beta?: number }>('smoothL1Loss', (d, { beta = 1 }) => {
  if (beta < 0) throw new ArgumentError(`smoothL1Loss: beta is ${beta}: it must be 0 or more`);
  return beta === 0 ? abs(d) : div(bent(d, beta), beta);
});
const huber = distance<Weighted & { readonly delta?: number }>('huberLoss', (d, { delta = 1, weight }) => {
  if (!(delta > 0)) throw new ArgumentError(`huberLoss: delta is ${delta}: it must be above 0`);
  return weigh(bent(d, delta), weight);
});
/** A result in the dtype of one operand, as in torch. */
const typedAs = (y: Expr, { dtype }: Expr): Expr => (isFloat(dtype) ? convert(y, dtype) : y);
/** Squared for distances below delta, linear beyond. In the input's dtype. */
export const huberLoss: typeof huber = (input, target, options) => typedAs(huber(input, target, options), input);

// ---- classes

export interface ClassOptions extends Reduced {
  /** A weight for each class. */
  readonly weight?: Expr;
  /** A target class that is ignored. Default: -100. */
  readonly ignoreIndex?: number;
}
interface Classes {
  /** The class of each target, i32, in the input's shape with one class. Out of range where it does not count. */
  readonly index: Expr;
  /** Targets that count, and those of them that name no class. */
  readonly counted: Expr;
  readonly unknown: Expr;
  /** The weight of each target's class. */
  readonly weights: Expr;
  /** The weight of each class, in the input's shape. */
  readonly weight: Expr | undefined;
}

/** Input [C], [N, C] or [N, C, ...]; target the same without C. */
function classesOf(op: string, input: Expr, target: Expr, { weight, ignoreIndex = -100 }: ClassOptions): Classes {
  const dim = classDim(op, input);
  const expected = input.shape.filter((_, d) => d !== dim);
  if (!isInteger(target.dtype)) {
    throw new DTypeError(`${op}: the target is ${target.aval}: class indices must be integers: convert it to i64`);
  }
  if (!sameShape(target.shape, expected)) {
    throw new ShapeError(
      `${op}: the target is ${target.aval}: for the input ${input.aval} its shape must be ${showShape(expected)}`,
    );
  }
  const given = convert(target, 'i64');
  const counted = ne(given, ignoreIndex);
  const index = convert(given, 'i32'); // half as wide: it is compared with every class of every target
  return {
    index: reshape(index, input.shape.with(dim, 1)),
    counted,
    unknown: logicalAnd(counted, logicalOr(lt(given, 0), ge(given, input.shape[dim]!))),
    weights: weight
      ? where(counted, takeAt(convert(checkClassWeight(op, input, weight), input.dtype), [0], [index]), 0)
      : convert(counted, input.dtype),
    weight: weight && classWeight(op, input, weight),
  };
}
function classDim(op: string, input: Expr): number {
  if (!input.shape.length)
    throw new ShapeError(`${op}: the input is ${input.aval}: it needs a dimension for the classes`);
  return input.shape.length === 1 ? 0 : 1;
}
function checkClassWeight(op: string, input: Expr, weight: Expr): Expr {
  const classes = input.shape[classDim(op, input)]!;
  if (sameShape(weight.shape, [classes])) return weight;
  throw new ShapeError(`${op}: the weight is ${weight.aval}: ${input.aval} has ${classes} classes`);
}
const classWeight = (op: string, input: Expr, weight: Expr): Expr =>
  broadcastInDim(convert(checkClassWeight(op, input, weight), input.dtype), input.shape, [classDim(op, input)]);

/** Losses of the log probabilities `at` the targets' classes; smoothing spreads them over all classes' `logp`. */
function negativeLog(
  op: string,
  { counted, unknown, weights, weight }: Classes,
  at: Expr,
  { reduction }: Reduced,
  smoothed?: { readonly logp: Expr; readonly smoothing: number },
): Expr {
  // A class out of range cannot be an error on the device: the loss is NaN instead of silently 0.
  let losses = where(unknown, Number.NaN, where(counted, neg(mul(reshape(at, counted.shape), weights)), 0));
  if (smoothed) {
    const { logp, smoothing } = smoothed;
    const dim = classDim(op, logp);
    const spread = where(counted, neg(reduceSum(weigh(logp, weight), [dim])), 0);
    losses = add(mul(losses, 1 - smoothing), mul(spread, smoothing / logp.shape[dim]!));
  }
  return reduced(op, losses, reduction, reduceSum(weights));
}
/**
 * The negative log likelihood of classes, given log probabilities. Unlike torch: a class out of range is an error only if the
 * host has the classes, otherwise NaN.
 */
export function nllLoss(input: Expr, target: Expr, options: ClassOptions = {}): Expr {
  const classes = classesOf('nllLoss', input, target, options);
  return negativeLog(
    'nllLoss',
    classes,
    elementAt([input, classes.index], { dim: classDim('nllLoss', input) }),
    options,
  );
}

/**
 * The cross entropy of logits [C], [N, C] or [N, C, ...] and a target: class indices in the input's shape without C, or floats
 * with the probability of each class, in the input's shape. Unlike torch: a class out of range is an error only if the host
 * has the classes, otherwise NaN.
 */
export function crossEntropy(
  input: Expr,
  target: Expr,
  options: ClassOptions & { readonly labelSmoothing?: number } = {},
): Expr {
  const op = 'crossEntropy';
  const { labelSmoothing = 0, weight, reduction } = options;
  if (!(labelSmoothing >= 0 && labelSmoothing <= 1)) {
    throw new ArgumentError(`${op}: labelSmoothing is ${labelSmoothing}: it must be between 0 and 1`);
  }
  const dim = classDim(op, input);
  const probabilities = isFloat(target.dtype);
  if (probabilities && !sameShape(input.shape, target.shape)) {
    throw new ShapeError(
      `${op}: the input is ${input.aval}, but the target is ${target.aval}: a float target has the probability of each class, in the input's shape; for class indices use long()`,
    );
  }
  return inWide(probabilities ? pair(op, input, target)[0] : floating(input), (x) => {
    if (!probabilities) {
      const classes = classesOf(op, x, target, options);
      if (!labelSmoothing) return negativeLog(op, classes, logSoftmaxAt([x, classes.index], { dim }), options);
      const logp = logSoftmaxOver([x], { dims: [dim] });
      const smoothed = { logp, smoothing: labelSmoothing };
      return negativeLog(op, classes, elementAt([logp, classes.index], { dim }), options, smoothed);
    }
    if (options.ignoreIndex !== undefined) {
      throw new ArgumentError(
        `${op}: ignoreIndex is for class indices, but the target is ${target.aval}: leave it out`,
      );
    }
    const logp = logSoftmaxOver([x], { dims: [dim] });
    const p = convert(target, x.dtype);
    const smooth = labelSmoothing ? add(mul(p, 1 - labelSmoothing), labelSmoothing / x.shape[dim]!) : p;
    const losses = neg(reduceSum(weigh(mul(logp, smooth), weight && classWeight(op, x, weight)), [dim]));
    return reduced(op, losses, reduction);
  });
}

// ---- probabilities

const bceOp = custom<[Expr, Expr]>(
  'binaryCrossEntropy',
  ([x, t]) => {
    const limited = (y: Expr) => maximum(y, -100); // as in torch: log(0) costs 100, not infinity
    return neg(add(mul(t, limited(log(x))), mul(sub(1, t), limited(log1p(neg(x))))));
  },
  (g, [x, t]) => [div(mul(g, sub(x, t)), maximum(mul(sub(1, x), x), 1e-12)), mul(g, sub(log1p(neg(x)), log(x)))],
);
/**
 * Takes probabilities. Unlike torch: values outside of [0, 1] are an error only if the host has them, otherwise NaN. For logits
 * use binaryCrossEntropyWithLogits, which is more precise.
 */
export function binaryCrossEntropy(input: Expr, target: Expr, { weight, reduction }: Weighted = {}): Expr {
  checkSameShape('binaryCrossEntropy', input, target);
  return reduced(
    'binaryCrossEntropy',
    weigh(bceOp(pair('binaryCrossEntropy', input, target), null), weight),
    reduction,
  );
}
/** Takes logits. `posWeight` multiplies the loss of targets of 1. In the target's dtype. */
export function binaryCrossEntropyWithLogits(
  input: Expr,
  target: Expr,
  { weight, posWeight, reduction }: Weighted & { readonly posWeight?: Expr } = {},
): Expr {
  const op = 'binaryCrossEntropyWithLogits';
  checkSameShape(op, input, target);
  const [x, t] = pair(op, input, target);
  const cost = log1pExp(neg(x));
  const scaled = posWeight ? mul(cost, add(mul(sub(posWeight, 1), t), 1)) : cost;
  return typedAs(reduced(op, weigh(add(mul(sub(1, t), x), scaled), weight), reduction), target);
}
export interface KlOptions {
  /** 'batchmean' divides the sum by the size of the first dimension: the mathematical divergence. */
  readonly reduction?: Reduction | 'batchmean';
  /** Whether the target is given as log probabilities. Default: false. */
  readonly logTarget?: boolean;
}
/** The Kullback-Leibler divergence of log probabilities from target probabilities. */
export function klDiv(input: Expr, target: Expr, { reduction = 'mean', logTarget = false }: KlOptions = {}): Expr {
  const [x, t] = pair('klDiv', input, target);
  const losses = logTarget ? mul(exp(t), sub(t, x)) : sub(xlogy(t, t), mul(t, x));
  if (reduction !== 'batchmean') return reduced('klDiv', losses, reduction);
  return div(reduceSum(losses), input.shape[0] ?? 1);
}
export interface PoissonOptions extends Reduced {
  readonly logInput?: boolean;
  readonly full?: boolean;
  readonly eps?: number;
}
/** Takes the log of the rate of a Poisson distribution, or the rate with logInput: false. `full` adds Stirling's term. */
export function poissonNllLoss(
  input: Expr,
  target: Expr,
  { logInput = true, full = false, eps = 1e-8, reduction }: PoissonOptions = {},
): Expr {
  const [x, t] = [input, target]; // they meet where they meet: the log of integers is an f32
  const losses = logInput ? sub(exp(x), mul(t, x)) : sub(x, mul(t, log(add(x, eps))));
  const many = gt(t, 1);
  const n = where(many, t, 1);
  const stirling = add(sub(mul(n, log(n)), n), mul(0.5, log(mul(2 * Math.PI, n))));
  return reduced(
    'poissonNllLoss',
    full ? add(losses, convert(where(many, stirling, 0), losses.dtype)) : losses,
    reduction,
  );
}
export interface GaussianOptions extends Reduced {
  readonly full?: boolean;
  readonly eps?: number;
}
/** Takes the mean of a normal distribution. `variance`: one for each element, each row, or all. */
export function gaussianNllLoss(
  input: Expr,
  target: Expr,
  variance: Operand,
  { full = false, eps = 1e-6, reduction }: GaussianOptions = {},
): Expr {
  const op = 'gaussianNllLoss';
  const shape = isExpr(variance) ? variance.shape : [];
  const rows = input.shape.slice(0, -1);
  const perRow = sameShape(shape, rows) && !sameShape(shape, input.shape);
  const lead = input.shape.length - shape.length;
  const stretches = lead >= 0 && shape.every((n, d) => n === 1 || n === input.shape[d + lead]);
  if (!perRow && !stretches) {
    throw new ShapeError(
      `${op}: the variance is ${(variance as Expr).aval}: it must broadcast to the input ${input.aval}, or have one value per row`,
    );
  }
  const rowwise = perRow && isExpr(variance) ? reshape(variance, [...rows, 1]) : variance;
  const [x, t, v] = alignFloats(op, [input, target, rowwise]) as [Expr, Expr, Expr];
  const limited = add(v, detach(sub(clamp(v, { min: eps }), v))); // the limit stops no gradient, as in torch
  const losses = mul(0.5, add(log(limited), div(square(sub(x, t)), limited)));
  return reduced(op, full ? add(losses, 0.5 * Math.log(2 * Math.PI)) : losses, reduction);
}

// ---- likeness and margins

const aboveZero = (x: Expr): Expr => clamp(x, { min: 0 });
export interface CosineOptions {
  readonly dim?: number;
  readonly eps?: number;
}
/**
 * The cosine of the angle between vectors along `dim` (default: 1). Unlike torch: for vectors shorter than eps the gradient is
 * that of the clamped function.
 */
export function cosineSimilarity(x1: Expr, x2: Expr, { dim = 1, eps = 1e-8 }: CosineOptions = {}): Expr {
  const op = 'cosineSimilarity';
  const [a, b] = pair(op, x1, x2);
  const d = normalizeDim(op, dim, a.shape.length);
  const dims = a.shape.length ? [d] : [];
  const dot = (p: Expr, q: Expr) => reduceSum(mul(p, q), dims);
  const unit = (x: Expr) => {
    const length = sqrt(clamp(dot(x, x), { min: eps * eps }));
    return div(
      x,
      reshape(
        length,
        x.shape.map((n, i) => (dims.includes(i) ? 1 : n)),
      ),
    );
  };
  const wide = wideType(a.dtype); // eps * eps is 0 in f16
  return convert(dot(unit(convert(a, wide)), unit(convert(b, wide))), a.dtype);
}

export interface Margin extends Reduced {
  readonly margin?: number;
}
/** Takes two vectors, or rows of vectors, and a target of 1 (similar) or -1 (dissimilar). */
export function cosineEmbeddingLoss(x1: Expr, x2: Expr, target: Expr, { margin = 0, reduction }: Margin = {}): Expr {
  const op = 'cosineEmbeddingLoss';
  if (target.shape.length > 1 || broadcastShapes(op, x1.shape, x2.shape).length !== target.shape.length + 1) {
    throw new ShapeError(
      `${op}: ${x1.aval} and ${x2.aval} with target ${target.aval}: give rows [N, D] and [N], or vectors [D] and []`,
    );
  }
  const dot = (p: Expr, q: Expr) => sum(mul(p, q), -1);
  const size = (p: Expr) => add(dot(p, p), 1e-12);
  const cosine = div(dot(x1, x2), sqrt(mul(size(x1), size(x2))));
  const unlike = where(eq(target, -1), aboveZero(sub(cosine, margin)), full([], 0, cosine.dtype));
  return reduced(op, where(eq(target, 1), sub(1, cosine), unlike), reduction);
}
/** Takes distances and a target of 1 (the loss is the distance) or -1 (the loss is margin - distance, at least 0). */
export function hingeEmbeddingLoss(input: Expr, target: Expr, { margin = 1, reduction }: Margin = {}): Expr {
  const x = floating(input);
  const losses = add(where(ne(target, 1), aboveZero(sub(margin, x)), 0), where(ne(target, -1), x, 0));
  return reduced('hingeEmbeddingLoss', losses, reduction);
}
/** The first input should rank above the second where the target is 1, below where it is -1. */
export function marginRankingLoss(x1: Expr, x2: Expr, target: Expr, { margin = 0, reduction }: Margin = {}): Expr {
  const losses = aboveZero(add(mul(neg(target), sub(...pair('marginRankingLoss', x1, x2))), margin));
  return reduced('marginRankingLoss', losses, reduction);
}
/** log(1 + exp(-target * input)), with targets of 1 and -1. */
export function softMarginLoss(input: Expr, target: Expr, { reduction }: Reduced = {}): Expr {
  checkSameShape('softMarginLoss', input, target);
  const [x, t] = pair('softMarginLoss', input, target);
  return reduced('softMarginLoss', log1pExp(neg(mul(t, x))), reduction);
}
export interface TripletOptions extends Margin {
  /** The norm of distances. */
  readonly p?: number;
  readonly eps?: number;
  /** Whether to use the distance from negative to positive if it is smaller. Default: false. */
  readonly swap?: boolean;
}
/** The anchor should be nearer to the positive than to the negative, by the margin. */
export function tripletMarginLoss(
  anchor: Expr,
  positive: Expr,
  negative: Expr,
  { margin = 1, p = 2, eps = 1e-6, swap = false, reduction }: TripletOptions = {},
): Expr {
  const op = 'tripletMarginLoss';
  if (!(margin > 0)) throw new ArgumentError(`${op}: margin is ${margin}: it must be above 0`);
  if (!anchor.shape.length) throw new ShapeError(`${op}: of ${anchor.aval}: it needs a dimension for the vectors`);
  const apart = (x: Expr, y: Expr) => norm(add(sub(...pair(op, x, y)), eps), { p, dim: -1 });
  const far = swap ? minimum(apart(anchor, negative), apart(positive, negative)) : apart(anchor, negative);
  return reduced(op, aboveZero(add(sub(apart(anchor, positive), far), margin)), reduction);
}

export interface LinearCrossEntropyOptions extends ClassOptions {
  readonly labelSmoothing?: number;
  readonly linearBias?: Expr;
}
/** crossEntropy of linear(input, linearWeight). Unlike torch: XLA decides how much of the logits is in memory at once. */
export function linearCrossEntropy(
  input: Expr,
  linearWeight: Expr,
  target: Expr,
  { linearBias, ...options }: LinearCrossEntropyOptions = {},
): Expr {
  const op = 'linearCrossEntropy';
  const [n, out] = [input.shape.slice(0, -1), linearWeight.shape.slice(0, -1)];
  if (input.shape.length < 1 || n.length > 1)
    throw new ShapeError(`${op}: takes an input [N, features] or [features], got ${input.aval}`);
  if (!out.length || linearWeight.shape.at(-1) !== input.shape.at(-1) || (out.length > 1 && !n.length))
    throw new ShapeError(`${op}: the weight ${linearWeight.aval} does not fit the input ${input.aval}`);
  if (linearBias && !sameShape(linearBias.shape, out))
    throw new ShapeError(`${op}: linearBias is ${linearBias.aval}: it takes ${showShape(out)}`);
  const flat = reshape(linearWeight, [sizeOf(out), linearWeight.shape.at(-1)!]);
  const logits = reshape(linear(input, flat), [...n, ...out]);
  return crossEntropy(linearBias ? add(logits, linearBias) : logits, target, options);
}
