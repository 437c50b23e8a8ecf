// Discrete Fourier transforms of any dimensions, with torch's options. Public as tx.fft (src/fft).
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { isComplex, isFloat } from '../base/promote.js';
import { normalizeDim, normalizeDims, range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { conjugate, toComplex } from './prim/complex.js';
import { type FftKind, fftLast } from './prim/fft.js';
import { convert, permute } from './prim/move.js';
import { mul } from './prim/pointwise.js';
import { padDim, sliceDim } from './prim/slice.js';

/** The scaling. backward: 1 / n for the inverse transform; forward: 1 / n for the forward one; ortho: 1 / sqrt(n) for both. */
export type FftNorm = 'backward' | 'forward' | 'ortho';

const scaleOf = (op: string, norm: FftNorm | null, n: number, isInverse: boolean): number => {
  const of = norm ?? 'backward';
  if (!['backward', 'forward', 'ortho'].includes(of))
    throw new ArgumentError(`${op}: norm is '${of}': use 'backward', 'forward' or 'ortho'`);
  if (of === 'ortho') return 1 / Math.sqrt(n);
  return (of === 'forward') === isInverse ? 1 : 1 / n;
};

/** A dimension cut, or filled with zeros, to n. */
const resized = (x: Expr, dim: number, n: number): Expr => {
  const size = x.shape[dim]!;
  return size > n ? sliceDim(x, dim, 0, n) : size < n ? padDim(x, dim, 0, n - size) : x;
};
/** f along one dimension as along the last. */
function along(x: Expr, dim: number, f: (x: Expr) => Expr): Expr {
  const last = x.shape.length - 1;
  if (dim === last) return f(x);
  const swap = range(last + 1).map((d) => (d === dim ? last : d === last ? dim : d));
  return permute(f(permute(x, swap)), swap);
}

const floatOf = (op: string, x: Expr): Expr => {
  if (isComplex(x.dtype)) throw new DTypeError(`${op}: takes real numbers, got ${x.aval}: use fft`);
  return isFloat(x.dtype) ? convert(x, x.dtype === 'f64' ? 'f64' : 'f32') : convert(x, 'f32');
};
const complexOf = (x: Expr): Expr => (isComplex(x.dtype) ? x : toComplex(floatOf('fft', x)));

/** Which transform, of how many points, along which dimension. */
export interface OneFft {
  readonly n?: number | null;
  readonly dim?: number;
  readonly norm?: FftNorm | null;
}
interface Kind {
  readonly name: string;
  readonly kind: FftKind;
  /** XLA's inverse ones divide by n. */
  readonly isInverse: boolean;
}

export function transform({ name, kind, isInverse }: Kind, x: Expr, { n = null, dim = -1, norm = null }: OneFft): Expr {
  if (!x.shape.length) throw new ShapeError(`${name}: takes at least one dimension, got ${x.aval}`);
  const d = normalizeDim(name, dim, x.shape.length);
  const given = kind === 'RFFT' ? floatOf(name, x) : complexOf(x);
  const points = n ?? (kind === 'IRFFT' ? 2 * (x.shape[d]! - 1) : x.shape[d]!);
  if (!Number.isInteger(points) || points < 1)
    throw new ArgumentError(`${name}: n is ${points}: it must be a whole number above 0`);
  const scale = scaleOf(name, norm, points, isInverse) * (kind === 'IFFT' || kind === 'IRFFT' ? points : 1);
  const fitted = resized(given, d, kind === 'IRFFT' ? Math.floor(points / 2) + 1 : points);
  const y = along(fitted, d, (z) => fftLast(z, kind, points));
  return scale === 1 ? y : mul(y, scale);
}

const FORWARD: Kind = { name: 'fft', kind: 'FFT', isInverse: false };
const INVERSE: Kind = { name: 'ifft', kind: 'IFFT', isInverse: true };
export const fft1 = (x: Expr, o: OneFft): Expr => transform(FORWARD, x, o);
export const ifft1 = (x: Expr, o: OneFft): Expr => transform(INVERSE, x, o);
export const rfft1 = (x: Expr, o: OneFft): Expr => transform({ name: 'rfft', kind: 'RFFT', isInverse: false }, x, o);
export const irfft1 = (x: Expr, o: OneFft): Expr => transform({ name: 'irfft', kind: 'IRFFT', isInverse: true }, x, o);
/** The forward transform of a Hermitian signal, given its first half: the result is real. */
export const hfft1 = (x: Expr, o: OneFft): Expr =>
  transform({ name: 'hfft', kind: 'IRFFT', isInverse: false }, conjugate(complexOf(x)), o);
export const ihfft1 = (x: Expr, o: OneFft): Expr =>
  conjugate(transform({ name: 'ihfft', kind: 'RFFT', isInverse: true }, x, o));

/** Several dimensions, with a size for each. */
export interface ManyFft {
  readonly s?: readonly number[] | null;
  readonly dim?: number | readonly number[] | null;
  readonly norm?: FftNorm | null;
}
/** The dimensions, and the points of each (undefined: as many as there are). */
function axesOf(name: string, x: Expr, { s, dim }: ManyFft): { dims: number[]; sizes: (number | undefined)[] } {
  const rank = x.shape.length;
  const dims =
    dim != null
      ? (typeof dim === 'number' ? [dim] : [...dim]).map((d) => normalizeDim(name, d, rank))
      : s
        ? range(s.length).map((i) => rank - s.length + i)
        : range(rank);
  if (s && s.length !== dims.length)
    throw new ArgumentError(`${name}: ${s.length} sizes for ${dims.length} dimensions`);
  if (new Set(dims).size !== dims.length)
    throw new ArgumentError(`${name}: dim is [${dims}]: it must not repeat a dimension`);
  normalizeDims(name, dims, rank);
  return { dims, sizes: dims.map((_, i) => (s?.[i] === -1 ? undefined : s?.[i])) };
}
const one = (n: number | undefined, dim: number, norm: FftNorm | null | undefined): OneFft => ({
  n: n ?? null,
  dim,
  norm: norm ?? null,
});

const several =
  (name: string, f: (x: Expr, o: OneFft) => Expr) =>
  (x: Expr, options: ManyFft): Expr => {
    const { dims, sizes } = axesOf(name, x, options);
    return dims.reduceRight((y, d, i) => f(y, one(sizes[i], d, options.norm)), complexOf(x));
  };
export const fftMany = several('fftn', fft1);
export const ifftMany = several('ifftn', ifft1);
/** The last dimension first, which is halved. */
export function rfftMany(x: Expr, options: ManyFft): Expr {
  const { dims, sizes } = axesOf('rfftn', x, options);
  if (!dims.length) throw new ArgumentError('rfftn: takes at least one dimension');
  const last = dims.length - 1;
  const half = rfft1(x, one(sizes[last], dims[last]!, options.norm));
  return dims.slice(0, -1).reduceRight((y, d, i) => fft1(y, one(sizes[i], d, options.norm)), half);
}
export function irfftMany(x: Expr, options: ManyFft): Expr {
  const { dims, sizes } = axesOf('irfftn', x, options);
  if (!dims.length) throw new ArgumentError('irfftn: takes at least one dimension');
  const last = dims.length - 1;
  const whole = dims.slice(0, -1).reduce((y, d, i) => ifft1(y, one(sizes[i], d, options.norm)), complexOf(x));
  return irfft1(whole, one(sizes[last], dims[last]!, options.norm));
}
/** The forward transform over several dimensions of a signal that is Hermitian in the last one. */
export function hfftMany(x: Expr, options: ManyFft): Expr {
  const { dims, sizes } = axesOf('hfftn', x, options);
  if (!dims.length) throw new ArgumentError('hfftn: takes at least one dimension');
  const last = dims.length - 1;
  const whole = dims.slice(0, -1).reduce((y, d, i) => fft1(y, one(sizes[i], d, options.norm)), complexOf(x));
  return hfft1(whole, one(sizes[last], dims[last]!, options.norm));
}
export function ihfftMany(x: Expr, options: ManyFft): Expr {
  const { dims, sizes } = axesOf('ihfftn', x, options);
  if (!dims.length) throw new ArgumentError('ihfftn: takes at least one dimension');
  const last = dims.length - 1;
  const half = ihfft1(x, one(sizes[last], dims[last]!, options.norm));
  return dims.slice(0, -1).reduceRight((y, d, i) => ifft1(y, one(sizes[i], d, options.norm)), half);
}
