// Initial values, as torch.nn.init: each fills a tensor in place and gives it back.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { noGrad } from '../tensor/autograd.js';
import { eye } from '../tensor/create.js';
import { erfinv } from '../tensor/functions.js';
import { type DrawOptions, rand, randn } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';

let skipping = false;
/** Makes modules without drawing their initial values, which are zeros then: for weights that are loaded or drawn otherwise. */
export function skipInit<T>(make: () => T): T {
  const before = skipping;
  skipping = true;
  try {
    return make();
  } finally {
    skipping = before;
  }
}

export const uniform_ = <T extends Tensor>(t: T, a = 0, b = 1, options: DrawOptions = {}): T =>
  skipping ? t : noGrad(() => t.uniform_(a, b, options));
export const normal_ = <T extends Tensor>(t: T, mean = 0, std = 1, options: DrawOptions = {}): T =>
  skipping ? t : noGrad(() => t.normal_(mean, std, options));
export const constant_ = <T extends Tensor>(t: T, value: number): T => noGrad(() => t.fill_(value) as T);
export const zeros_ = <T extends Tensor>(t: T): T => constant_(t, 0);
export const ones_ = <T extends Tensor>(t: T): T => constant_(t, 1);

/** Normal, drawn again outside of [a, b], by the inverse of its distribution. */
export function truncNormal_<T extends Tensor>(t: T, mean = 0, std = 1, a = -2, b = 2, options: DrawOptions = {}): T {
  if (!(a < b) || !(std > 0))
    throw new ArgumentError(`truncNormal_: a is ${a}, b is ${b}, std is ${std}: a must be below b and std above 0`);
  return noGrad(() => {
    const [low, high] = [a, b].map((x) => erf((x - mean) / (std * Math.SQRT2)));
    const u = rand(t.shape, options)
      .mul(high! - low!)
      .add(low!);
    return t.copy_(
      erfinv(u)
        .mul(std * Math.SQRT2)
        .add(mean)
        .clamp(a, b),
    ) as T;
  });
}

export function eye_<T extends Tensor>(t: T): T {
  checkDims('eye_', t, 2, 2);
  return noGrad(() => t.copy_(eye(t.shape[0]!, t.shape[1]!, { dtype: t.dtype })) as T);
}

/** Rows (or columns, where there are fewer of them) that are orthogonal and of length `gain`. */
export function orthogonal_<T extends Tensor>(t: T, gain = 1, options: DrawOptions = {}): T {
  checkDims('orthogonal_', t, 2);
  const [rows, cols] = [t.shape[0]!, t.numel() / t.shape[0]!];
  return noGrad(() => {
    const { Q: q, R: r } = randn([Math.max(rows, cols), Math.min(rows, cols)], options).qr();
    const even = q.mul(r.diagonal().sign()); // else the distribution would not be uniform
    return t.copy_((rows < cols ? even.t() : even).mul(gain).reshape(t.shape)) as T;
  });
}

type Fan = 'fanIn' | 'fanOut';
/** The numbers of inputs and of outputs of one unit of a weight [out, in, ...kernel]. */
export function fansOf(op: string, t: Tensor): Record<Fan, number> {
  checkDims(op, t, 2);
  const field = t.shape.slice(2).reduce((a, b) => a * b, 1);
  return { fanIn: t.shape[1]! * field, fanOut: t.shape[0]! * field };
}

const GAINS = {
  linear: 1,
  conv: 1,
  sigmoid: 1,
  tanh: 5 / 3,
  relu: Math.SQRT2,
  leakyRelu: (a: number) => Math.sqrt(2 / (1 + a * a)),
  selu: 3 / 4,
};
export type Nonlinearity = keyof typeof GAINS;
/** How much a layer's values shrink behind this activation: what its weights make up for. */
export function calculateGain(nonlinearity: Nonlinearity, param = 0.01): number {
  const gain = GAINS[nonlinearity];
  if (gain === undefined)
    throw new ArgumentError(`calculateGain: ${nonlinearity} is not one of ${Object.keys(GAINS).join(', ')}`);
  return typeof gain === 'number' ? gain : gain(param);
}

export const xavierUniform_ = <T extends Tensor>(t: T, gain = 1, options: DrawOptions = {}): T => {
  const { fanIn, fanOut } = fansOf('xavierUniform_', t);
  const bound = gain * Math.sqrt(6 / (fanIn + fanOut));
  return uniform_(t, -bound, bound, options);
};
export const xavierNormal_ = <T extends Tensor>(t: T, gain = 1, options: DrawOptions = {}): T => {
  const { fanIn, fanOut } = fansOf('xavierNormal_', t);
  return normal_(t, 0, gain * Math.sqrt(2 / (fanIn + fanOut)), options);
};

export interface KaimingOptions extends DrawOptions {
  /** The slope of a leaky ReLU below 0. */
  readonly a?: number;
  readonly mode?: Fan;
  readonly nonlinearity?: Nonlinearity;
}
const kaimingStd = (op: string, t: Tensor, { a = 0, mode = 'fanIn', nonlinearity = 'leakyRelu' }: KaimingOptions) =>
  calculateGain(nonlinearity, a) / Math.sqrt(fansOf(op, t)[mode]);
export const kaimingUniform_ = <T extends Tensor>(t: T, options: KaimingOptions = {}): T => {
  const bound = Math.sqrt(3) * kaimingStd('kaimingUniform_', t, options);
  return uniform_(t, -bound, bound, options);
};
export const kaimingNormal_ = <T extends Tensor>(t: T, options: KaimingOptions = {}): T =>
  normal_(t, 0, kaimingStd('kaimingNormal_', t, options), options);

function checkDims(op: string, t: Tensor, least: number, most = Number.POSITIVE_INFINITY): void {
  if (t.ndim < least || t.ndim > most)
    throw new ShapeError(
      `${op}: takes a weight of ${least === most ? '' : 'at least '}${least} dimensions, got ${t.aval}`,
    );
}

/** By a series whose terms are all positive: nothing cancels. */
function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let [term, sum] = [x, x];
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
