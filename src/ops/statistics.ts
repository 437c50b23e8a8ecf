// Statistics of several variables, histograms, and quantiles without NaN.
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isFloat, isInteger } from '../base/promote.js';
import { range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { clamp } from './math.js';
import { matmul } from './matmul.js';
import { diagonal } from './parts.js';
import { floating } from './prim/align.js';
import { reduceSum } from './prim/broadcast.js';
import { full, iota, onesLike } from './prim/constant.js';
import { scatterAlong } from './prim/gather.js';
import { convert, flat, permute, reshape } from './prim/move.js';
import { add, div, eq, ge, le, logicalAnd, maximum, minimum, mul, sqrt, sub, where } from './prim/pointwise.js';
import { reduceMax, reduceMin } from './prim/reduce.js';
import { sliceDim } from './prim/slice.js';
import { detach } from './prim/variable.js';
import { type QuantileOption, quantiles } from './quantiles.js';
import { searchsorted } from './sorting.js';

// ---- variables in rows, observations in columns

export interface CovOption {
  /** Subtracted from the number of observations. Default: 1. */
  readonly correction?: number;
  /** How often each observation occurs: integers. */
  readonly fweights?: Expr;
  /** The weight of each observation. */
  readonly aweights?: Expr;
}
/** The covariance matrix of variables [variables, observations], or of one. */
export function cov(x: Expr, { correction = 1, fweights, aweights }: CovOption = {}): Expr {
  if (x.shape.length > 2) throw new ShapeError(`cov: takes [variables, observations] or one variable, got ${x.aval}`);
  if (x.dtype === 'bool') throw new DTypeError(`cov: takes numbers, got ${x.aval}: convert it first`);
  const n = x.shape.length ? x.shape.at(-1)! : 1;
  const weightsOf = (name: string, w: Expr | undefined) => {
    if (w && (w.shape.length !== 1 || w.aval.size !== n))
      throw new ShapeError(`cov: ${name} is ${w.aval}, but ${x.aval} has ${n} observations: give one for each`);
    return w;
  };
  if (fweights && !isInteger(fweights.dtype))
    throw new DTypeError(`cov: fweights must be integers, got ${fweights.aval}`);
  const y = reshape(floating(x), [x.shape.length < 2 ? 1 : x.shape[0]!, n]);
  const given = [weightsOf('fweights', fweights), weightsOf('aweights', aweights)].flatMap((w) =>
    w ? [convert(w, y.dtype)] : [],
  );
  const w = given.length ? given.reduce((a, b) => mul(a, b)) : undefined;
  const total = w ? reduceSum(w) : full([], n, y.dtype);
  const mean = div(reduceSum(w ? mul(y, w) : y, [1]), total);
  // Frequencies count as many observations; other weights as their mean over the observations.
  const less =
    aweights && correction && w
      ? mul(div(reduceSum(mul(w, convert(aweights, y.dtype))), total), correction)
      : full([], correction, y.dtype);
  const centered = sub(y, reshape(mean, [y.shape[0]!, 1]));
  const norm = maximum(sub(total, less), 0);
  const product = matmul(w ? mul(centered, w) : centered, permute(centered, [1, 0]));
  const matrix = div(product, norm);
  return y.shape[0] === 1 ? reshape(matrix, []) : matrix; // of one variable: a number, as in torch
}
/** The correlation coefficients of variables [variables, observations], or of one. */
export function corrcoef(x: Expr): Expr {
  const c = cov(x);
  if (!c.shape.length) return div(c, c);
  const n = c.shape[0]!;
  const d = sqrt(diagonal(c));
  return clamp(div(div(c, reshape(d, [n, 1])), reshape(d, [1, n])), { min: -1, max: 1 });
}

// ---- histograms

export interface HistogramOption {
  /** The range of the bins, if their number is given. Default: minimum to maximum. */
  readonly range?: readonly [number, number];
  /** The weight of each element. */
  readonly weight?: Expr;
  /** Whether to divide by the total and the widths. Default: false. */
  readonly density?: boolean;
}
/** The edges of bins: given, or of equal widths in a range. */
function edgesOf(op: string, x: Expr, bins: number | Expr, limits: readonly [number, number] | undefined): Expr {
  if (typeof bins !== 'number') {
    if (bins.shape.length !== 1 || bins.aval.size < 2)
      throw new ShapeError(`${op}: edges of bins must be a vector of two or more, got ${bins.aval}`);
    return convert(bins, x.dtype);
  }
  if (!Number.isInteger(bins) || bins < 1)
    throw new ArgumentError(`${op}: bins is ${bins}: it must be a whole number, 1 or more`);
  const own = !limits && x.aval.size > 0;
  const [a, b] = own
    ? [reduceMin(x), reduceMax(x)]
    : ((limits ?? [0, 0]).map((v) => full([], v, x.dtype)) as [Expr, Expr]);
  const same = eq(a, b); // all alike: one half to each side
  const [low, high] = [where(same, sub(a, 0.5), a), where(same, add(b, 0.5), b)];
  const share = div(iota([bins + 1], 0, x.dtype), bins);
  const line = add(mul(low, sub(1, share)), mul(high, share));
  return line;
}
/** The bin of each element between edges, the last edge included; as many as there are bins: none. */
function binOf(x: Expr, edges: Expr): Expr {
  const bins = edges.aval.size - 1;
  const last = sliceDim(edges, 0, bins, bins + 1);
  const first = sliceDim(edges, 0, 0, 1);
  const at = minimum(sub(searchsorted(edges, x, { right: true }), 1), bins - 1);
  return where(logicalAnd(ge(x, first), le(x, last)), at, bins);
}
/** How many elements lie in each bin: bins of equal widths, or between the edges in a tensor. */
export function histogram(
  x: Expr,
  bins: number | Expr,
  { range: limits, weight, density = false }: HistogramOption = {},
): { readonly hist: Expr; readonly binEdges: Expr } {
  if (!isFloat(x.dtype)) throw new DTypeError(`histogram: takes floating point numbers, got ${x.aval}`);
  const y = flat(detach(x));
  const binEdges = edgesOf('histogram', y, bins, limits);
  const n = binEdges.aval.size - 1;
  const each = weight ? flat(convert(weight, x.dtype)) : onesLike(y);
  const counts = scatterAlong(full([n], 0, x.dtype), binOf(y, binEdges), each, 0, 'add');
  const widths = sub(sliceDim(binEdges, 0, 1, n + 1), sliceDim(binEdges, 0, 0, n));
  return { hist: density ? div(div(counts, reduceSum(counts)), widths) : counts, binEdges };
}
/**
 * How many points [..., n] lie in each cell of a grid of n dimensions. `bins`: their number, in each dimension, or edges.
 * The results: the counts, then the edges of each dimension.
 */
export function histogramdd(
  x: Expr,
  bins: number | readonly number[] | readonly Expr[],
  {
    range: limits,
    weight,
    density = false,
  }: Omit<HistogramOption, 'range'> & { readonly range?: readonly number[] } = {},
): Expr[] {
  if (!isFloat(x.dtype) || x.shape.length < 2)
    throw new ShapeError(`histogramdd: takes points [..., n] as floating point numbers, got ${x.aval}`);
  const n = x.shape.at(-1)!;
  const points = reshape(detach(x), [x.aval.size / Math.max(n, 1), n]);
  if (typeof bins !== 'number' && bins.length !== n)
    throw new ArgumentError(
      `histogramdd: bins has ${bins.length} elements, but the points of ${x.aval} have ${n} dimensions: give one for each`,
    );
  if (!n) throw new ShapeError(`histogramdd: the points of ${x.aval} have no dimensions`);
  const each = range(n).map((d) => (typeof bins === 'number' ? bins : bins[d]!));
  const columns = range(n).map((d) => reshape(sliceDim(points, 1, d, d + 1), [points.shape[0]!]));
  const edges = columns.map((c, d) =>
    edgesOf('histogramdd', c, each[d]!, limits && [limits[2 * d]!, limits[2 * d + 1]!]),
  );
  const sizes = edges.map((e) => e.aval.size - 1);
  const total = sizes.reduce((a, b) => a * b, 1);
  const places = columns.map((c, d) => binOf(c, edges[d]!));
  const outside = places.map((p, d) => eq(p, sizes[d]!)).reduce((a, b) => where(a, true, b));
  const cell = places.reduce((at, p, d) => add(mul(at, sizes[d]!), p), full(places[0]!.shape, 0, 'i64'));
  const counted = weight ? flat(convert(weight, x.dtype)) : onesLike(columns[0]!);
  const counts = scatterAlong(full([total], 0, x.dtype), where(outside, total, cell), counted, 0, 'add');
  const hist = reshape(counts, sizes);
  if (!density) return [hist, ...edges];
  const volume = edges.reduce(
    (h, e, d) => {
      const width = sub(sliceDim(e, 0, 1, sizes[d]! + 1), sliceDim(e, 0, 0, sizes[d]!));
      return div(
        h,
        reshape(
          width,
          sizes.map((s, k) => (k === d ? s : 1)),
        ),
      );
    },
    div(hist, reduceSum(counts)),
  );
  return [volume, ...edges];
}

// ---- quantiles

/** The value below which a fraction q of the elements that are not NaN lies; several q give a leading dimension. */
export const nanquantile = (x: Expr, q: number | readonly number[] | Expr, option: QuantileOption = {}): Expr =>
  quantiles('nanquantile', x, q, option, true);
