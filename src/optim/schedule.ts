// Learning rates that change from step to step. A schedule is a function of the step's number, so it can be asked about any
// step and resumed exactly; its step() sets the optimizer's scalars from the host, and the program stays the same.
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { shown } from '../base/tree.js';
import type { Group, Optimizer } from './optimizer.js';

interface Rates {
  lr: number;
  momentum?: number;
  betas?: readonly [number, number];
}
/** What a schedule sets, of one group. */
type Setting = Readonly<Rates>;
// biome-ignore lint/suspicious/noExplicitAny: an optimizer of any options
type AnyOptimizer = Pick<Optimizer<any>, 'paramGroups'>;
export interface ScheduleState {
  readonly step: number;
  readonly baseLrs: readonly number[];
}

/** Learning rates by the number of the step: call step() on the host after each step of the optimizer. */
export class Schedule {
  #step = 0;
  #base: readonly Setting[];

  /** `rule` gives what a group's options are in step n, from what they were when the schedule was made. */
  constructor(
    readonly optimizer: AnyOptimizer,
    readonly rule: (n: number, base: Setting, group: number) => Setting,
  ) {
    this.#base = this.#groups.map(
      ({ lr, momentum, betas }) => ({ lr, ...(betas ? { betas } : { momentum }) }) as Setting,
    );
    this.#apply();
  }
  get #groups(): readonly (Group<Rates> & Rates)[] {
    return this.optimizer.paramGroups as readonly Group<Rates>[];
  }

  /** The learning rates of all groups in step n, counted from 0. */
  at(n: number): number[] {
    return this.#base.map((base, i) => this.rule(n, base, i).lr);
  }
  /** The learning rates now. */
  getLastLr(): number[] {
    return this.at(this.#step);
  }
  /** Call it on the host, after each step of the optimizer. */
  step(): void {
    this.#apply(this.#step + 1);
    this.#step++;
  }
  #apply(step = this.#step): void {
    this.#base.forEach((base, i) => {
      const group = this.#groups[i]!;
      for (const [name, value] of Object.entries(this.rule(step, base, i))) group[name as 'lr'] = value as number;
    });
  }

  /** All that resuming needs. state() and load() are the same, as loaders have them. */
  stateDict(): ScheduleState {
    return { step: this.#step, baseLrs: this.#base.map((b) => b.lr) };
  }
  loadStateDict({ step, baseLrs }: ScheduleState): void {
    if (!Number.isInteger(step) || step < 0)
      throw new ArgumentError(`schedule: the state's step is ${step}: it must be a whole number, 0 or more`);
    if (baseLrs?.length !== this.#base.length)
      throw new ArgumentError(
        `schedule: the state has ${baseLrs?.length} learning rates, the optimizer ${this.#base.length} groups`,
      );
    this.#step = step;
    this.#base = this.#base.map((base, i) => ({ ...base, lr: baseLrs[i]! }));
    this.#apply();
  }
  state(): ScheduleState {
    return this.stateDict();
  }
  load(state: ScheduleState): void {
    this.loadStateDict(state);
  }
}

/** A schedule whose learning rate is a factor of the one it began with. */
const byFactor =
  (factor: (n: number) => number) =>
  (n: number, { lr }: Setting) => ({ lr: lr * factor(n) });
/** From a to b, as x goes from 0 to 1. */
const linear = (a: number, b: number, x: number): number => a + (b - a) * x;
const cosine = (a: number, b: number, x: number): number => b + ((a - b) / 2) * (1 + Math.cos(Math.PI * x));

function positive(kind: string, options: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(options))
    if (!(typeof value === 'number' && value > 0))
      throw new ArgumentError(`${kind}: ${name} is ${shown(value)}: it must be more than 0`);
}
/** Options that must have this one. */
function required<O extends object>(kind: string, name: keyof O & string, given: O): O {
  if (given?.[name] !== undefined) return given;
  throw new ArgumentError(`${kind}: ${name} is missing: write new ${kind}(optimizer, { ${name}: ... })`);
}
const notMore = (kind: string, name: string, value: number, most: number): void => {
  if (!(typeof value === 'number' && value >= 0 && value <= most))
    throw new ArgumentError(`${kind}: ${name} is ${shown(value)}: it must be from 0 to ${most}`);
};

/** A factor of one's own for each step. */
export class LambdaLR extends Schedule {
  constructor(optimizer: AnyOptimizer, factor: ((n: number) => number) | readonly ((n: number) => number)[]) {
    super(optimizer, (n, { lr }, i) => ({ lr: lr * (typeof factor === 'function' ? factor : factor[i]!)(n) }));
  }
}

/** `factor` of the learning rate for `totalIters` steps, then all of it. */
export class ConstantLR extends Schedule {
  constructor(optimizer: AnyOptimizer, options: { readonly factor?: number; readonly totalIters?: number } = {}) {
    checkOptions('ConstantLR', ['factor', 'totalIters'], options);
    const { factor = 1 / 3, totalIters = 5 } = options;
    notMore('ConstantLR', 'factor', factor, 1);
    super(
      optimizer,
      byFactor((n) => (n < totalIters ? factor : 1)),
    );
  }
}

/** `gamma` times the learning rate every `stepSize` steps. */
export class StepLR extends Schedule {
  constructor(optimizer: AnyOptimizer, options: { readonly stepSize: number; readonly gamma?: number }) {
    checkOptions('StepLR', ['stepSize', 'gamma'], options);
    const { stepSize, gamma = 0.1 } = required('StepLR', 'stepSize', options);
    positive('StepLR', { stepSize });
    super(
      optimizer,
      byFactor((n) => gamma ** Math.floor(n / stepSize)),
    );
  }
}

export interface LinearLROptions {
  readonly startFactor?: number;
  readonly endFactor?: number;
  readonly totalIters?: number;
}
/** A factor that goes from `startFactor` to `endFactor` in `totalIters` steps. */
export class LinearLR extends Schedule {
  constructor(optimizer: AnyOptimizer, options: LinearLROptions = {}) {
    checkOptions('LinearLR', ['startFactor', 'endFactor', 'totalIters'], options);
    const { startFactor = 1 / 3, endFactor = 1, totalIters = 5 } = options;
    positive('LinearLR', { startFactor, totalIters });
    notMore('LinearLR', 'startFactor', startFactor, 1);
    notMore('LinearLR', 'endFactor', endFactor, 1);
    super(
      optimizer,
      byFactor((n) => linear(startFactor, endFactor, Math.min(1, n / totalIters))),
    );
  }
}

export interface CosineLROptions {
  /** With the warm-up. */
  readonly totalSteps: number;
  /** Steps in which the learning rate grows from 0. */
  readonly warmup?: number;
  /** The learning rate at the end, and after it. */
  readonly floor?: number;
}
/** Half a cosine wave from the learning rate down to the floor, after a linear warm-up; then the floor. */
export class CosineLR extends Schedule {
  constructor(optimizer: AnyOptimizer, options: CosineLROptions) {
    checkOptions('CosineLR', ['totalSteps', 'warmup', 'floor'], options);
    const { totalSteps, warmup = 0, floor = 0 } = required('CosineLR', 'totalSteps', options);
    positive('CosineLR', { totalSteps });
    notMore('CosineLR', 'warmup', warmup, totalSteps - 1);
    super(optimizer, (n, { lr }) => ({
      lr: n < warmup ? lr * (n / warmup) : cosine(lr, floor, Math.min(1, (n - warmup) / (totalSteps - warmup))),
    }));
  }
}

export interface OneCycleLROptions {
  /** The learning rate at the top, or one for each group. */
  readonly maxLr: number | readonly number[];
  readonly totalSteps: number;
  /** The part of the steps in which it goes up. */
  readonly pctStart?: number;
  readonly annealStrategy?: 'cos' | 'linear';
  /** Momentum (or the first beta) goes the other way. */
  readonly cycleMomentum?: boolean;
  readonly baseMomentum?: number;
  readonly maxMomentum?: number;
  readonly divFactor?: number;
  readonly finalDivFactor?: number;
  readonly threePhase?: boolean;
}
const ONE_CYCLE = [
  'maxLr',
  'totalSteps',
  'pctStart',
  'annealStrategy',
  'cycleMomentum',
  'baseMomentum',
  'maxMomentum',
  'divFactor',
  'finalDivFactor',
  'threePhase',
] as const;
/** Up to maxLr, and down far below where it began (Smith and Topin, 2018). */
export class OneCycleLR extends Schedule {
  constructor(optimizer: AnyOptimizer, options: OneCycleLROptions) {
    checkOptions('OneCycleLR', ONE_CYCLE, required('OneCycleLR', 'maxLr', options));
    const { maxLr, totalSteps, pctStart = 0.3, annealStrategy = 'cos', cycleMomentum = true } = options;
    const {
      baseMomentum = 0.85,
      maxMomentum = 0.95,
      divFactor = 25,
      finalDivFactor = 1e4,
      threePhase = false,
    } = options;
    positive('OneCycleLR', { totalSteps });
    notMore('OneCycleLR', 'pctStart', pctStart, 1);
    if (Array.isArray(maxLr) && maxLr.length !== optimizer.paramGroups.length)
      throw new ArgumentError(`OneCycleLR: ${maxLr.length} values of maxLr for ${optimizer.paramGroups.length} groups`);
    if (cycleMomentum && !optimizer.paramGroups.every((g) => g.momentum || g.betas))
      throw new ArgumentError('OneCycleLR: the optimizer has no momentum to cycle: pass cycleMomentum: false');
    const between = annealStrategy === 'linear' ? linear : cosine;
    /** Where each phase ends, and what it leads from and to, in lr and in momentum. */
    const phases = (top: number) => {
      const [low, least, up] = [top / divFactor, top / divFactor / finalDivFactor, pctStart * totalSteps - 1];
      const climb = { end: up, lr: [low, top], momentum: [maxMomentum, baseMomentum] };
      const last = { end: totalSteps - 1, lr: [top, least], momentum: [baseMomentum, maxMomentum] };
      if (!threePhase) return [climb, last];
      const back = { end: 2 * up, lr: [top, low], momentum: [baseMomentum, maxMomentum] };
      return [climb, back, { ...last, lr: [low, least], momentum: [maxMomentum, maxMomentum] }];
    };
    super(optimizer, (n, { betas }, i) => {
      if (n > totalSteps)
        throw new ArgumentError(
          `OneCycleLR: step ${n} of ${totalSteps}: its cycle is over: make it as long as the training`,
        );
      const all = phases(typeof maxLr === 'number' ? maxLr : maxLr[i]!);
      const k = Math.max(
        0,
        all.findIndex(({ end }, j) => n <= end || j === all.length - 1),
      );
      const { end, lr, momentum } = all[k]!;
      const begin = k ? all[k - 1]!.end : 0;
      const at = ([a, b]: readonly number[]) => between(a!, b!, Math.min(1, (n - begin) / (end - begin)));
      const moment = at(momentum);
      return {
        lr: at(lr),
        ...(cycleMomentum && (betas ? { betas: [moment, betas[1]] as const } : { momentum: moment })),
      };
    });
  }
}
