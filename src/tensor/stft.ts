// The short-time Fourier transform and its inverse.
import { checkWhole } from '../base/check.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { isComplex } from '../base/promote.js';
import { fft1, ifft1, irfft1, rfft1 } from '../ops/fourier.js';
import { checked, named } from './arguments.js';
import { arange, ones, zeros } from './create.js';
import { Tensor } from './tensor.js';

interface Frames {
  /** Samples between frames. Default: a quarter of nFft. */
  readonly hopLength?: number | null;
  /** The length of the window. Default: nFft. */
  readonly winLength?: number | null;
  /** Multiplied with each frame. Default: ones. */
  readonly window?: Tensor | null;
  /** Frame t is centered at sample t * hopLength. Default: true. */
  readonly center?: boolean;
  /** Whether to divide by the square root of nFft. Default: false. */
  readonly normalized?: boolean;
  /** Whether to return only half of the frequencies. Default: true for real input. */
  readonly onesided?: boolean | null;
}
export interface StftOptions extends Frames {
  readonly padMode?: 'reflect' | 'constant' | 'replicate' | 'circular';
  /** false: real and imaginary part along a new last dimension. Default: true. */
  readonly returnComplex?: boolean;
}
export interface IstftOptions extends Frames {
  /** The length of the signal. Default: the length that the frames cover. */
  readonly length?: number | null;
  readonly returnComplex?: boolean;
}

/** The window, centered in nFft points, and the hop length. */
function framesOf(op: string, nFft: number, like: Tensor, o: Frames): { hop: number; window: Tensor } {
  checkWhole(`${op}: nFft`, nFft, 1);
  const hop = checkWhole(`${op}: hopLength`, o.hopLength ?? Math.floor(nFft / 4), 1);
  const size = checkWhole(`${op}: winLength`, o.winLength ?? nFft, 1);
  if (size > nFft) throw new ArgumentError(`${op}: winLength is ${size}: it must be at most nFft, ${nFft}`);
  const dtype = like.dtype === 'f64' || like.dtype === 'c128' ? 'f64' : 'f32';
  const window = o.window ?? ones([size], { dtype });
  if (window.ndim !== 1 || window.shape[0] !== size)
    throw new ShapeError(`${op}: the window is ${window.aval}: it must be [${size}], of winLength`);
  const left = Math.floor((nFft - size) / 2);
  return { hop, window: window.pad([left, nFft - size - left]) };
}

/** The transformed frames of a signal [L] or [B, L]: [..., frequencies, frames]. Unlike torch: complex by default. */
export const stft = checked(
  'stft',
  (
    x: Tensor,
    nFft: number,
    ...given: [options?: StftOptions] | [hopLength: number | null, options?: StftOptions]
  ): Tensor => {
    const options = named<StftOptions>(['hopLength'], given);
    const { center = true, normalized = false, padMode = 'reflect', returnComplex = true } = options;
    if (x.ndim < 1 || x.ndim > 2) throw new ShapeError(`stft: takes [L] or [B, L], got ${x.aval}`);
    const { hop, window } = framesOf('stft', nFft, x, options);
    const half = Math.floor(nFft / 2);
    const signal = center ? x.pad([half, half], { mode: padMode }) : x;
    if (signal.size(-1) < nFft)
      throw new ShapeError(`stft: a signal of ${signal.size(-1)} samples is shorter than nFft, ${nFft}`);
    const frames = signal.unfold(-1, nFft, hop).mul(window);
    const isOneSided = options.onesided ?? !isComplex(frames.dtype);
    const transformed = (isOneSided ? rfft1 : fft1)(frames.expr, normalized ? { norm: 'ortho' } : {});
    const y = new Tensor(transformed).transpose(-2, -1);
    return returnComplex ? y : y.viewAsReal();
  },
);

/** The inverse of stft: overlapping frames are added and divided by the sum of their squared windows. */
export const istft = checked(
  'istft',
  (
    x: Tensor,
    nFft: number,
    ...given: [options?: IstftOptions] | [hopLength: number | null, options?: IstftOptions]
  ): Tensor => {
    const options = named<IstftOptions>(['hopLength'], given);
    const { center = true, normalized = false, returnComplex = false, length = null } = options;
    if (x.ndim < 2 || x.ndim > 3 || !isComplex(x.dtype))
      throw new ShapeError(`istft: takes complex [frequencies, frames] or [B, frequencies, frames], got ${x.aval}`);
    const isOneSided = options.onesided ?? !returnComplex;
    const { hop, window } = framesOf('istft', nFft, x, options);
    const norm = normalized ? ({ norm: 'ortho' } as const) : {};
    const columns = (x.ndim === 2 ? x.unsqueeze(0) : x).transpose(-2, -1); // [B, T, F]
    const inverse = isOneSided ? irfft1(columns.expr, { n: nFft, ...norm }) : ifft1(columns.expr, norm);
    const whole = new Tensor(inverse);
    const frames = (returnComplex ? whole : whole.real()).mul(window);
    const [batch, count] = [frames.shape[0]!, frames.shape[1]!];
    const size = nFft + hop * (count - 1);
    const places = arange(count).mul(hop).unsqueeze(-1).add(arange(nFft)).flatten();
    const added = (f: Tensor) =>
      zeros([f.shape[0]!, size], { dtype: f.dtype }).indexAdd(1, places, f.reshape([f.shape[0]!, count * nFft]));
    const weight = added(window.square().expand([1, count, nFft]));
    const start = center ? Math.floor(nFft / 2) : 0;
    const end = length === null ? size - start : Math.min(size, start + length);
    const cut = (t: Tensor) => t.narrow(1, start, end - start);
    const signal = cut(added(frames)).div(cut(weight));
    const filled = length !== null && length > end - start ? signal.pad([0, length - (end - start)]) : signal;
    return x.ndim === 2 ? filled.reshape([filled.shape[1]!]) : filled.reshape([batch, filled.shape[1]!]);
  },
);
