// tx.signal.windows: window functions, with torch.signal.windows' names. They are computed on the host.
import { ArgumentError } from '../base/errors.js';
import { unknownOption } from '../base/options.js';
import type { TensorOptions } from './create.js';
import type { Tensor } from './tensor.js';
import { cosines, kaiserAt, triangle, type WindowAt, windowOf } from './window-shapes.js';

export interface WindowOptions extends TensorOptions {
  /** true: symmetric, for filters. false: periodic, for spectra. Default: true. */
  readonly sym?: boolean;
}

function window(op: string, M: number, options: WindowOptions, keys: readonly string[], at: WindowAt): Tensor {
  const why = unknownOption(['sym', 'dtype', 'requiresGrad', ...keys], options as Record<string, unknown>);
  if (why) throw new ArgumentError(`${op}: ${why}`);
  const { sym = true, ...made } = options;
  if (typeof sym !== 'boolean') throw new ArgumentError(`${op}: sym is ${sym}: it must be true or false`);
  return windowOf(op, 'M', M, sym, made, at);
}

/** A sum of cosines with alternating signs: a[0] - a[1] cos(k) + a[2] cos(2 k) - ... */
export function generalCosine(M: number, options: WindowOptions & { readonly a: readonly number[] }): Tensor {
  const { a } = options;
  if (!Array.isArray(a) || !a.length || !a.every((x) => typeof x === 'number'))
    throw new ArgumentError(`generalCosine: a must be a list of at least one number, got ${a}`);
  return window('generalCosine', M, options, ['a'], cosines(a));
}
/** alpha - (1 - alpha) cos(k). */
export function generalHamming(M: number, options: WindowOptions & { readonly alpha?: number } = {}): Tensor {
  const { alpha = 0.54 } = options;
  return window('generalHamming', M, options, ['alpha'], cosines([alpha, 1 - alpha]));
}
export const hamming = (M: number, options: WindowOptions = {}): Tensor =>
  window('hamming', M, options, [], cosines([0.54, 0.46]));
export const hann = (M: number, options: WindowOptions = {}): Tensor =>
  window('hann', M, options, [], cosines([0.5, 0.5]));
export const blackman = (M: number, options: WindowOptions = {}): Tensor =>
  window('blackman', M, options, [], cosines([0.42, 0.5, 0.08]));
/** The Nuttall window: four cosines with minimal side lobes. */
export const nuttall = (M: number, options: WindowOptions = {}): Tensor =>
  window('nuttall', M, options, [], cosines([0.3635819, 0.4891775, 0.1365995, 0.0106411]));
/** The Bartlett window: a triangle. */
export const bartlett = (M: number, options: WindowOptions = {}): Tensor =>
  window('bartlett', M, options, [], triangle);
/** Half a sine wave. */
export const cosine = (M: number, options: WindowOptions = {}): Tensor =>
  window('cosine', M, options, [], (i, span) => Math.sin((Math.PI * (i + 0.5)) / (span + 1)));

/** Decays by a factor of e per tau steps from its center. Default center: the middle. */
export function exponential(
  M: number,
  options: WindowOptions & { readonly center?: number | null; readonly tau?: number } = {},
): Tensor {
  const { center, tau = 1, sym = true } = options;
  if (!(tau > 0)) throw new ArgumentError(`exponential: tau is ${tau}: it must be above 0`);
  if (sym && center != null)
    throw new ArgumentError('exponential: center must not be set for a symmetric window: pass { sym: false }');
  return window('exponential', M, options, ['center', 'tau'], (i, span) =>
    Math.exp(-Math.abs(i - (center ?? span / 2)) / tau),
  );
}
export function gaussian(M: number, options: WindowOptions & { readonly std?: number } = {}): Tensor {
  const { std = 1 } = options;
  if (!(std > 0)) throw new ArgumentError(`gaussian: std is ${std}: it must be above 0`);
  return window('gaussian', M, options, ['std'], (i, span) => Math.exp(-(((i - span / 2) / std) ** 2) / 2));
}
/** The Kaiser window: beta 0 is a rectangle, larger values are narrower. */
export function kaiser(M: number, options: WindowOptions & { readonly beta?: number } = {}): Tensor {
  const { beta = 12 } = options;
  if (!(beta >= 0)) throw new ArgumentError(`kaiser: beta is ${beta}: it must not be negative`);
  return window('kaiser', M, options, ['beta'], kaiserAt(beta));
}
