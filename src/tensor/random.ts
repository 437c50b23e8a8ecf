// Random numbers. A generator's state is a value on the device, a key and a counter, and an input of every program that
// draws: the same program serves every step, and the same seed gives the same bits on every device, for every sharding.
import { checkWhole } from '../base/check.js';
import { checkDTypeName, type DType, type HostArray, isHostArray, sameType, sizeOf } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { highest, lowest } from '../base/literal.js';
import { DEFAULT_FLOAT, isFloat, isInteger } from '../base/promote.js';
import { broadcastShapes, checkShape, type Shape } from '../base/shape.js';
import { describe } from '../base/tree.js';
import { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { insideBody } from '../ir/scope.js';
import { entry } from '../ir/source.js';
import { broadcastTo } from '../ops/prim/broadcast.js';
import { full, iota, zerosLike } from '../ops/prim/constant.js';
import { convert, reshape } from '../ops/prim/move.js';
import { add, cos, div, eq, fmod, ge, log, lt, mul, neg, sqrt, where } from '../ops/prim/pointwise.js';
import { reduceMax, reduceMin } from '../ops/prim/reduce.js';
import { sliceDim } from '../ops/prim/slice.js';
import { advance, open, unit, word64, words } from '../ops/prim/threefry.js';
import { detach, input } from '../ops/prim/variable.js';
import { argsort } from '../ops/sorting.js';
import { Cell } from '../runtime/cell.js';
import { hostValue, setValue } from '../runtime/value.js';
import { checked, named } from './arguments.js';
import type { TensorOptions } from './create.js';
import { currentStep } from './scope.js';
import { type Sized, sized } from './sizes.js';
import { made, Tensor } from './tensor.js';

/** torch's own, before anyone sets a seed. */
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

  /** Starts again, from this seed. */
  manualSeed(seed: number | bigint): this {
    this.#seed = checkSeed('manualSeed', seed);
    this.#state.expr = stateOf(this.#seed);
    return this;
  }
  /** Starts again, from a seed that cannot be foreseen; returns it. */
  seed(): bigint {
    const [a, b] = crypto.getRandomValues(new Uint32Array(2));
    return this.manualSeed((BigInt(a!) << 32n) | BigInt(b!)).#seed;
  }
  initialSeed(): bigint {
    return this.#seed;
  }

  /** u32[4]: the key and the counter, each the lower word first. */
  get state(): Tensor {
    return new Tensor(this.#state.expr);
  }
  getState(): Tensor {
    return this.state;
  }
  setState(state: Tensor): this {
    if (state.expr.aval !== STATE) throw new ArgumentError(`setState: the state is ${STATE}, got ${state.expr.aval}`);
    this.#state.expr = state.expr;
    return this;
  }

  /** The state and the seed it began with, to be saved. */
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

  /** The state for a draw of `count` counters; the next draw has others. */
  take(count: number): Expr {
    const now = this.#state.peek();
    const known = currentStep() || insideBody() ? undefined : (hostValue(now) as Uint32Array | undefined);
    const state = this.#state.expr;
    // Where the host knows the state, draws do not depend on one another: equal ones are the same program.
    this.#state.expr = known ? stateWith(counted(known, count)) : advance(state, count);
    return state;
  }
}

function checkSeed(op: string, seed: number | bigint): bigint {
  if (typeof seed === 'bigint' ? seed >= -(2n ** 63n) && seed < 2n ** 64n : Number.isSafeInteger(seed))
    return BigInt.asUintN(64, BigInt(seed));
  throw new ArgumentError(`${op}: the seed is ${String(seed)}: it must be a whole number of 64 bits`);
}

const stateOf = (seed: bigint): Expr =>
  stateWith(Uint32Array.of(Number(seed & 0xffffffffn), Number(seed >> 32n), 0, 0));
function stateWith(words: Uint32Array): Expr {
  const state = input(STATE);
  setValue(state, words);
  return state;
}
/** What advance() gives. */
function counted([k0, k1, lo, hi]: Uint32Array, by: number): Uint32Array {
  const sum = lo! + (by % 2 ** 32);
  return Uint32Array.of(k0!, k1!, sum, hi! + Math.floor(by / 2 ** 32) + (sum >= 2 ** 32 ? 1 : 0));
}

/** What draws unless told otherwise. */
export const defaultGenerator = new Generator();
/** Sets the seed of the default generator. */
export const manualSeed = (seed: number | bigint): Generator => defaultGenerator.manualSeed(seed);

export interface DrawOptions {
  readonly generator?: Generator;
}
export interface RandomOptions extends DrawOptions, TensorOptions {}

// ---- draws, on expressions. Each element takes one counter (two for a normal f64).

type Words = readonly [Expr, Expr];
const draw = (shape: Shape, generator = defaultGenerator): Words => words(generator.take(sizeOf(shape)), shape);

/** Logarithms are taken in f32 at least. */
const precise = (dtype: DType): 'f32' | 'f64' => (dtype === 'f64' ? 'f64' : 'f32');

/** Box and Muller: a length and an angle. f32 goes up to 6.7; exact to the rounding of log, sqrt and cos. */
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

function checkFloat(op: string, dtype: DType): DType {
  if (isFloat(checkDTypeName(op, dtype))) return dtype;
  throw new DTypeError(`${op}: makes floats, not ${dtype}: use randint for integers`);
}

// ---- new tensors. Unlike torch: a seed gives other numbers (the same on every device).

const filled = (op: string, make: (shape: Shape, dtype: DType, generator?: Generator) => Expr) =>
  checked(op, (...given: Sized<RandomOptions>): Tensor => {
    const [shape, { dtype = DEFAULT_FLOAT, generator, ...options }] = sized(op, given);
    return made(make(shape, checkFloat(op, dtype), generator), options);
  });
const like = (op: string, make: (shape: Shape, dtype: DType, generator?: Generator) => Expr) =>
  checked(
    op,
    (x: Tensor, { dtype = x.dtype, generator, ...options }: RandomOptions = {}): Tensor =>
      made(make(x.shape, checkFloat(op, dtype), generator), options),
  );
const uniformOf = (shape: Shape, dtype: DType, generator?: Generator): Expr => unit(draw(shape, generator), dtype);

/** Uniform in [0, 1). */
export const rand = filled('rand', uniformOf);
export const randLike = like('randLike', uniformOf);
/** Normal, with mean 0 and deviation 1. */
export const randn = filled('randn', gaussian);
export const randnLike = like('randnLike', gaussian);

type Bound = number | bigint;
/**
 * Whole numbers from low (0 if not given) up to but not including high, i64 unless told. Unlike torch: a seed gives other
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
      throw new ArgumentError(`randint: from ${low} up to but not including ${high} there is no whole number`);
    if (checkDTypeName('randint', dtype) === 'bool')
      throw new DTypeError('randint: makes numbers, not bool: use rand(shape).lt(0.5)');
    const count = BigInt(high) - BigInt(low);
    if (isInteger(dtype) && (BigInt(low) < BigInt(lowest(dtype)) || BigInt(high) - 1n > BigInt(highest(dtype))))
      throw new DTypeError(
        `randint: ${dtype} holds ${lowest(dtype)} to ${highest(dtype)}, not all from ${low} to ${high}`,
      );
    if (count >= 2n ** 64n)
      throw new ArgumentError(`randint: from ${low} to ${high} are more numbers than 64 bits can tell apart`);
    const bits = word64(draw(checkShape('randint', shape), generator));
    const within = fmod(bits, full(shape, count, 'u64')); // off by less than (high - low) / 2 ** 64
    const numbers = add(convert(within, 'i64'), full(shape, BigInt(low), 'i64'));
    return made(convert(numbers, dtype), options);
  },
);

/** Normal with these means and deviations: numbers with a shape, or tensors. */
export const normal = checked(
  'normal',
  (mean: Tensor | number, std: Tensor | number, options: RandomOptions & { readonly shape?: Shape } = {}): Tensor => {
    const tensors = [mean, std].filter((x) => x instanceof Tensor);
    if (typeof std === 'number' && !(std >= 0))
      throw new ArgumentError(`normal: std is ${std}: it must not be negative`);
    if (!tensors.length && !options.shape)
      throw new ArgumentError('normal: mean and std are numbers: say the shape, { shape: [2, 3] }');
    const shape = options.shape
      ? checkShape('normal', options.shape)
      : broadcastShapes('normal', ...tensors.map((t) => t.shape));
    const dtype = checkFloat('normal', options.dtype ?? tensors[0]?.dtype ?? DEFAULT_FLOAT);
    const part = (x: Tensor | number) =>
      x instanceof Tensor ? broadcastTo(convert(x.expr, dtype), shape) : full(shape, x, dtype);
    return made(add(mul(gaussian(shape, dtype, options.generator), part(std)), part(mean)), options);
  },
);

/** 1 with each element's probability, else 0, in the dtype of the probabilities. */
export const bernoulli = checked('bernoulli', (probabilities: Tensor, { generator }: DrawOptions = {}): Tensor => {
  const p = detach(probabilities.expr);
  if (!isFloat(p.dtype)) throw new DTypeError(`bernoulli: probabilities are floats, got ${p.aval}: use float()`);
  return new Tensor(
    convert(lt(unit(draw(p.shape, generator), precise(p.dtype)), convert(p, precise(p.dtype))), p.dtype),
  );
});

/** 0 to n - 1 in random order, i64 unless told. */
export const randperm = checked('randperm', (n: number, { dtype = 'i64', generator }: RandomOptions = {}): Tensor => {
  checkWhole('randperm: n', n);
  if (checkDTypeName('randperm', dtype) === 'bool') throw new DTypeError(`randperm: makes numbers, not ${dtype}`);
  return new Tensor(convert(argsort(word64(draw([n], generator))), dtype));
});

export interface MultinomialOptions extends DrawOptions {
  readonly replacement?: boolean;
}
/**
 * Indices drawn from each row with the probabilities in it (not negative; they need not add up to 1), i64. Unlike
 * torch: a seed gives other numbers; probabilities are not checked (that needs values): without replacement, those of 0 come only after all
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
    if (!isFloat(p.dtype)) throw new DTypeError(`multinomial: probabilities are floats, got ${p.aval}: use float()`);
    if (rank < 1 || rank > 2 || !p.aval.size)
      throw new ShapeError(`multinomial: takes one row of probabilities or several, [k] or [n, k], got ${p.aval}`);
    const k = p.shape[rank - 1]!;
    checkWhole('multinomial: numSamples', numSamples, 1);
    if (!replacement && numSamples > k)
      throw new ArgumentError(
        `multinomial: ${numSamples} different samples of ${k}: pass { replacement: true } or fewer`,
      );
    // A race: each index arrives after an exponential time at the rate of its probability; the first is drawn.
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
/** Zero with probability p, else divided by 1 - p; x itself when not training. */
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

/** For each element of `shape`, whether it stays; the same for all elements of x that it stands for. */
function keepMask(x: Tensor, shape: Shape, p: number, generator?: Generator): Expr {
  const [bits] = draw(shape, generator);
  const limit = full(shape, Math.min(Math.round(p * 2 ** 32), 2 ** 32 - 1), 'u32');
  return broadcastTo(ge(bits, limit), x.shape);
}
type Dropping = { readonly [K in keyof DropoutOptions]: DropoutOptions[K] | undefined };
function dropped(op: string, x: Tensor, { p = 0.5, training = true, generator }: Dropping, shape: Shape): Tensor {
  checkDropout(op, x, p);
  if (!training || p === 0) return x;
  if (p === 1) return new Tensor(mul(x.expr, zerosLike(x.expr)));
  return new Tensor(where(keepMask(x, shape, p, generator), mul(x.expr, 1 / (1 - p)), zerosLike(x.expr)));
}
function checkDropout(op: string, x: Tensor, p: number): void {
  if (!(p >= 0 && p <= 1)) throw new ArgumentError(`${op}: p is ${p}: a probability is between 0 and 1`);
  if (!isFloat(x.dtype)) throw new DTypeError(`${op}: takes floats, got ${x.expr.aval}: use float()`);
}

/** Its shape with 1 for each dimension of space: what whole channels have in common. */
function channelsOf(op: string, x: Tensor, n: number): Shape {
  if (x.ndim !== n + 1 && x.ndim !== n + 2)
    throw new ShapeError(`${op}: takes ${n + 2} dimensions, [N, C, ...space], or ${n + 1}, got ${x.expr.aval}`);
  const lead = n !== 2 && x.ndim === n + 1 ? 1 : 2; // as in torch: three dimensions are [N, C, L] to dropout2d
  return x.shape.map((size, d) => (d < lead ? size : 1));
}
const channelDropout = (op: string, n: number) =>
  checked(op, (x: Tensor, options: DropoutOptions = {}): Tensor => dropped(op, x, options, channelsOf(op, x, n)));
// ---- whole channels at once. Unlike torch: a seed gives other numbers (the same on every device).

export const dropout1d = channelDropout('dropout1d', 1);
export const dropout2d = channelDropout('dropout2d', 2);
export const dropout3d = channelDropout('dropout3d', 3);

/** What selu goes to below: dropped values take it, and the rest moves so that mean and variance stay. */
const SELU_FLOOR = -1.7580993408473766;
const alphaDropped = (op: string, shapeFor: (x: Tensor) => Shape) =>
  checked(op, (x: Tensor, { p = 0.5, training = false, generator }: DropoutOptions = {}): Tensor => {
    checkDropout(op, x, p);
    if (!training || p === 0) return x;
    if (p === 1) return new Tensor(mul(x.expr, zerosLike(x.expr)));
    const a = ((1 - p) * (1 + p * SELU_FLOOR ** 2)) ** -0.5;
    const kept = where(keepMask(x, shapeFor(x), p, generator), x.expr, full(x.shape, SELU_FLOOR, x.dtype));
    return new Tensor(add(mul(kept, a), -a * SELU_FLOOR * p));
  });
/** Dropout for selu: mean and variance stay as they are. Unlike torch: a seed gives other numbers. */
export const alphaDropout = alphaDropped('alphaDropout', (x) => x.shape);
/** The same for whole channels. Unlike torch: a seed gives other numbers. */
export const featureAlphaDropout = alphaDropped('featureAlphaDropout', (x) =>
  x.shape.map((size, d) => (d < 2 ? size : 1)),
);

// ---- in place

declare module './tensor.js' {
  interface Tensor {
    /** Filled anew, uniformly in [from, to). */
    uniform_(from?: number, to?: number, options?: DrawOptions): this;
    normal_(mean?: number, std?: number, options?: DrawOptions): this;
    /** Times between events of which there are lambd in a unit of time. */
    exponential_(lambd?: number, options?: DrawOptions): this;
    /** 1 with probability p, else 0. */
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
) => {
  const method = entry(function (this: Tensor, ...args: (number | DrawOptions | undefined)[]): Tensor {
    const numbers = args.filter((a) => typeof a !== 'object') as (number | undefined)[];
    const { generator } = (args.find((a) => typeof a === 'object') ?? {}) as DrawOptions;
    checkFloat(name, this.dtype);
    return this.rebind(convert(make(this.expr, numbers[0], numbers[1], generator), this.dtype));
  });
  Object.defineProperty(Tensor.prototype, name, { value: method, writable: true, configurable: true });
};
const scaled = (x: Expr, factor: number, plus: number): Expr => add(mul(x, factor), plus);
inPlace('uniform_', (x, from = 0, to = 1, g) => {
  if (!(from <= to)) throw new ArgumentError(`uniform_: from ${from} is above to ${to}`);
  return scaled(uniformOf(x.shape, x.dtype, g), to - from, from);
});
inPlace('normal_', (x, mean = 0, std = 1, g) => {
  if (!(std >= 0)) throw new ArgumentError(`normal_: std is ${std}: it must not be negative`);
  return scaled(gaussian(x.shape, x.dtype, g), std, mean);
});
inPlace('exponential_', (x, lambd = 1, _, g) => {
  if (!(lambd > 0)) throw new ArgumentError(`exponential_: lambd is ${lambd}: it must be above 0`);
  return div(exponentialOf(x.shape, x.dtype, g), lambd);
});
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
