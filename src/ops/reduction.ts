// torch's reductions over some or all dimensions, which are dropped or kept with size 1.
import { type DType, sizeOf } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { highest, lowest } from '../base/literal.js';
import { isComplex, isFloat, isInexact, wideType } from '../base/promote.js';
import { normalizeDim, normalizeDims } from '../base/shape.js';
import { Expr } from '../ir/expr.js';
import { checkNotEmpty, type DimOption, dimOptions, reduceOver } from './dims.js';
import { lerp } from './math.js';
import { floating, inWide, type Operand, resultType } from './prim/align.js';
import { reduceSum } from './prim/broadcast.js';
import { full, iota, onesLike } from './prim/constant.js';
import { svdReduced } from './prim/decompose.js';
import { gatherAlong, scatterAlong } from './prim/gather.js';
import { atLeast1, convert, flat, permute, reshape } from './prim/move.js';
import {
  abs,
  add,
  bitwiseRightShift,
  div,
  eq,
  exp,
  floor,
  ge,
  gt,
  isfinite,
  isnan,
  le,
  log,
  logicalAnd,
  logicalOr,
  maximum,
  minimum,
  mul,
  ne,
  neg,
  sign,
  sub,
  truth,
  where,
} from './prim/pointwise.js';
import { pow } from './prim/power.js';
import {
  reduceAnd,
  reduceExtreme,
  reduceMax,
  reduceMin,
  reduceOr,
  reduceProd,
  reduceTop,
  shared,
} from './prim/reduce.js';
import { associativeScan, runningProduct, runningSum } from './prim/scanning.js';
import { concat, sliceDim } from './prim/slice.js';
import { detach } from './prim/variable.js';
import { type QuantileOption, quantiles } from './quantiles.js';
import { sort } from './sorting.js';
import { lengthOver, root, varianceOver } from './stable.js';

/** Dimensions, and the dtype to convert to first. */
type SumOption =
  | DimOption
  | { readonly dim?: number | readonly number[]; readonly keepdim?: boolean; readonly dtype?: DType };
type VarianceOption =
  | DimOption
  | {
      readonly dim?: number | readonly number[];
      readonly keepdim?: boolean;
      readonly correction?: number;
      /** true: a correction of 1, false: of 0. */
      readonly unbiased?: boolean;
    };
/** One dimension, or an object that names it. */
type OneDim = number | { readonly dim: number; readonly keepdim?: boolean };
type Found = { readonly values: Expr; readonly indices: Expr };

const typed = (x: Expr, option: SumOption | undefined, otherwise: (x: Expr) => Expr): Expr => {
  const { dtype } = dimOptions(option) as { readonly dtype?: DType };
  return dtype ? convert(x, dtype) : otherwise(x);
};
/** Integers and booleans as i64. */
const counting = (x: Expr): Expr => (isInexact(x.dtype) ? x : convert(x, 'i64'));
const countOf = (x: Expr, dims: readonly number[]): number => sizeOf(dims.map((d) => x.shape[d]!));
/** The shape with those dimensions of size 1. */
const kept = (x: Expr, dims: readonly number[]): number[] => x.shape.map((n, d) => (dims.includes(d) ? 1 : n));

// ---- totals

/** Integers and booleans are summed as i64, as in torch. */
export const sum = (x: Expr, option?: SumOption): Expr =>
  reduceOver('sum', typed(x, option, counting), option, (y, dims) =>
    (y.dtype === 'bool' ? reduceOr : reduceSum)(y, dims),
  );
export const prod = (x: Expr, option?: SumOption): Expr =>
  reduceOver('prod', typed(x, option, counting), option, (y, dims) =>
    (y.dtype === 'bool' ? reduceAnd : reduceProd)(y, dims),
  );
/** Unlike torch: integers and booleans have a mean, in f32. */
export const mean = (x: Expr, option?: SumOption): Expr =>
  reduceOver('mean', typed(x, option, floating), option, (y, dims) =>
    inWide(y, (w) => div(reduceSum(w, dims), countOf(w, dims))),
  );
const withoutNaN = (x: Expr): Expr => (isFloat(x.dtype) ? where(isnan(x), 0, x) : x);
/** NaN counts as 0. */
export const nansum = (x: Expr, option?: SumOption): Expr => sum(withoutNaN(x), option);
/** The mean of the elements that are not NaN. */
export const nanmean = (x: Expr, option?: SumOption): Expr =>
  div(nansum(floating(x), option), sum(convert(eq(x, x), floating(x).dtype), option));
export const countNonzero = (x: Expr, dim?: DimOption): Expr => sum(truth(x), dim);
export const any = (x: Expr, dim?: DimOption): Expr => reduceOver('any', truth(x), dim, reduceOr);
export const all = (x: Expr, dim?: DimOption): Expr => reduceOver('all', truth(x), dim, reduceAnd);

// ---- extremes

const extremeValue = (op: string, x: Expr, dim: DimOption | undefined, reduce: typeof reduceMax): Expr =>
  reduceOver(op, x, dim, (y, dims) => {
    checkNotEmpty(op, y, dims);
    return reduce(y, dims);
  });
/** Equal extremes share the gradient. */
export const amax = (x: Expr, dim?: DimOption): Expr => extremeValue('amax', x, dim, reduceMax);
export const amin = (x: Expr, dim?: DimOption): Expr => extremeValue('amin', x, dim, reduceMin);
export const aminmax = (x: Expr, dim?: DimOption): { readonly min: Expr; readonly max: Expr } => ({
  min: extremeValue('aminmax', x, dim, reduceMin),
  max: extremeValue('aminmax', x, dim, reduceMax),
});

/** Applies a function along one dimension; a scalar is taken as one element. */
function along(op: string, x: Expr, option: ArgOption, find: (x: Expr, dim: number) => Found): Found {
  const { dim = -1, keepdim = false } = dimOptions(option);
  const [y, d] = [atLeast1(x), normalizeDim(op, dim, x.shape.length)];
  checkNotEmpty(op, y, [d]);
  const { values, indices } = find(y, d);
  const shape = !x.shape.length ? [] : keepdim ? kept(y, [d]) : y.shape.filter((_, i) => i !== d);
  return { values: reshape(values, shape), indices: reshape(indices, shape) };
}

/** One dimension by place, or by name. */
type AlongOne = [dim: number, keepdim?: boolean] | [options: Exclude<OneDim, number>];
const oneDim = ([dim, keepdim = false]: AlongOne): OneDim => (typeof dim === 'number' ? { dim, keepdim } : dim);
export interface Extremum {
  /** The extreme of all elements (equal ones share the gradient), or of each pair of elements of two tensors. */
  (x: Expr, other?: Expr): Expr;
  /** The extreme along one dimension, with its index: the first of equals gets the gradient. NaN wins. */
  (x: Expr, ...along: AlongOne): Found;
}
const extremum = (op: string, largest: boolean, reduce: typeof reduceMax, pairwise: typeof maximum) =>
  ((x: Expr, ...given: [other?: Expr] | AlongOne) => {
    const [other] = given;
    if (other === undefined) return shared(x, extremeValue(op, detach(x), undefined, reduce));
    if (other instanceof Expr) return pairwise(x, other);
    return along(op, x, oneDim(given as AlongOne), (y, dim) => reduceExtreme(y, dim, largest));
  }) as Extremum;
export const max = extremum('max', true, reduceMax, maximum);
export const min = extremum('min', false, reduceMin, minimum);

type ArgOption = number | { readonly dim?: number; readonly keepdim?: boolean };
const argExtreme = (op: string, largest: boolean) => (x: Expr, option?: ArgOption) => {
  const { dim, keepdim = false } = dimOptions(option);
  const find = (y: Expr, d: number) => reduceExtreme(detach(y), d, largest);
  if (dim !== undefined) return along(op, x, { dim, keepdim }, find).indices;
  return reshape(along(op, flat(x), 0, find).indices, keepdim ? x.shape.map(() => 1) : []);
};
/** The index of the largest element, the first of equals. Without dim: into the flattened tensor. */
export const argmax = argExtreme('argmax', true);
export const argmin = argExtreme('argmin', false);

// ---- spread

function moments(
  op: string,
  x: Expr,
  option: VarianceOption | undefined,
  finish: (variance: Expr) => Expr = (v) => v,
): [spread: Expr, mean: Expr] {
  const {
    dim,
    keepdim = false,
    unbiased = true,
    correction = Number(unbiased),
  } = dimOptions(option) as {
    readonly dim?: number | readonly number[];
    readonly keepdim?: boolean;
    readonly correction?: number;
    readonly unbiased?: boolean;
  };
  const given = floating(x);
  if (isComplex(given.dtype))
    throw new DTypeError(`${op}: takes real numbers, got ${x.aval}: add those of real() and imag()`);
  const y = convert(given, wideType(given.dtype));
  const dims = normalizeDims(op, Array.isArray(dim) && !dim.length ? undefined : dim, y.shape.length);
  const spread = finish(varianceOver([y], { dims, correction }));
  const shape = keepdim ? kept(y, dims) : spread.shape;
  const center = mean(y, { dim: dims, keepdim });
  return [convert(reshape(spread, shape), given.dtype), convert(center, given.dtype)];
}
/** `correction` (default: 1) is subtracted from the count: 0 for the variance of a whole population. */
const variance = (x: Expr, option?: VarianceOption): Expr => moments('var', x, option)[0];

export { variance as var };
export const std = (x: Expr, option?: VarianceOption): Expr => moments('std', x, option, root)[0];
/** The variance and the mean. */
export const varMean = (x: Expr, option?: VarianceOption): [variance: Expr, mean: Expr] =>
  moments('varMean', x, option);
/** The standard deviation and the mean. */
export const stdMean = (x: Expr, option?: VarianceOption): [std: Expr, mean: Expr] =>
  moments('stdMean', x, option, root);

// ---- norms

/** Complex numbers count by their absolute values. */
const lengths = (x: Expr): Expr => (isComplex(x.dtype) ? abs(x) : floating(x));
function normOver(x: Expr, p: number, dims: readonly number[]): Expr {
  const size = abs(x);
  if (p === 1) return reduceSum(size, dims);
  if (p === 2) return lengthOver([x], { dims });
  if (p === 0) return reduceSum(abs(sign(where(isnan(x), 1, x))), dims); // of slope 0
  if (!Number.isFinite(p)) {
    checkNotEmpty('norm', x, dims);
    return (p > 0 ? reduceMax : reduceMin)(size, dims);
  }
  // Zeros are kept out of the power, whose slope there may be infinite.
  const zero = eq(x, 0);
  const powers = where(zero, full([], p < 0 ? Number.POSITIVE_INFINITY : 0, x.dtype), pow(where(zero, 1, size), p));
  return pow(reduceSum(powers, dims), 1 / p);
}
export interface NormOption {
  readonly p?: number;
  readonly dim?: number | readonly number[];
  readonly keepdim?: boolean;
}
/** (sum of |x|^p)^(1/p) over some dimensions or all; p may be any number, Infinity or -Infinity. */
export const vectorNorm = (x: Expr, { p = 2, ...option }: NormOption = {}): Expr =>
  reduceOver('vectorNorm', lengths(x), option, (y, dims) => inWide(y, (w) => normOver(w, p, dims)));
/**
 * The norm of the elements as one vector, also for a matrix; 'fro' is p = 2, 'nuc' the sum of singular values. For other
 * matrix norms use linalg.matrixNorm.
 */
export function norm(
  x: Expr,
  { p = 'fro', ...option }: Omit<NormOption, 'p'> & { readonly p?: number | 'fro' | 'nuc' } = {},
): Expr {
  return reduceOver('norm', lengths(x), option, (y, dims) =>
    inWide(y, (w) => (p === 'nuc' ? nuclear(w, dims) : normOver(w, p === 'fro' ? 2 : p, dims))),
  );
}
function nuclear(x: Expr, dims: readonly number[]): Expr {
  if (dims.length !== 2) throw new ShapeError(`norm: 'nuc' is for matrices: give two dimensions of ${x.aval}`);
  const turned = permute(x, [...x.shape.keys()].filter((d) => !dims.includes(d)).concat(dims));
  if (!x.aval.size) return reduceSum(x, dims);
  const [, s] = svdReduced([turned], null) as [Expr, Expr, Expr];
  return reduceSum(s, [s.shape.length - 1]);
}

/** The norm of the difference, after broadcasting. */
export const dist = (x: Expr, other: Expr, p: number = 2): Expr => norm(sub(x, other), { p });

/** What is subtracted before exp: it cancels, so it needs no gradient; infinities would leave NaN behind. */
const anchor = (x: Expr): Expr => where(isfinite(detach(x)), detach(x), 0);
/** log(sum(exp(x))) without overflow. */
export const logsumexp = (x: Expr, dim?: DimOption): Expr =>
  reduceOver('logsumexp', floating(x), dim, (y, dims) =>
    inWide(y, (w) => {
      const top = anchor(reduceTop(w, dims));
      return add(log(reduceSum(exp(sub(w, reshape(top, kept(w, dims)))), dims)), top);
    }),
  );

// ---- order statistics

export interface OrderStatistic {
  /** Of all elements; equal ones share the gradient. */
  (x: Expr): Expr;
  (x: Expr, ...along: AlongOne): Found;
}
/** `place` says which of the sorted elements it is, given how many are NaN (they come last). */
const orderStatistic = (op: string, place: (n: number, nans: Expr) => Expr) => {
  const find = (x: Expr, dim: number): Found => {
    const nans = sum(isnan(x), { dim, keepdim: true });
    const indices = gatherAlong(sort(detach(x), { dim }).indices, place(x.shape[dim]!, nans), dim);
    return { values: gatherAlong(x, indices, dim, 'unique'), indices };
  };
  return ((x: Expr, ...given: [] | AlongOne) =>
    given[0] === undefined
      ? shared(x, along(op, flat(detach(x)), 0, find).values)
      : along(op, x, oneDim(given as AlongOne), find)) as OrderStatistic;
};
/** The median, the lower one of two; the first NaN if there is any. */
export const median = orderStatistic('median', (n, nans) => where(gt(nans, 0), sub(n, nans), Math.floor((n - 1) / 2)));
/** The median of the elements that are not NaN. */
export const nanmedian = orderStatistic('nanmedian', (n, nans) => bitwiseRightShift(maximum(sub(n - 1, nans), 0), 1));

/** The most frequent value, the smallest of equally frequent ones, and its last index. */
export function mode(x: Expr, option: ArgOption = {}): Found {
  return along('mode', x, option, (y, dim) => {
    // torch counts NaN as the smallest, and no two of them as equal.
    const sorted = isFloat(y.dtype) ? sort(neg(detach(y)), { dim, descending: true }) : sort(detach(y), { dim });
    const places = iota(y.shape, dim, 'i64');
    const n = y.shape[dim]!;
    const isNew = ne(sliceDim(sorted.values, dim, 1, n), sliceDim(sorted.values, dim, 0, n - 1));
    const starts = concat([full(kept(y, [dim]), 0, 'i64'), where(isNew, sliceDim(places, dim, 1, n), 0)], dim);
    const [start] = associativeScan([starts] as const, dim, [0], ([a], [b]) => [maximum(a, b)] as const);
    const end = reduceExtreme(sub(places, start), dim, true).indices;
    const indices = gatherAlong(sorted.indices, reshape(end, kept(y, [dim])), dim);
    return { values: gatherAlong(y, indices, dim, 'unique'), indices };
  });
}

const INTERPOLATIONS = {
  linear: (at: number) => at - Math.floor(at),
  lower: () => 0,
  higher: (at: number) => (at > Math.floor(at) ? 1 : 0),
  midpoint: (at: number) => (at > Math.floor(at) ? 0.5 : 0),
  // ties to even, as torch rounds
  nearest: (at: number) => (at % 1 === 0.5 ? Math.floor(at) % 2 : Math.round(at) - Math.floor(at)),
};
/**
 * The value below which a fraction q of the elements lies; several q give a leading dimension. NaN if any element is NaN.
 * Unlike torch: a q in a tensor is not checked to be between 0 and 1.
 */
export function quantile(x: Expr, q: number | readonly number[] | Expr, option: QuantileOption = {}): Expr {
  if (q instanceof Expr) return quantiles('quantile', x, q, option, false);
  const { dim, keepdim = false, interpolation = 'linear' } = option;
  const qs = typeof q === 'number' ? [q] : q;
  const bad = qs.find((share) => !(share >= 0 && share <= 1));
  if (bad !== undefined) throw new ArgumentError(`quantile: q is ${bad} for ${x.aval}: it must be between 0 and 1`);
  if (!qs.length) throw new ArgumentError(`quantile: q is an empty list for ${x.aval}: give at least one number`);
  if (!isFloat(x.dtype))
    throw new DTypeError(`quantile: takes floating point numbers, got ${x.aval}: convert it first`);
  const y = dim === undefined ? flat(x) : atLeast1(x);
  const d = normalizeDim('quantile', dim ?? 0, y.shape.length);
  checkNotEmpty('quantile', y, [d]);
  const n = y.shape[d]!;
  const sorted = sort(y, { dim: d }).values;
  const last = sliceDim(sorted, d, n - 1, n); // NaN comes last
  const rest =
    dim === undefined
      ? keepdim
        ? x.shape.map(() => 1)
        : []
      : !x.shape.length
        ? []
        : keepdim
          ? kept(y, [d])
          : y.shape.filter((_, i) => i !== d);
  const found = qs.map((share) => {
    const at = share * (n - 1);
    const low = Math.floor(at);
    const [a, b] = [
      sliceDim(sorted, d, low, low + 1),
      sliceDim(sorted, d, Math.min(low + 1, n - 1), Math.min(low + 2, n)),
    ];
    const weight = INTERPOLATIONS[interpolation](at);
    const value = weight === 0 ? a : weight === 1 ? b : lerp(a, b, weight);
    return reshape(where(isnan(last), last, value), [1, ...rest]);
  });
  return typeof q === 'number' ? reshape(found[0]!, rest) : concat(found, 0);
}

// ---- running

type RunningOption = number | { readonly dim: number; readonly dtype?: DType };
/** A running function along a dimension; of small floats it is made in f32. */
function running(op: string, x: Expr, option: RunningOption, f: (x: Expr, dim: number) => Expr): Expr {
  const { dim = 0 } = dimOptions(option) as { dim?: number };
  const d = normalizeDim(op, dim, x.shape.length);
  const wide = convert(x, wideType(x.dtype));
  return convert(reshape(f(atLeast1(wide), d), x.shape), x.dtype);
}
/** Each element with all before it along a dimension. */
export const cumsum = (x: Expr, dim: RunningOption): Expr =>
  running('cumsum', typed(x, dim as SumOption, counting), dim, runningSum);
export const cumprod = (x: Expr, dim: RunningOption): Expr =>
  running('cumprod', typed(x, dim as SumOption, counting), dim, runningProduct);
const logAddExp = (a: Expr, b: Expr): Expr => {
  const top = anchor(maximum(a, b));
  return add(log(add(exp(sub(a, top)), exp(sub(b, top)))), top);
};
export const logcumsumexp = (x: Expr, dim: number | { readonly dim: number }): Expr =>
  running(
    'logcumsumexp',
    floating(x),
    dim,
    (y, d) => associativeScan([y] as const, d, [Number.NEGATIVE_INFINITY], ([a], [b]) => [logAddExp(a, b)] as const)[0],
  );

// Each step chooses one of two, so the gradient finds its way back to the element chosen; the index needs none.
const runningExtreme =
  (op: string, worst: typeof lowest, reaches: typeof ge) => (x: Expr, option: number | { readonly dim: number }) => {
    const { dim } = dimOptions(option) as { dim: number };
    const d = normalizeDim(op, dim, x.shape.length);
    const y = atLeast1(x);
    const [values, indices] = associativeScan(
      [y, iota(y.shape, d, 'i32')] as const,
      d,
      [worst(y.dtype), 0],
      ([a, i], [b, j]) => {
        const later = logicalOr(isnan(b), logicalAnd(eq(a, a), reaches(b, a)));
        return [where(later, b, a), where(later, j, i)] as const;
      },
    );
    return { values: reshape(values, x.shape), indices: convert(reshape(indices, x.shape), 'i64') };
  };
/** The largest element so far and its index, the last of equals; NaN propagates. */
export const cummax = runningExtreme('cummax', lowest, ge);
export const cummin = runningExtreme('cummin', highest, le);

// ---- neighbours

export interface DiffOption {
  readonly n?: number;
  readonly dim?: number;
  readonly prepend?: Expr;
  readonly append?: Expr;
}
/** Differences of neighbours, n times over. Of booleans: whether they differ. */
export function diff(x: Expr, { n = 1, dim = -1, prepend, append }: DiffOption = {}): Expr {
  if (!x.shape.length) throw new ShapeError(`diff: ${x.aval} has no dimension to take differences along`);
  if (!Number.isInteger(n) || n < 0)
    throw new ArgumentError(`diff: n must be a whole number and not negative, got ${n}`);
  const d = normalizeDim('diff', dim, x.shape.length);
  const given = [prepend, x, append].filter((y) => y !== undefined);
  const dtype = resultType(...given);
  let y = concat(
    given.map((g) => convert(g, dtype)),
    d,
  );
  for (let i = 0; i < n && y.shape[d]! > 0; i++) {
    const size = y.shape[d]!;
    const [after, before] = [sliceDim(y, d, 1, size), sliceDim(y, d, 0, size - 1)];
    y = dtype === 'bool' ? ne(after, before) : sub(after, before);
  }
  return y;
}

export interface TrapezoidOption {
  /** The points; of y's shape, or one row for all. */
  readonly x?: Expr;
  /** Their distance, if it is the same everywhere. */
  readonly dx?: number;
  readonly dim?: number;
}
function trapezoids(op: string, y: Expr, { x, dx = 1, dim = -1 }: TrapezoidOption): [areas: Expr, dim: number] {
  if (!y.shape.length) throw new ShapeError(`${op}: ${y.aval} has no dimension to integrate along`);
  const d = normalizeDim(op, dim, y.shape.length);
  const n = y.shape[d]!;
  if (x && x.shape.at(x.shape.length === 1 ? 0 : d - y.shape.length) !== n)
    throw new ShapeError(`${op}: x must have one point for each of y along dim ${d}, got ${x.aval} for ${y.aval}`);
  const row = x && x.shape.length === 1 && y.shape.length > 1;
  const points = row
    ? reshape(
        x,
        y.shape.map((_, i) => (i === d ? n : 1)),
      )
    : x;
  const width: Operand = points ? diff(points, { dim: d - y.shape.length }) : dx;
  const f = floating(y);
  const [after, before] = [sliceDim(f, d, Math.min(1, n), n), sliceDim(f, d, 0, Math.max(n - 1, 0))];
  return [mul(div(add(after, before), 2), width), d];
}
/** The integral by the trapezoidal rule. */
export function trapezoid(y: Expr, option: TrapezoidOption = {}): Expr {
  const [areas, dim] = trapezoids('trapezoid', y, option);
  return sum(areas, dim);
}
export function cumulativeTrapezoid(y: Expr, option: TrapezoidOption = {}): Expr {
  const [areas, dim] = trapezoids('cumulativeTrapezoid', y, option);
  return cumsum(areas, dim);
}

// ---- counts

export interface HistcOption {
  readonly bins?: number;
  readonly min?: number;
  readonly max?: number;
}
/** The number of elements in each of `bins` equal parts of min to max, or of the range of the elements if min equals max. */
export function histc(x: Expr, { bins = 100, min: low = 0, max: high = 0 }: HistcOption = {}): Expr {
  if (!isFloat(x.dtype)) throw new DTypeError(`histc: takes floating point numbers, got ${x.aval}`);
  if (!Number.isInteger(bins) || bins < 1 || high < low)
    throw new ArgumentError(
      `histc: ${bins} bins from ${low} to ${high} for ${x.aval}: it needs bins >= 1 and max >= min`,
    );
  const y = flat(detach(x));
  const own = low === high && y.shape[0]! > 0;
  const [least, most] = own ? [reduceMin(y), reduceMax(y)] : [full([], low, x.dtype), full([], high, x.dtype)];
  const widen = convert(eq(least, most), x.dtype); // all alike: one to each side
  const [from, to] = [sub(least, widen), add(most, widen)];
  const bin = minimum(floor(div(mul(sub(y, from), bins), sub(to, from))), bins - 1);
  const inside = logicalAnd(ge(y, from), le(y, to));
  return scatterAlong(full([bins], 0, x.dtype), where(inside, convert(bin, 'i64'), bins), onesLike(y), 0, 'add');
}
