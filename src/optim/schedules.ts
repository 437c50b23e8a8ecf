// torch's schedules, each a formula of the step number.
import { ArgumentError } from '../base/errors.js';
import { shown } from '../base/tree.js';
import {
  type AnyOptimizer,
  type Arguments,
  checkOptimizer,
  perGroup,
  type Resumable,
  readArguments,
  Schedule,
  type Setting,
} from './schedule.js';

/** A schedule that multiplies the initial learning rate by a factor. */
const byFactor =
  (factor: (n: number) => number) =>
  (n: number, { lr }: Setting) => ({ lr: lr * factor(n) });
/** Interpolates from a to b as x goes from 0 to 1. */
const linear = (a: number, b: number, x: number): number => a + (b - a) * x;
const cosine = (a: number, b: number, x: number): number => b + ((a - b) / 2) * (1 + Math.cos(Math.PI * x));

function positive(kind: string, options: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(options))
    if (!(typeof value === 'number' && value > 0))
      throw new ArgumentError(`${kind}: ${name} is ${shown(value)}: it must be more than 0`);
}
function whole(kind: string, options: Readonly<Record<string, number>>): void {
  positive(kind, options);
  for (const [name, value] of Object.entries(options))
    if (!Number.isInteger(value))
      throw new ArgumentError(`${kind}: ${name} is ${shown(value)}: it must be a whole number`);
}
const notMore = (kind: string, name: string, value: number, most: number): void => {
  if (!(typeof value === 'number' && value >= 0 && value <= most))
    throw new ArgumentError(`${kind}: ${name} is ${shown(value)}: it must be from 0 to ${most}`);
};
const oneOf = (kind: string, name: string, value: unknown, words: readonly string[]): void => {
  if (!words.includes(value as string))
    throw new ArgumentError(
      `${kind}: ${name} is ${shown(value)}: it must be ${words.map((w) => `'${w}'`).join(' or ')}`,
    );
};
export type Factor = (n: number) => number;
export interface LambdaLROptions extends Resumable {
  /** The factor of step n, or one such function for each group. */
  readonly lrLambda: Factor | readonly Factor[];
}
type LambdaArguments = Arguments<LambdaLROptions, [lrLambda: Factor | readonly Factor[]]>;
function factorsOf(kind: string, optimizer: AnyOptimizer, args: readonly unknown[]) {
  const { lrLambda, lastEpoch } = readArguments<LambdaLROptions>(kind, ['lrLambda'], args, ['lrLambda']);
  const factors = perGroup(kind, 'lrLambda', optimizer, lrLambda);
  const wrong = factors.find((f) => typeof f !== 'function');
  if (wrong !== undefined) throw new ArgumentError(`${kind}: lrLambda is ${shown(wrong)}: it must be a function`);
  return { factors, lastEpoch };
}
/** Multiplies the initial rate by a custom factor for each step. */
export class LambdaLR extends Schedule {
  constructor(optimizer: AnyOptimizer, ...args: LambdaArguments) {
    const { factors, lastEpoch } = factorsOf('LambdaLR', optimizer, args);
    super(optimizer, (n, { lr }, i) => ({ lr: lr * factors[i]!(n) }), { lastEpoch });
  }
}
/** Multiplies the rate by a custom factor in each step: the factors accumulate. */
export class MultiplicativeLR extends Schedule {
  constructor(optimizer: AnyOptimizer, ...args: LambdaArguments) {
    const { factors, lastEpoch } = factorsOf('MultiplicativeLR', optimizer, args);
    const product = (n: number, f: Factor) => {
      let all = 1;
      for (let k = 1; k <= n; k++) all *= f(k);
      return all;
    };
    super(optimizer, (n, { lr }, i) => ({ lr: lr * product(n, factors[i]!) }), {
      ...{ lastEpoch, onlyChain: true },
      chain: (n, lr, _, i, isInitial) => (isInitial ? lr : lr * factors[i]!(n)),
    });
  }
}

export interface ConstantLROptions extends Resumable {
  readonly factor?: number;
  readonly totalIters?: number;
}
/** Multiplies the rate by `factor` for `totalIters` steps, then uses the full rate. */
export class ConstantLR extends Schedule {
  constructor(optimizer: AnyOptimizer, ...args: Arguments<ConstantLROptions, [factor?: number, totalIters?: number]>) {
    const options = readArguments<ConstantLROptions>('ConstantLR', ['factor', 'totalIters'], args);
    const { factor = 1 / 3, totalIters = 5, lastEpoch } = options;
    notMore('ConstantLR', 'factor', factor, 1);
    super(
      optimizer,
      byFactor((n) => (n < totalIters ? factor : 1)),
      { lastEpoch, chain: (n, lr) => (n === 0 ? lr * factor : n === totalIters ? lr / factor : lr) },
    );
  }
}

export interface StepLROptions extends Resumable {
  readonly stepSize: number;
  readonly gamma?: number;
}
/** Multiplies the rate by `gamma` every `stepSize` steps. */
export class StepLR extends Schedule {
  constructor(optimizer: AnyOptimizer, ...args: Arguments<StepLROptions, [stepSize: number, gamma?: number]>) {
    const options = readArguments<StepLROptions>('StepLR', ['stepSize', 'gamma'], args, ['stepSize']);
    const { stepSize, gamma = 0.1, lastEpoch } = options;
    positive('StepLR', { stepSize });
    super(
      optimizer,
      byFactor((n) => gamma ** Math.floor(n / stepSize)),
      { lastEpoch, chain: (n, lr) => (n === 0 || n % stepSize ? lr : lr * gamma) },
    );
  }
}

export interface MultiStepLROptions extends Resumable {
  readonly milestones: readonly number[];
  readonly gamma?: number;
}
/** Multiplies the rate by `gamma` at each milestone. */
export class MultiStepLR extends Schedule {
  constructor(
    optimizer: AnyOptimizer,
    ...args: Arguments<MultiStepLROptions, [milestones: readonly number[], gamma?: number]>
  ) {
    const options = readArguments<MultiStepLROptions>('MultiStepLR', ['milestones', 'gamma'], args, ['milestones']);
    const { milestones: given, gamma = 0.1, lastEpoch } = options;
    if (!(Symbol.iterator in Object(given)))
      throw new ArgumentError(`MultiStepLR: milestones is ${shown(given)}: it must be a list of steps`);
    const milestones = [...given];
    const passed = (is: (m: number) => boolean) => gamma ** milestones.filter(is).length;
    super(
      optimizer,
      byFactor((n) => passed((m) => m <= n)),
      { lastEpoch, chain: (n, lr) => lr * passed((m) => m === n) },
    );
  }
}

export interface LinearLROptions extends Resumable {
  readonly startFactor?: number;
  readonly endFactor?: number;
  readonly totalIters?: number;
}
/** Multiplies the rate by a factor that goes from `startFactor` to `endFactor` in `totalIters` steps. */
export class LinearLR extends Schedule {
  constructor(
    optimizer: AnyOptimizer,
    ...args: Arguments<LinearLROptions, [startFactor?: number, endFactor?: number, totalIters?: number]>
  ) {
    const options = readArguments<LinearLROptions>('LinearLR', ['startFactor', 'endFactor', 'totalIters'], args);
    const { startFactor: start = 1 / 3, endFactor: end = 1, totalIters = 5, lastEpoch } = options;
    positive('LinearLR', { startFactor: start, totalIters });
    notMore('LinearLR', 'startFactor', start, 1);
    notMore('LinearLR', 'endFactor', end, 1);
    const factor = (n: number) => linear(start, end, Math.min(1, n / totalIters));
    super(optimizer, byFactor(factor), {
      lastEpoch,
      chain: (n, lr) =>
        n === 0
          ? lr * start
          : n > totalIters
            ? lr
            : lr * (1 + (end - start) / (totalIters * start + (n - 1) * (end - start))),
    });
  }
}

export interface ExponentialLROptions extends Resumable {
  readonly gamma: number;
}
/** Multiplies the rate by `gamma` in each step. */
export class ExponentialLR extends Schedule {
  constructor(optimizer: AnyOptimizer, ...args: Arguments<ExponentialLROptions, [gamma: number]>) {
    const { gamma, lastEpoch } = readArguments<ExponentialLROptions>('ExponentialLR', ['gamma'], args, ['gamma']);
    if (typeof gamma !== 'number')
      throw new ArgumentError(`ExponentialLR: gamma is ${shown(gamma)}: it must be a number`);
    super(
      optimizer,
      byFactor((n) => gamma ** n),
      { lastEpoch, chain: (_, lr, __, ___, isInitial) => (isInitial ? lr : lr * gamma) },
    );
  }
}

export interface PolynomialLROptions extends Resumable {
  readonly totalIters?: number;
  readonly power?: number;
}
/** Decays the rate to 0 in `totalIters` steps, by a power of the remaining fraction. */
export class PolynomialLR extends Schedule {
  constructor(optimizer: AnyOptimizer, ...args: Arguments<PolynomialLROptions, [totalIters?: number, power?: number]>) {
    const options = readArguments<PolynomialLROptions>('PolynomialLR', ['totalIters', 'power'], args);
    const { totalIters = 5, power = 1, lastEpoch } = options;
    positive('PolynomialLR', { totalIters });
    const rest = (n: number) => 1 - n / totalIters;
    super(
      optimizer,
      byFactor((n) => rest(Math.min(n, totalIters)) ** power),
      {
        lastEpoch,
        chain: (n, lr, _, __, isInitial) => (isInitial || n > totalIters ? lr : lr * (rest(n) / rest(n - 1)) ** power),
      },
    );
  }
}

export interface CosineAnnealingLROptions extends Resumable {
  /** torch's T_max: the number of steps of half a cosine wave. */
  readonly tMax: number;
  /** torch's eta_min: the lowest rate. Default: 0. */
  readonly etaMin?: number;
}
/** Accepts torch's capital letters: T_max is tMax or TMax. */
type Renamed<O, Names> = { [K in keyof O as K extends keyof Names ? Names[K] & string : K]: O[K] };
const lowered = (args: readonly unknown[]): unknown[] =>
  args.map((x) =>
    Object.getPrototypeOf(Object(x)) === Object.prototype
      ? Object.fromEntries(Object.entries(x as object).map(([k, v]) => [k.replace(/^T(?=[A-Z0_])_?/, 't'), v]))
      : x,
  );
/** Follows a cosine wave: down to etaMin in tMax steps, and up again in as many. */
export class CosineAnnealingLR extends Schedule {
  constructor(
    optimizer: AnyOptimizer,
    ...args: Arguments<
      CosineAnnealingLROptions | Renamed<CosineAnnealingLROptions, { tMax: 'TMax' }>,
      [tMax: number, etaMin?: number]
    >
  ) {
    const kind = 'CosineAnnealingLR';
    const options = readArguments<CosineAnnealingLROptions>(kind, ['tMax', 'etaMin'], lowered(args), ['tMax']);
    const { tMax, etaMin = 0, lastEpoch } = options;
    positive(kind, { tMax });
    const wave = (n: number) => 1 + Math.cos((Math.PI * n) / tMax);
    super(optimizer, (n, { lr }) => ({ lr: etaMin + ((lr - etaMin) * wave(n)) / 2 }), {
      lastEpoch,
      chain: (n, lr, base, _, isInitial) => {
        if (isInitial) return lr;
        if ((n - 1 - tMax) % (2 * tMax) === 0) return lr + ((base.lr - etaMin) * (2 - wave(1))) / 2;
        return (wave(n) / wave(n - 1)) * (lr - etaMin) + etaMin;
      },
    });
  }
}

export interface CosineAnnealingWarmRestartsOptions extends Resumable {
  /** torch's T_0: the number of steps until the first restart. */
  readonly t0: number;
  /** torch's T_mult: the factor of the length of each next period. Default: 1. */
  readonly tMult?: number;
  readonly etaMin?: number;
}
/** Cosine annealing with warm restarts, each period tMult times as long (Loshchilov and Hutter, 2016). */
export class CosineAnnealingWarmRestarts extends Schedule {
  constructor(
    optimizer: AnyOptimizer,
    ...args: Arguments<
      CosineAnnealingWarmRestartsOptions | Renamed<CosineAnnealingWarmRestartsOptions, { t0: 'T0'; tMult: 'TMult' }>,
      [t0: number, tMult?: number, etaMin?: number]
    >
  ) {
    const kind = 'CosineAnnealingWarmRestarts';
    const names = ['t0', 'tMult', 'etaMin'] as const;
    const options = readArguments<CosineAnnealingWarmRestartsOptions>(kind, names, lowered(args), ['t0']);
    const { t0, tMult = 1, etaMin = 0, lastEpoch } = options;
    whole(kind, { t0, tMult });
    if (typeof etaMin !== 'number') throw new ArgumentError(`${kind}: etaMin is ${shown(etaMin)}: it must be a number`);
    super(
      optimizer,
      (n, { lr }) => {
        let [at, length] = [n, t0];
        if (tMult === 1) at %= t0;
        else
          while (at >= length) {
            at -= length;
            length *= tMult;
          }
        return { lr: etaMin + ((lr - etaMin) * (1 + Math.cos((Math.PI * at) / length))) / 2 };
      },
      { lastEpoch },
    );
  }
}

export interface CosineLROptions {
  /** The total number of steps, including the warm-up. */
  readonly totalSteps: number;
  /** The number of steps in which the rate grows from 0. */
  readonly warmup?: number;
  /** The rate at the end and afterwards. */
  readonly floor?: number;
}
/** A linear warm-up, then half a cosine wave from the learning rate down to a floor. */
export class CosineLR extends Schedule {
  constructor(optimizer: AnyOptimizer, options: CosineLROptions) {
    const read = readArguments<CosineLROptions & Resumable>(
      'CosineLR',
      ['totalSteps', 'warmup', 'floor'],
      [options],
      ['totalSteps'],
    );
    const { totalSteps, warmup = 0, floor = 0, lastEpoch } = read;
    positive('CosineLR', { totalSteps });
    notMore('CosineLR', 'warmup', warmup, totalSteps - 1);
    super(
      optimizer,
      (n, { lr }) => ({
        lr: n < warmup ? lr * (n / warmup) : cosine(lr, floor, Math.min(1, (n - warmup) / (totalSteps - warmup))),
      }),
      { lastEpoch },
    );
  }
}

/** The momentum, or the first beta, that a schedule sets. */
const momentumOf = ({ betas }: Setting, value: number) =>
  betas ? { betas: [value, betas[1]] as const } : { momentum: value };
function checkMomentum(kind: string, optimizer: AnyOptimizer, cycleMomentum: boolean): void {
  checkOptimizer(kind, optimizer);
  if (cycleMomentum && !optimizer.paramGroups.every((g) => 'momentum' in g || 'betas' in g))
    throw new ArgumentError(
      `${kind}: ${optimizer.constructor.name} has neither momentum nor betas to cycle: pass cycleMomentum: false`,
    );
}

export interface CyclicLROptions extends Resumable {
  readonly baseLr: number | readonly number[];
  readonly maxLr: number | readonly number[];
  readonly stepSizeUp?: number;
  readonly stepSizeDown?: number | null;
  readonly mode?: 'triangular' | 'triangular2' | 'exp_range';
  /** For mode `exp_range`: the factor gamma ** step. */
  readonly gamma?: number;
  /** A custom scale by cycle (or step), used instead of a mode. */
  readonly scaleFn?: ((x: number) => number) | null;
  readonly scaleMode?: 'cycle' | 'iterations';
  readonly cycleMomentum?: boolean;
  readonly baseMomentum?: number | readonly number[];
  readonly maxMomentum?: number | readonly number[];
}
const CYCLIC = [
  ...(['baseLr', 'maxLr', 'stepSizeUp', 'stepSizeDown', 'mode', 'gamma', 'scaleFn', 'scaleMode'] as const),
  ...(['cycleMomentum', 'baseMomentum', 'maxMomentum'] as const),
] as const;
/** Cycles between two rates (Smith, 2015). */
export class CyclicLR extends Schedule {
  constructor(
    optimizer: AnyOptimizer,
    ...args: Arguments<
      CyclicLROptions,
      [
        baseLr: number | readonly number[],
        maxLr: number | readonly number[],
        stepSizeUp?: number,
        stepSizeDown?: number | null,
      ]
    >
  ) {
    const kind = 'CyclicLR';
    const o = readArguments<CyclicLROptions>(kind, CYCLIC, args, ['baseLr', 'maxLr']);
    const { stepSizeUp: up = 2000, mode = 'triangular', gamma = 1, scaleFn, cycleMomentum = true, lastEpoch } = o;
    const total = up + (o.stepSizeDown ?? up);
    positive(kind, { stepSizeUp: up, stepSizeDown: total - up });
    if (!scaleFn) oneOf(kind, 'mode', mode, ['triangular', 'triangular2', 'exp_range']);
    const each = <T>(name: string, value: T | readonly T[]) => perGroup(kind, name, optimizer, value);
    const [low, high] = [each('baseLr', o.baseLr), each('maxLr', o.maxLr)];
    const [least, most] = [each('baseMomentum', o.baseMomentum ?? 0.8), each('maxMomentum', o.maxMomentum ?? 0.9)];
    checkMomentum(kind, optimizer, cycleMomentum);
    const byStep = scaleFn ? o.scaleMode === 'iterations' : mode === 'exp_range';
    const modes = {
      triangular: () => 1,
      triangular2: (x: number) => 2 ** (1 - x),
      exp_range: (x: number) => gamma ** x,
    };
    const scale = scaleFn ?? modes[mode];
    super(
      optimizer,
      (n, base, i) => {
        const cycle = Math.floor(1 + n / total);
        const x = 1 + n / total - cycle;
        const ratio = up / total;
        const height = (x <= ratio ? x / ratio : (x - 1) / (ratio - 1)) * scale(byStep ? n : cycle);
        return {
          lr: low[i]! + (high[i]! - low[i]!) * height,
          ...(cycleMomentum && momentumOf(base, most[i]! - (most[i]! - least[i]!) * height)),
        };
      },
      { lastEpoch, base: (i) => low[i]! },
    );
  }
}

export interface OneCycleLROptions extends Resumable {
  /** The highest rate, or one for each group. */
  readonly maxLr: number | readonly number[];
  /** The total number of steps. Alternatively give epochs and stepsPerEpoch. */
  readonly totalSteps?: number | null;
  readonly epochs?: number | null;
  readonly stepsPerEpoch?: number | null;
  /** The fraction of the steps in which the rate increases. Default: 0.3. */
  readonly pctStart?: number;
  readonly annealStrategy?: 'cos' | 'linear';
  /** Whether momentum (or the first beta) cycles inversely to the rate. Default: true. */
  readonly cycleMomentum?: boolean;
  readonly baseMomentum?: number | readonly number[];
  readonly maxMomentum?: number | readonly number[];
  readonly divFactor?: number;
  readonly finalDivFactor?: number;
  readonly threePhase?: boolean;
}
const ONE_CYCLE = [
  ...(['maxLr', 'totalSteps', 'epochs', 'stepsPerEpoch', 'pctStart', 'annealStrategy', 'cycleMomentum'] as const),
  ...(['baseMomentum', 'maxMomentum', 'divFactor', 'finalDivFactor', 'threePhase'] as const),
] as const;
function cycleLength({ totalSteps, epochs, stepsPerEpoch }: OneCycleLROptions): number {
  if (typeof totalSteps === 'number') {
    whole('OneCycleLR', { totalSteps });
    return totalSteps;
  }
  if (typeof epochs !== 'number' || typeof stepsPerEpoch !== 'number')
    throw new ArgumentError('OneCycleLR: totalSteps is missing: pass it, or epochs and stepsPerEpoch');
  whole('OneCycleLR', { epochs, stepsPerEpoch });
  return epochs * stepsPerEpoch;
}
/** Increases the rate to maxLr, then decreases it far below the initial one (Smith and Topin, 2018). */
export class OneCycleLR extends Schedule {
  constructor(
    optimizer: AnyOptimizer,
    ...args: Arguments<OneCycleLROptions, [maxLr: number | readonly number[], totalSteps?: number | null]>
  ) {
    const kind = 'OneCycleLR';
    const options = readArguments<OneCycleLROptions>(kind, ONE_CYCLE, args, ['maxLr']);
    const { pctStart = 0.3, annealStrategy = 'cos', cycleMomentum = true, threePhase = false, lastEpoch } = options;
    const { baseMomentum = 0.85, maxMomentum = 0.95, divFactor = 25, finalDivFactor = 1e4 } = options;
    const totalSteps = cycleLength(options);
    notMore(kind, 'pctStart', pctStart, 1);
    oneOf(kind, 'annealStrategy', annealStrategy, ['cos', 'linear']);
    const each = <T>(name: string, value: T | readonly T[]) => perGroup(kind, name, optimizer, value);
    const tops = each('maxLr', options.maxLr);
    const [leasts, mosts] = [each('baseMomentum', baseMomentum), each('maxMomentum', maxMomentum)];
    checkMomentum(kind, optimizer, cycleMomentum);
    const between = annealStrategy === 'linear' ? linear : cosine;
    /** Where each phase ends, and what it leads from and to, in lr and in momentum. */
    const phases = (i: number) => {
      const [top, least, most] = [tops[i]!, leasts[i]!, mosts[i]!];
      const [low, bottom, up] = [top / divFactor, top / divFactor / finalDivFactor, pctStart * totalSteps - 1];
      const climb = { end: up, lr: [low, top], momentum: [most, least] };
      const last = { end: totalSteps - 1, lr: [top, bottom], momentum: [least, most] };
      if (!threePhase) return [climb, last];
      const back = { end: 2 * up, lr: [top, low], momentum: [least, most] };
      return [climb, back, { ...last, lr: [low, bottom], momentum: [most, most] }];
    };
    super(
      optimizer,
      (n, base, i) => {
        if (n > totalSteps)
          throw new ArgumentError(
            `OneCycleLR: step ${n} exceeds totalSteps ${totalSteps}: set totalSteps to the length of the training`,
          );
        const all = phases(i);
        const k = all.findIndex(({ end }, j) => n <= end || j === all.length - 1);
        const { end, lr, momentum } = all[k]!;
        const begin = k ? all[k - 1]!.end : 0;
        const at = ([a, b]: readonly number[]) => between(a!, b!, Math.min(1, (n - begin) / (end - begin)));
        return { lr: at(lr), ...(cycleMomentum && momentumOf(base, at(momentum))) };
      },
      { lastEpoch, base: (i) => tops[i]! / divFactor },
    );
  }
}
