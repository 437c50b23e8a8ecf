// Random numbers. A generator's state is a value on the device, a key and a counter, and an input of every program that
// draws: the same program serves every step, and the same seed gives the same bits on every device, for every sharding.
import { checkWhole } from '../base/check.js';
import { checkDTypeName, type DType, type HostArray, isHostArray, sameType, sizeOf } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { highest, lowest } from '../base/literal.js';
import { DEFAULT_FLOAT, isComplex, isFloat, isInteger, partType } from '../base/promote.js';
import { broadcastShapes, checkShape, type Shape } from '../base/shape.js';
import { describe } from '../base/tree.js';
import { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { insideBody } from '../ir/scope.js';
import { entry } from '../ir/source.js';
import { broadcastTo } from '../ops/prim/broadcast.js';
import { makeComplex } from '../ops/prim/complex.js';
import { full, iota, zerosLike } from '../ops/prim/constant.js';
import { convert, reshape } from '../ops/prim/move.js';
import {
  add,
  ceil,
  cos,
  div,
  eq,
  exp,
  fmod,
  ge,
  log,
  lt,
  mul,
  neg,
  nextafter,
  sqrt,
  sub,
  tan,
  where,
} from '../ops/prim/pointwise.js';
import { reduceMax, reduceMin } from '../ops/prim/reduce.js';
import { sliceDim } from '../ops/prim/slice.js';
import { advance, open, rounded, unit, word64, words } from '../ops/prim/threefry.js';
import { detach, input } from '../ops/prim/variable.js';
import { argsort } from '../ops/sorting.js';
import { Cell } from '../runtime/cell.js';
import { hostValue, setValue } from '../runtime/value.js';
import { checked, named } from './arguments.js';
import type { TensorOptions } from './create.js';
import { hostArrayOf } from './offsets.js';
import { currentStep } from './scope.js';
import { type Sized, sized } from './sizes.js';
import { made, Tensor } from './tensor.js';

/** torch's default seed. */
const DEFAULT_SEED = 67280421310721n;
const STATE = Aval.of('u32', [4]);

export interface GeneratorState {
  /** u32[4] */
  readonly state: Tensor | HostArray;
  readonly seed: bigint;
}

export class Generator {
  readonly #state: Cell;
  #seed: bigint;

  constructor(seed: number | bigint = DEFAULT_SEED) {
    this.#seed = checkSeed('Generator', seed);
    this.#state = new Cell(stateOf(this.#seed), true, 'the state of a random generator');
  }

  /** Resets the generator to this seed. */
  manualSeed(seed: number | bigint): this {
    this.#seed = checkSeed('manualSeed', seed);
    this.#state.expr = stateOf(this.#seed);
    return this;
  }
  /** Resets the generator to a nondeterministic seed, and returns the seed. */
  seed(): bigint {
    const [a, b] = crypto.getRandomValues(new Uint32Array(2));
    return this.manualSeed((BigInt(a!) << 32n) | BigInt(b!)).#seed;
  }
  initialSeed(): bigint {
    return this.#seed;
  }

  /** u32[4]: the key and the counter, each with the lower word first. */
  get state(): Tensor {
    return new Tensor(this.#state.expr);
  }
  getState(): Tensor {
    return this.state;
  }
  setState(state: Tensor): this {
    if (state.expr.aval !== STATE)
      throw new ArgumentError(`setState: the state must be ${STATE}, got ${state.expr.aval}`);
    this.#state.expr = state.expr;
    return this;
  }

  /** The state and the initial seed, for checkpoints. */
  stateDict(): GeneratorState & { readonly state: Tensor } {
    return { state: this.state, seed: this.#seed };
  }
  loadStateDict({ state, seed }: GeneratorState): void {
    const checked = checkSeed('Generator.loadStateDict', seed);
    if (state instanceof Tensor) this.setState(state);
    else if (isHostArray(state) && sameType(state, STATE) && state.data.length === 4)
      this.#state.expr = stateWith((state.data as Uint32Array).slice()); // the caller may change it
    else throw new ArgumentError(`Generator.loadStateDict: the state is ${describe(state)}: it must be ${STATE}`);
    this.#seed = checked;
  }

  /** Returns the state for a draw of `count` counters, and moves on to the next. */
  take(count: number): Expr {
    const now = this.#state.peek();
    const known = currentStep() || insideBody() ? undefined : (hostValue(now) as Uint32Array | undefined);
    const state = this.#state.expr;
    // If the host knows the state, draws do not depend on one another, and equal draws share a program.
    this.#state.expr = known ? stateWith(counted(known, count)) : advance(state, count);
    return state;
  }
}

function checkSeed(op: string, seed: number | bigint): bigint {
  if (typeof seed === 'bigint' ? seed >= -(2n ** 63n) && seed < 2n ** 64n : Number.isSafeInteger(seed))
    return BigInt.asUintN(64, BigInt(seed));
  throw new ArgumentError(`${op}: the seed is ${String(seed)}: it must be a 64-bit integer`);
}

const stateOf = (seed: bigint): Expr =>
  stateWith(Uint32Array.of(Number(seed & 0xffffffffn), Number(seed >> 32n), 0, 0));
function stateWith(words: Uint32Array): Expr {
  const state = input(STATE);
  setValue(state, words);
  return state;
}
/** The result of advance(). */
function counted([k0, k1, lo, hi]: Uint32Array, by: number): Uint32Array {
  const sum = lo! + (by % 2 ** 32);
  return Uint32Array.of(k0!, k1!, sum, hi! + Math.floor(by / 2 ** 32) + (sum >= 2 ** 32 ? 1 : 0));
}

/** The default generator. */
export const defaultGenerator = new Generator();
/** Sets the seed of the default generator. */
export const manualSeed = (seed: number | bigint): Generator => defaultGenerator.manualSeed(seed);

export interface DrawOptions {
  readonly generator?: Generator;
}
export interface RandomOptions extends DrawOptions, TensorOptions {}

// ---- draws, on expressions. Each element uses one counter (two for a normal f64).

type Words = readonly [Expr, Expr];
const draw = (shape: Shape, generator = defaultGenerator): Words => words(generator.take(sizeOf(shape)), shape);

/** Logarithms are computed in f32 or wider. */
const precise = (dtype: DType): 'f32' | 'f64' => (dtype === 'f64' ? 'f64' : 'f32');

/** The Box-Muller transform. f32 results go up to 6.7; exact to the rounding of log, sqrt and cos. */
function gaussian(shape: Shape, dtype: DType, generator = defaultGenerator): Expr {
  const p = precise(dtype);
  let u: Expr, v: Expr;
  if (p === 'f64') {
    const state = generator.take(2 * sizeOf(shape));
    [u, v] = [open(words(state, shape, 2, 0), p), unit(words(state, shape, 2, 1), p)];
  } else {
    const pair = draw(shape, generator);
    [u, v] = [open(pair, p), unit([pair[1], pair[0]], p)];
  }
  return convert(mul(sqrt(mul(log(u), -2)), cos(mul(v, 2 * Math.PI))), dtype);
}
const exponentialOf = (shape: Shape, dtype: DType, generator?: Generator): Expr =>
  neg(log(open(draw(shape, generator), precise(dtype))));

function checkFloat(op: string, dtype: DType, orComplex = false): DType {
  if (isFloat(checkDTypeName(op, dtype)) || (orComplex && isComplex(dtype))) return dtype;
  throw new DTypeError(`${op}: dtype is ${dtype}: it must be a float dtype. Use randint for integers`);
}

// ---- new tensors. Unlike torch: a seed gives different numbers (the same on every device).

const filled = (op: string, make: (shape: Shape, dtype: DType, generator?: Generator) => Expr) =>
  checked(op, (...given: Sized<RandomOptions>): Tensor => {
    const [shape, { dtype = DEFAULT_FLOAT, generator, ...options }] = sized(op, given);
    return made(make(shape, checkFloat(op, dtype, true), generator), options);
  });
const like = (op: string, make: (shape: Shape, dtype: DType, generator?: Generator) => Expr) =>
  checked(
    op,
    (x: Tensor, { dtype = x.dtype, generator, ...options }: RandomOptions = {}): Tensor =>
      made(make(x.shape, checkFloat(op, dtype, true), generator), options),
  );
const uniformOf = (shape: Shape, dtype: DType, generator?: Generator): Expr => unit(draw(shape, generator), dtype);

/** The same for complex numbers: both parts are drawn and scaled. */
const orComplex =
  (make: typeof uniformOf, scale: number) =>
  (shape: Shape, dtype: DType, generator?: Generator): Expr => {
    const part = () => mul(make(shape, partType(dtype), generator), scale);
    return isComplex(dtype) ? makeComplex(part(), part()) : make(shape, dtype, generator);
  };
const uniforms = orComplex(uniformOf, 1);
const gaussians = orComplex(gaussian, Math.SQRT1_2);

/** Uniform in [0, 1); for complex dtypes both parts are. */
export const rand = filled('rand', uniforms);
export const randLike = like('randLike', uniforms);
/** Normal with mean 0 and standard deviation 1; each part of a complex number has half the variance. */
export const randn = filled('randn', gaussians);
export const randnLike = like('randnLike', gaussians);

type Bound = number | bigint;
/**
 * Integers from low (default: 0) up to but not including high. Default dtype: i64. Unlike torch: a seed gives different
 * numbers.
 */
export const randint = checked(
  'randint',
  (
    ...given:
      | [low: Bound, high: Bound, shape: Shape, options?: RandomOptions]
      | [high: Bound, shape: Shape, options?: RandomOptions]
  ): Tensor => {
    const [low, high, shape, { dtype = 'i64', generator, ...options } = {}] = (
      Array.isArray(given[1]) ? [0, ...given] : given
    ) as [low: Bound, high: Bound, shape: Shape, options?: RandomOptions];
    const whole = (x: number | bigint) => typeof x === 'bigint' || Number.isSafeInteger(x);
    if (!whole(low) || !whole(high) || !(BigInt(high) > BigInt(low)))
      throw new ArgumentError(`randint: low ${low} and high ${high} must be whole numbers, with low < high`);
    if (checkDTypeName('randint', dtype) === 'bool')
      throw new DTypeError('randint: makes numbers, not bool: use rand(shape).lt(0.5)');
    const count = BigInt(high) - BigInt(low);
    if (isInteger(dtype) && (BigInt(low) < BigInt(lowest(dtype)) || BigInt(high) - 1n > BigInt(highest(dtype))))
      throw new DTypeError(
        `randint: ${dtype} holds ${lowest(dtype)} to ${highest(dtype)}, not all from ${low} to ${high}`,
      );
    if (count >= 2n ** 64n)
      throw new ArgumentError(
        `randint: the range from ${low} to ${high} is too large: it must have fewer than 2 ** 64 numbers`,
      );
    const bits = word64(draw(checkShape('randint', shape), generator));
    const within = fmod(bits, full(shape, count, 'u64')); // off by less than (high - low) / 2 ** 64
    const numbers = add(convert(within, 'i64'), full(shape, BigInt(low), 'i64'));
    return made(convert(numbers, dtype), options);
  },
);

/** Random integers in the shape and dtype of x: randintLike(x, high), randintLike(x, low, high). */
export const randintLike = checked(
  'randintLike',
  (
    x: Tensor,
    ...given:
      | [low: Bound, high: Bound, options?: RandomOptions]
      | [high: Bound, options?: RandomOptions]
      | [options: RandomOptions & { readonly low?: Bound; readonly high: Bound }]
  ): Tensor => {
    const bounds = given.filter((g) => typeof g !== 'object') as Bound[];
    const {
      low: from,
      high: to,
      ...options
    } = (given.find((g) => typeof g === 'object') ?? {}) as RandomOptions & {
      low?: Bound;
      high?: Bound;
    };
    const [low, high] = bounds.length === 2 ? bounds : [from ?? 0, bounds[0] ?? to!];
    return randint(low!, high!, x.shape, { dtype: x.dtype, ...options });
  },
);

/** Normal with these means and standard deviations: tensors, or numbers with a shape. */
export const normal = checked(
  'normal',
  (mean: Tensor | number, std: Tensor | number, options: RandomOptions & { readonly shape?: Shape } = {}): Tensor => {
    const tensors = [mean, std].filter((x) => x instanceof Tensor);
    if (typeof std === 'number' && !(std >= 0))
      throw new ArgumentError(`normal: std is ${std}: it must not be negative`);
    if (!tensors.length && !options.shape)
      throw new ArgumentError('normal: mean and std are numbers: pass a shape, { shape: [2, 3] }');
    const shape = options.shape
      ? checkShape('normal', options.shape)
      : broadcastShapes('normal', ...tensors.map((t) => t.shape));
    const dtype = checkFloat('normal', options.dtype ?? tensors[0]?.dtype ?? DEFAULT_FLOAT);
    const part = (x: Tensor | number) =>
      x instanceof Tensor ? broadcastTo(convert(x.expr, dtype), shape) : full(shape, x, dtype);
    return made(add(mul(gaussian(shape, dtype, options.generator), part(std)), part(mean)), options);
  },
);

/** 1 with the probability of each element, otherwise 0, in the dtype of the probabilities. */
export const bernoulli = checked('bernoulli', (probabilities: Tensor, { generator }: DrawOptions = {}): Tensor => {
  const p = detach(probabilities.expr);
  if (!isFloat(p.dtype)) throw new DTypeError(`bernoulli: probabilities must be floats, got ${p.aval}: use float()`);
  return new Tensor(
    convert(lt(unit(draw(p.shape, generator), precise(p.dtype)), convert(p, precise(p.dtype))), p.dtype),
  );
});

/** 0 to n - 1 in random order. Default dtype: i64. */
export const randperm = checked('randperm', (n: number, { dtype = 'i64', generator }: RandomOptions = {}): Tensor => {
  checkWhole('randperm: n', n);
  if (checkDTypeName('randperm', dtype) === 'bool')
    throw new DTypeError(`randperm: dtype is ${dtype}: it must be a number dtype`);
  return new Tensor(convert(argsort(word64(draw([n], generator))), dtype));
});

/** Checks the values if the host has them; values on the device are not checked. */
function checkProbabilities(p: Expr): void {
  const values = hostArrayOf(p);
  if (!values || !(values instanceof Float32Array || values instanceof Float64Array)) return;
  const k = p.shape.at(-1)!;
  for (let i = 0; i < values.length; i += k) {
    const row = values.subarray(i, i + k);
    if (!row.every((x) => x >= 0 && x < Number.POSITIVE_INFINITY))
      throw new ArgumentError('multinomial: probabilities must be finite numbers that are not negative');
    if (row.every((x) => x === 0)) throw new ArgumentError(`multinomial: the probabilities of row ${i / k} are all 0`);
  }
}

export interface MultinomialOptions extends DrawOptions {
  readonly replacement?: boolean;
}
/**
 * Indices drawn from each row by its probabilities (not negative; they need not add up to 1), i64. Unlike torch: a seed gives
 * different numbers; probabilities on the device are not checked: without replacement, indices of probability 0 come only after all
 * others.
 */
export const multinomial = checked(
  'multinomial',
  (
    probabilities: Tensor,
    numSamples: number,
    ...given: [options?: MultinomialOptions] | [replacement: boolean, options?: DrawOptions]
  ): Tensor => {
    const { replacement = false, generator } = named<MultinomialOptions>(['replacement'], given);
    const { expr: p } = new Tensor(detach(probabilities.expr));
    const rank = p.shape.length;
    if (!isFloat(p.dtype))
      throw new DTypeError(`multinomial: probabilities must be floats, got ${p.aval}: use float()`);
    if (rank < 1 || rank > 2 || !p.aval.size)
      throw new ShapeError(`multinomial: takes one row of probabilities or several, [k] or [n, k], got ${p.aval}`);
    const k = p.shape[rank - 1]!;
    checkWhole('multinomial: numSamples', numSamples, 1);
    if (!replacement && numSamples > k)
      throw new ArgumentError(
        `multinomial: cannot draw ${numSamples} different samples of ${k}: pass { replacement: true }, or draw fewer`,
      );
    checkProbabilities(p);
    // Exponential race: each index arrives after an exponential time with its probability as rate; the first is drawn.
    const lead = p.shape.slice(0, -1);
    const rate = convert(p, precise(p.dtype));
    if (!replacement) {
      const slowness = div(exponentialOf(p.shape, p.dtype, generator), rate);
      return new Tensor(sliceDim(argsort(slowness), rank - 1, 0, numSamples));
    }
    const shape = [...lead, numSamples, k];
    const speed = div(broadcastTo(reshape(rate, [...lead, 1, k]), shape), exponentialOf(shape, p.dtype, generator));
    const best = broadcastTo(reshape(reduceMax(speed, [rank]), [...lead, numSamples, 1]), shape);
    const places = iota(shape, rank, 'i64');
    return new Tensor(reduceMin(where(eq(speed, best), places, k), [rank]));
  },
);

export interface DropoutOptions extends DrawOptions {
  readonly p?: number;
  readonly training?: boolean;
}
/** Zeroes elements with probability p and divides the others by 1 - p. Returns x when not training. */
export const dropout = checked(
  'dropout',
  (
    x: Tensor,
    ...given:
      | [options?: DropoutOptions]
      | [p: number, options?: Omit<DropoutOptions, 'p'>]
      | [p: number, training: boolean, options?: DrawOptions]
  ): Tensor => {
    const { p = 0.5, training = true, generator } = named<DropoutOptions>(['p', 'training'], given);
    return dropped('dropout', x, { p, training, generator }, x.shape);
  },
);

/** Whether each element of `shape` is kept; it broadcasts to x. */
function keepMask(x: Tensor, shape: Shape, p: number, generator?: Generator): Expr {
  const [bits] = draw(shape, generator);
  const limit = full(shape, Math.min(Math.round(p * 2 ** 32), 2 ** 32 - 1), 'u32');
  return broadcastTo(ge(bits, limit), x.shape);
}
type Dropping = { readonly [K in keyof DropoutOptions]: DropoutOptions[K] | undefined };
function dropped(op: string, x: Tensor, { p = 0.5, training = true, generator }: Dropping, shape: Shape): Tensor {
  checkDropout(op, x, p, training);
  if (!training || p === 0) return x;
  if (p === 1) return new Tensor(mul(x.expr, zerosLike(x.expr)));
  return new Tensor(where(keepMask(x, shape, p, generator), mul(x.expr, 1 / (1 - p)), zerosLike(x.expr)));
}
function checkDropout(op: string, x: Tensor, p: number, training: boolean): void {
  if (!(p >= 0 && p <= 1)) throw new ArgumentError(`${op}: p is ${p}: a probability is between 0 and 1`);
  if (training && !isFloat(x.dtype)) throw new DTypeError(`${op}: takes floats, got ${x.expr.aval}: use float()`);
}

/** The shape of x with 1 for each spatial dimension: one value per channel. */
function channelsOf(op: string, x: Tensor, n: number): Shape {
  if (x.ndim !== n + 1 && x.ndim !== n + 2)
    throw new ShapeError(`${op}: takes ${n + 2} dimensions, [N, C, ...space], or ${n + 1}, got ${x.expr.aval}`);
  const lead = n !== 2 && x.ndim === n + 1 ? 1 : 2; // as in torch: three dimensions are [N, C, L] to dropout2d
  return x.shape.map((size, d) => (d < lead ? size : 1));
}
const channelDropout = (op: string, n: number) =>
  checked(op, (x: Tensor, options: DropoutOptions = {}): Tensor => dropped(op, x, options, channelsOf(op, x, n)));
// ---- dropout of whole channels. Unlike torch: a seed gives different numbers (the same on every device).

export const dropout1d = channelDropout('dropout1d', 1);
export const dropout2d = channelDropout('dropout2d', 2);
export const dropout3d = channelDropout('dropout3d', 3);

export interface RreluOptions extends DrawOptions {
  readonly lower?: number;
  readonly upper?: number;
  /** true draws random slopes; false uses their mean. */
  readonly training?: boolean;
}
/** Leaky relu with slopes drawn from lower to upper. Unlike torch: a seed gives different numbers. */
export const rrelu = checked(
  'rrelu',
  (x: Tensor, { lower = 1 / 8, upper = 1 / 3, training = false, generator }: RreluOptions = {}): Tensor => {
    if (!(lower <= upper)) throw new ArgumentError(`rrelu: lower ${lower} is greater than upper ${upper}`);
    const slope = training
      ? scaled(uniformOf(x.shape, x.dtype, generator), upper - lower, lower)
      : full([], (lower + upper) / 2, x.dtype);
    return new Tensor(where(ge(x.expr, 0), x.expr, mul(x.expr, slope)));
  },
);

/** The lower limit of selu: dropped values are set to it, and the result is shifted to keep mean and variance. */
const SELU_FLOOR = -1.7580993408473766;
const alphaDropped = (op: string, shapeFor: (x: Tensor) => Shape) =>
  checked(op, (x: Tensor, { p = 0.5, training = false, generator }: DropoutOptions = {}): Tensor => {
    checkDropout(op, x, p, training);
    if (!training || p === 0) return x;
    if (p === 1) return new Tensor(mul(x.expr, zerosLike(x.expr)));
    const a = ((1 - p) * (1 + p * SELU_FLOOR ** 2)) ** -0.5;
    const kept = where(keepMask(x, shapeFor(x), p, generator), x.expr, full(x.shape, SELU_FLOOR, x.dtype));
    return new Tensor(add(mul(kept, a), -a * SELU_FLOOR * p));
  });
/** Dropout for selu, which keeps mean and variance. Unlike torch: a seed gives different numbers. */
export const alphaDropout = alphaDropped('alphaDropout', (x) => x.shape);
/** The same for whole channels. Unlike torch: a seed gives different numbers. */
export const featureAlphaDropout = alphaDropped('featureAlphaDropout', (x) =>
  x.shape.map((size, d) => (d < 2 ? size : 1)),
);

// ---- in place

declare module './tensor.js' {
  interface Tensor {
    /** Fills the tensor uniformly from [from, to). */
    uniform_(from?: number, to?: number, options?: DrawOptions): this;
    normal_(mean?: number, std?: number, options?: DrawOptions): this;
    /** Fills the tensor from the exponential distribution with rate lambd. */
    exponential_(lambd?: number, options?: DrawOptions): this;
    /** Fills the tensor with the number of trials up to the first success, each with probability p. */
    geometric_(p: number, options?: DrawOptions): this;
    cauchy_(median?: number, sigma?: number, options?: DrawOptions): this;
    /** Fills the tensor with exponentials of normal numbers with this mean and standard deviation. */
    logNormal_(mean?: number, std?: number, options?: DrawOptions): this;
    /** Fills the tensor with 1 with probability p, otherwise 0. */
    bernoulli_(p?: number, options?: DrawOptions): this;
    bernoulli(options?: DrawOptions): Tensor;
    multinomial(numSamples: number, options?: MultinomialOptions): Tensor;
    multinomial(numSamples: number, replacement: boolean, options?: DrawOptions): Tensor;
    dropout(options?: DropoutOptions): Tensor;
    dropout(p: number, options?: Omit<DropoutOptions, 'p'>): Tensor;
    dropout(p: number, training: boolean, options?: DrawOptions): Tensor;
  }
}

const inPlace = (
  name: string,
  make: (x: Expr, a: number | undefined, b: number | undefined, g?: Generator) => Expr,
  alsoIntegers = false,
) => {
  const method = entry(function (this: Tensor, ...args: (number | DrawOptions | undefined)[]): Tensor {
    const numbers = args.filter((a) => typeof a !== 'object') as (number | undefined)[];
    const { generator } = (args.find((a) => typeof a === 'object') ?? {}) as DrawOptions;
    if (!alsoIntegers || this.dtype === 'bool') checkFloat(name, this.dtype);
    return this.rebind(rounded(make(this.expr, numbers[0], numbers[1], generator), this.dtype));
  });
  Object.defineProperty(Tensor.prototype, name, { value: method, writable: true, configurable: true });
};
const scaled = (x: Expr, factor: number, plus: number): Expr => add(mul(x, factor), plus);
inPlace('uniform_', (x, from = 0, to = 1, g) => {
  if (!(from <= to)) throw new ArgumentError(`uniform_: from ${from} is above to ${to}`);
  const drawn = scaled(uniformOf(x.shape, x.dtype, g), to - from, from);
  const last = full(x.shape, to, x.dtype);
  return from < to ? where(lt(drawn, last), drawn, nextafter(last, full(x.shape, from, x.dtype))) : drawn;
});
inPlace('normal_', (x, mean = 0, std = 1, g) => {
  if (!(std >= 0)) throw new ArgumentError(`normal_: std is ${std}: it must not be negative`);
  return scaled(gaussian(x.shape, x.dtype, g), std, mean);
});
inPlace('exponential_', (x, lambd = 1, _, g) => {
  if (!(lambd > 0)) throw new ArgumentError(`exponential_: lambd is ${lambd}: it must be above 0`);
  return div(exponentialOf(x.shape, x.dtype, g), lambd);
});
inPlace('cauchy_', (x, median = 0, sigma = 1, g) => {
  if (!(sigma > 0)) throw new ArgumentError(`cauchy_: sigma is ${sigma}: it must be above 0`);
  const u = open(draw(x.shape, g), precise(x.dtype));
  return scaled(tan(mul(sub(u, 0.5), Math.PI)), sigma, median);
});
inPlace('logNormal_', (x, mean = 1, std = 2, g) => {
  if (!(std > 0)) throw new ArgumentError(`logNormal_: std is ${std}: it must be above 0`);
  return exp(scaled(gaussian(x.shape, precise(x.dtype), g), std, mean));
});
inPlace(
  'geometric_',
  (x, p, _, g) => {
    if (!(p !== undefined && p > 0 && p < 1))
      throw new ArgumentError(`geometric_: p is ${p}: it must be between 0 and 1, both excluded`);
    return ceil(div(log(open(draw(x.shape, g), precise(x.dtype))), Math.log1p(-p)));
  },
  true,
);
inPlace('bernoulli_', (x, p = 0.5, _, g) => {
  if (!(p >= 0 && p <= 1)) throw new ArgumentError(`bernoulli_: p is ${p}: a probability is between 0 and 1`);
  return lt(unit(draw(x.shape, g), precise(x.dtype)), p);
});

// ---- as methods

for (const [name, f] of Object.entries({ bernoulli, multinomial, dropout })) {
  const method = entry(function (this: Tensor, ...args: unknown[]) {
    return (f as (x: Tensor, ...args: unknown[]) => Tensor)(this, ...args);
  });
  Object.defineProperty(Tensor.prototype, name, { value: method, writable: true, configurable: true });
}
