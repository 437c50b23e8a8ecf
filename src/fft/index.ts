// tx.fft: torch.fft's discrete Fourier transforms, on XLA's FFT, with gradients.
import '../tensor/index.js'; // side effect: installs the Tensor methods
import { checkWhole } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { range, type Shape } from '../base/shape.js';
import { describe } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';
import * as fourier from '../ops/fourier.js';
import { named } from '../tensor/arguments.js';
import { arange, type TensorOptions } from '../tensor/create.js';
import { cat } from '../tensor/functions.js';
import { Tensor } from '../tensor/tensor.js';

export type Norm = fourier.FftNorm;
export interface FftOptions {
  /** The number of points: the dimension is truncated or zero-padded. Default: its size. */
  readonly n?: number | null;
  /** Default: the last one. */
  readonly dim?: number;
  /** The direction that divides by n: 'backward' or 'forward'; 'ortho' divides both by its square root. Default: 'backward'. */
  readonly norm?: Norm | null;
}
export interface FftnOptions {
  /** The number of points of each dimension. */
  readonly s?: Shape | null;
  /** Default: all, or the last `s.length`; the last two for two-dimensional functions. */
  readonly dim?: number | Shape | null;
  readonly norm?: Norm | null;
}
type One = [options?: FftOptions] | [n: number | null, dim?: number, norm?: Norm | null];
type Many = [options?: FftnOptions] | [s: Shape | null, dim?: number | Shape | null, norm?: Norm | null];

const KNOWN = ['n', 's', 'dim', 'norm'];
function given<O extends object>(
  op: string,
  x: Tensor,
  order: readonly (keyof O & string)[],
  args: readonly unknown[],
): O {
  if (!(x instanceof Tensor)) throw new ArgumentError(`${op}: takes a tensor, got ${describe(x)}`);
  const options = named<O>(order, args);
  const odd = Object.keys(options).find((k) => !KNOWN.includes(k) || !(order as readonly string[]).includes(k));
  if (odd) throw new ArgumentError(`${op}: unknown option ${odd}: use ${order.join(', ')}`);
  return Object.fromEntries(Object.entries(options).filter(([, v]) => v !== undefined)) as O;
}
const one = (op: string, f: (x: Expr, o: fourier.OneFft) => Expr) =>
  entry(
    (x: Tensor, ...args: One): Tensor => new Tensor(f(x.expr, given<FftOptions>(op, x, ['n', 'dim', 'norm'], args))),
    op,
  );
const many = (op: string, f: (x: Expr, o: fourier.ManyFft) => Expr, dim?: Shape) =>
  entry((x: Tensor, ...args: Many): Tensor => {
    const options = given<FftnOptions>(op, x, ['s', 'dim', 'norm'], args);
    return new Tensor(f(x.expr, dim && options.dim == null ? { ...options, dim } : options));
  }, op);

export const fft = one('fft', fourier.fft1);
export const ifft = one('ifft', fourier.ifft1);
/** The transform of real numbers: the first n / 2 + 1 results; the others are their conjugates. */
export const rfft = one('rfft', fourier.rfft1);
/** The inverse of rfft: n real numbers. Default n: 2 * (size - 1). */
export const irfft = one('irfft', fourier.irfft1);
/** The transform of a Hermitian signal, given its first half: real results. */
export const hfft = one('hfft', fourier.hfft1);
export const ihfft = one('ihfft', fourier.ihfft1);
const LAST_TWO = [-2, -1];
export const fft2 = many('fft2', fourier.fftMany, LAST_TWO);
export const ifft2 = many('ifft2', fourier.ifftMany, LAST_TWO);
export const rfft2 = many('rfft2', fourier.rfftMany, LAST_TWO);
export const irfft2 = many('irfft2', fourier.irfftMany, LAST_TWO);
export const fftn = many('fftn', fourier.fftMany);
export const ifftn = many('ifftn', fourier.ifftMany);
export const rfftn = many('rfftn', fourier.rfftMany);
export const irfftn = many('irfftn', fourier.irfftMany);
export const hfft2 = many('hfft2', fourier.hfftMany, LAST_TWO);
export const ihfft2 = many('ihfft2', fourier.ihfftMany, LAST_TWO);
export const hfftn = many('hfftn', fourier.hfftMany);
export const ihfftn = many('ihfftn', fourier.ihfftMany);

/** The frequencies of the results of fft of n points that are d apart. */
export const fftfreq = entry((n: number, d: number = 1, options: TensorOptions = {}): Tensor => {
  checkWhole('fftfreq: n', n, 1);
  const typed = { dtype: 'f32' as const, ...options };
  const half = Math.ceil(n / 2);
  return cat([arange(0, half, typed), arange(half - n, 0, typed)], 0).mul(1 / (n * d));
}, 'fftfreq');
/** The same for rfft. */
export const rfftfreq = entry((n: number, d: number = 1, options: TensorOptions = {}): Tensor => {
  checkWhole('rfftfreq: n', n, 1);
  return arange(0, Math.floor(n / 2) + 1, { dtype: 'f32', ...options }).mul(1 / (n * d));
}, 'rfftfreq');

const shift = (op: string, by: (n: number) => number) =>
  entry((x: Tensor, option?: number | Shape | { readonly dim?: number | Shape | null } | null): Tensor => {
    const dim = option !== null && typeof option === 'object' && 'dim' in option ? option.dim : option;
    const dims = dim == null ? range(x.ndim) : typeof dim === 'number' ? [dim] : [...(dim as Shape)];
    return x.roll(
      dims.map((d) => by(x.size(d))),
      dims,
    );
  }, op);
/** Moves frequency 0 to the middle. */
export const fftshift = shift('fftshift', (n) => Math.floor(n / 2));
export const ifftshift = shift('ifftshift', (n) => Math.ceil(n / 2));
