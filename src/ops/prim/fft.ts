// The discrete Fourier transform along the last dimension: the strict primitive, as XLA has it.
import { DTypeError, ShapeError } from '../../base/errors.js';
import { complexType, isComplex, partType } from '../../base/promote.js';
import type { Expr } from '../../ir/expr.js';
import { broadcastTo } from './broadcast.js';
import { makeComplex, realPart } from './complex.js';
import { constants, zerosLike } from './constant.js';
import { define, same } from './define.js';
import { convert } from './move.js';
import { mul } from './pointwise.js';
import { padDim } from './slice.js';

/** RFFT: n real numbers to n / 2 + 1 complex ones, the others being their conjugates. The inverse ones divide by n. */
export type FftKind = 'FFT' | 'IFFT' | 'RFFT' | 'IRFFT';
interface Fft {
  readonly kind: FftKind;
  /** The number of points: the size of the last dimension on the side that is not halved. */
  readonly n: number;
}

const fftOp = define<[Expr], Fft>({
  name: 'fft',
  infer: ([x], { kind, n }) => {
    const last = x.shape.at(-1);
    const [from, to] = [kind === 'IRFFT' ? Math.floor(n / 2) + 1 : n, kind === 'RFFT' ? Math.floor(n / 2) + 1 : n];
    if (last !== from) throw new ShapeError(`fft: ${kind} of ${n} points takes a last dimension of ${from}, got ${x}`);
    const isReal = kind === 'RFFT';
    if (isReal ? x.dtype !== 'f32' && x.dtype !== 'f64' : !isComplex(x.dtype))
      throw new DTypeError(`fft: ${kind} takes ${isReal ? 'f32 or f64' : 'complex numbers'}, got ${x}`);
    const dtype = kind === 'RFFT' ? complexType(x.dtype) : kind === 'IRFFT' ? partType(x.dtype) : x.dtype;
    return x.withDType(dtype).withShape([...x.shape.slice(0, -1), to]);
  },
  lower: (e, xs, { kind, n }, out) =>
    e.op('fft', xs, [out], { fft_type: `#stablehlo<fft_type ${kind}>`, fft_length: `array<i64: ${n}>` })[0]!,
  // Each is linear: the gradient is the conjugate transpose of its matrix times g.
  vjp: (g, [x], { kind, n }) => {
    const dim = x.shape.length - 1;
    if (kind === 'FFT') return [mul(fftLast(g, 'IFFT', n), n)];
    if (kind === 'IFFT') return [mul(fftLast(g, 'FFT', n), 1 / n)];
    if (kind === 'RFFT') return [mul(realPart(fftLast(padDim(g, dim, 0, n - g.shape[dim]!), 'IFFT', n)), n)];
    // All but the first (and, of an even n, the last) stand for their conjugates, too.
    const half = Math.floor(n / 2) + 1;
    const twice = Array.from({ length: half }, (_, i) => (i === 0 || 2 * i === n ? 1 / n : 2 / n));
    const weights = broadcastTo(constants(twice, g.dtype), [...x.shape.slice(0, -1), half]);
    return [mul(fftLast(g, 'RFFT', n), makeComplex(weights, zerosLike(weights)))];
  },
  batch: same,
});

/** Along the last dimension, which has n points (IRFFT: half of them and one). Of no elements: none. */
export const fftLast = (x: Expr, kind: FftKind, n: number): Expr => {
  if (kind === 'RFFT' && x.dtype !== 'f64') return fftOp([convert(x, 'f32')], { kind, n });
  return fftOp([x], { kind, n });
};
