// Window functions computed on the host: shared by torch.signal.windows and torch.hann_window.
import { ArgumentError, DTypeError } from '../base/errors.js';
import { DEFAULT_FLOAT } from '../base/promote.js';
import { range } from '../base/shape.js';
import { type TensorOptions, tensor } from './create.js';
import type { Tensor } from './tensor.js';

/** The value at position i of a window of `span` steps. */
export type WindowAt = (i: number, span: number) => number;

/** `count` values of a window, symmetric or with a period of `count` steps. `name`: the argument with the count, for errors. */
export function windowOf(
  op: string,
  name: string,
  count: number,
  symmetric: boolean,
  { dtype = DEFAULT_FLOAT, requiresGrad = false }: TensorOptions,
  at: WindowAt,
): Tensor {
  if (!Number.isInteger(count) || count < 0)
    throw new ArgumentError(`${op}: ${name} must be a whole number and not negative, got ${count}`);
  if (dtype !== 'f32' && dtype !== 'f64')
    throw new DTypeError(`${op}: dtype is ${dtype}: it must be f32 or f64; convert the result`);
  const values = count === 1 ? [1] : range(count).map((i) => at(i, symmetric ? count - 1 : count));
  return tensor(Float64Array.from(values), { dtype, requiresGrad });
}

/** A sum of cosines with alternating signs: a[0] - a[1] cos(k) + a[2] cos(2 k) - ... */
export const cosines =
  (a: readonly number[]): WindowAt =>
  (i, span) =>
    a.reduce((sum, x, n) => sum + (-1) ** n * x * Math.cos((2 * Math.PI * n * i) / span), 0);

export const triangle: WindowAt = (i, span) => 1 - Math.abs((2 * i) / span - 1);

/** The Kaiser window: beta 0 is a rectangle, larger values are narrower. */
export const kaiserAt =
  (beta: number): WindowAt =>
  (i, span) => {
    const k = Math.min(beta, (2 * beta * i) / span - beta);
    return bessel0(Math.sqrt(beta * beta - k * k)) / bessel0(beta);
  };
/** The modified Bessel function of order 0, by its power series, whose terms are all positive. */
function bessel0(x: number): number {
  let [sum, term] = [1, 1];
  for (let n = 1; term > sum * 1e-17; n++) {
    term *= (x / 2 / n) ** 2;
    sum += term;
  }
  return sum;
}
