// torch.nn.init: functions that fill a tensor in place with initial values and return it.
import { ArgumentError, ShapeError } from '../base/errors.js';
import { noGrad } from '../tensor/autograd.js';
import { eye } from '../tensor/create.js';
import { erfinv } from '../tensor/functions.js';
import { type DrawOptions, rand, randn } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';
import { type Given, optionsInOrder } from './options.js';

let skipping = false;
/** Creates modules with zeros instead of random initial values: for weights that are loaded or drawn later. */
export function skipInit<T>(make: () => T): T {
  const before = skipping;
  skipping = true;
  try {
    return make();
  } finally {
    skipping = before;
  }
}

/** Options by position in torch's order or as one object, and the generator. */
function givenTo<O extends object>(
  op: string,
  defaults: Required<O>,
  given: readonly unknown[],
): [Required<O>, DrawOptions] {
  const order = Object.keys(defaults) as (keyof O & string)[];
  const { generator, ...rest } = optionsInOrder<Required<O> & DrawOptions>(
    op,
    order as never,
    { ...defaults, generator: undefined } as never,
    given,
  ) as Required<O> & DrawOptions;
  return [rest as unknown as Required<O>, generator ? { generator } : {}];
}

export interface UniformOptions {
  readonly a?: number;
  readonly b?: number;
}
export function uniform_<T extends Tensor>(t: T, ...options: Given<UniformOptions & DrawOptions, ['a', 'b']>): T {
  const [{ a, b }, how] = givenTo<UniformOptions>('uniform_', { a: 0, b: 1 }, options);
  return skipping ? t : noGrad(() => t.uniform_(a, b, how));
}
export interface NormalOptions {
  readonly mean?: number;
  readonly std?: number;
}
export function normal_<T extends Tensor>(t: T, ...options: Given<NormalOptions & DrawOptions, ['mean', 'std']>): T {
  const [{ mean, std }, how] = givenTo<NormalOptions>('normal_', { mean: 0, std: 1 }, options);
  return skipping ? t : noGrad(() => t.normal_(mean, std, how));
}
export const constant_ = <T extends Tensor>(t: T, value: number): T => noGrad(() => t.fill_(value) as T);
export const zeros_ = <T extends Tensor>(t: T): T => constant_(t, 0);
export const ones_ = <T extends Tensor>(t: T): T => constant_(t, 1);

/** Normal, truncated to [a, b], by the inverse of its distribution function. */
export function truncNormal_<T extends Tensor>(
  t: T,
  ...options: Given<NormalOptions & UniformOptions & DrawOptions, ['mean', 'std', 'a', 'b']>
): T {
  const normally = { mean: 0, std: 1, a: -2, b: 2 };
  const [{ mean, std, a, b }, how] = givenTo<NormalOptions & UniformOptions>('truncNormal_', normally, options);
  if (!(a < b) || !(std > 0))
    throw new ArgumentError(`truncNormal_: a is ${a}, b is ${b}, std is ${std}: a must be below b and std above 0`);
  return noGrad(() => {
    const [low, high] = [a, b].map((x) => erf((x - mean) / (std * Math.SQRT2)));
    const u = rand(t.shape, how)
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

export interface GainOptions {
  readonly gain?: number;
}
/** Orthogonal rows (or columns, if there are fewer of them) of norm `gain`. */
export function orthogonal_<T extends Tensor>(t: T, ...options: Given<GainOptions & DrawOptions, ['gain']>): T {
  const [{ gain }, how] = givenTo<GainOptions>('orthogonal_', { gain: 1 }, options);
  checkDims('orthogonal_', t, 2);
  const [rows, cols] = [t.shape[0]!, t.numel() / t.shape[0]!];
  return noGrad(() => {
    const { Q: q, R: r } = randn([Math.max(rows, cols), Math.min(rows, cols)], how).qr();
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
/** The recommended gain of weights before this activation. */
export function calculateGain(nonlinearity: Nonlinearity, param = 0.01): number {
  const gain = GAINS[nonlinearity];
  if (gain === undefined)
    throw new ArgumentError(`calculateGain: ${nonlinearity} is not one of ${Object.keys(GAINS).join(', ')}`);
  return typeof gain === 'number' ? gain : gain(param);
}

export const xavierUniform_ = <T extends Tensor>(t: T, ...options: Given<GainOptions & DrawOptions, ['gain']>): T => {
  const [{ gain }, how] = givenTo<GainOptions>('xavierUniform_', { gain: 1 }, options);
  const { fanIn, fanOut } = fansOf('xavierUniform_', t);
  const bound = gain * Math.sqrt(6 / (fanIn + fanOut));
  return uniform_(t, -bound, bound, how);
};
export const xavierNormal_ = <T extends Tensor>(t: T, ...options: Given<GainOptions & DrawOptions, ['gain']>): T => {
  const [{ gain }, how] = givenTo<GainOptions>('xavierNormal_', { gain: 1 }, options);
  const { fanIn, fanOut } = fansOf('xavierNormal_', t);
  return normal_(t, 0, gain * Math.sqrt(2 / (fanIn + fanOut)), how);
};

export interface KaimingOptions extends DrawOptions {
  /** The slope of a leaky ReLU below 0. */
  readonly a?: number;
  readonly mode?: Fan;
  readonly nonlinearity?: Nonlinearity;
}
const kaimingStd = (op: string, t: Tensor, { a = 0, mode = 'fanIn', nonlinearity = 'leakyRelu' }: KaimingOptions) =>
  calculateGain(nonlinearity, a) / Math.sqrt(fansOf(op, t)[mode]);
const KAIMING = { a: 0, mode: 'fanIn', nonlinearity: 'leakyRelu' } as const;
type GivenKaiming = Given<KaimingOptions, ['a', 'mode', 'nonlinearity']>;
export const kaimingUniform_ = <T extends Tensor>(t: T, ...options: GivenKaiming): T => {
  const [given, how] = givenTo<KaimingOptions>('kaimingUniform_', KAIMING as never, options);
  const bound = Math.sqrt(3) * kaimingStd('kaimingUniform_', t, given);
  return uniform_(t, -bound, bound, how);
};
export const kaimingNormal_ = <T extends Tensor>(t: T, ...options: GivenKaiming): T => {
  const [given, how] = givenTo<KaimingOptions>('kaimingNormal_', KAIMING as never, options);
  return normal_(t, 0, kaimingStd('kaimingNormal_', t, given), how);
};

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
