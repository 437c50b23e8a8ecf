// torch.hann_window and similar window functions, periodic by default, as stft expects. tx.signal.windows has more.
import { ArgumentError } from '../base/errors.js';
import { checked, named } from './arguments.js';
import type { TensorOptions } from './create.js';
import type { Tensor } from './tensor.js';
import { cosines, kaiserAt, triangle, type WindowAt, windowOf } from './window-shapes.js';

export interface PeriodicOptions extends TensorOptions {
  /** true: one period of a periodic function, for spectra. false: symmetric, for filters. Default: true. */
  readonly periodic?: boolean;
}
export interface HammingOptions extends PeriodicOptions {
  /** alpha - beta cos(k). Default: 0.54 and 0.46. */
  readonly alpha?: number;
  readonly beta?: number;
}
export interface KaiserOptions extends PeriodicOptions {
  /** 0 is a rectangle; larger values are narrower. Default: 12. */
  readonly beta?: number;
}
type Given<O> = [periodic: boolean, options?: O] | [options?: O];

const window =
  <O extends PeriodicOptions>(op: string, order: readonly (keyof O & string)[], at: (options: O) => WindowAt) =>
  (windowLength: number, given: readonly unknown[]): Tensor => {
    const { periodic = true, ...options } = named<O>(['periodic', ...order], given) as O;
    return windowOf(op, 'windowLength', windowLength, !periodic, options as TensorOptions, at(options as unknown as O));
  };

const hann = window('hannWindow', [], () => cosines([0.5, 0.5]));
/** The Hann window, a raised cosine: 0 at the border. */
export const hannWindow = checked(
  'hannWindow',
  (windowLength: number, ...given: Given<PeriodicOptions>): Tensor => hann(windowLength, given),
);
const hamming = window<HammingOptions>('hammingWindow', ['alpha', 'beta'], ({ alpha = 0.54, beta = 0.46 }) =>
  cosines([alpha, beta]),
);
/** The Hamming window, alpha - beta cos(k): not 0 at the border. */
export const hammingWindow = checked(
  'hammingWindow',
  (
    windowLength: number,
    ...given:
      | Given<HammingOptions>
      | [periodic: boolean, alpha: number, options?: HammingOptions]
      | [periodic: boolean, alpha: number, beta: number, options?: HammingOptions]
  ): Tensor => hamming(windowLength, given),
);
const blackman = window('blackmanWindow', [], () => cosines([0.42, 0.5, 0.08]));
/** The Blackman window, of three cosines: low side lobes. */
export const blackmanWindow = checked(
  'blackmanWindow',
  (windowLength: number, ...given: Given<PeriodicOptions>): Tensor => blackman(windowLength, given),
);
const bartlett = window('bartlettWindow', [], () => triangle);
/** The Bartlett window: a triangle. */
export const bartlettWindow = checked(
  'bartlettWindow',
  (windowLength: number, ...given: Given<PeriodicOptions>): Tensor => bartlett(windowLength, given),
);
const kaiser = window<KaiserOptions>('kaiserWindow', ['beta'], ({ beta = 12 }) => {
  if (!(beta >= 0)) throw new ArgumentError(`kaiserWindow: beta is ${beta}: it must not be negative`);
  return kaiserAt(beta);
});
/** The Kaiser window: beta 0 is a rectangle, larger values are narrower. */
export const kaiserWindow = checked(
  'kaiserWindow',
  (
    windowLength: number,
    ...given: Given<KaiserOptions> | [periodic: boolean, beta: number, options?: KaiserOptions]
  ): Tensor => kaiser(windowLength, given),
);
