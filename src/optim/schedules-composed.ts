// Composed schedules (SequentialLR, ChainedScheduler), ReduceLROnPlateau, and SWALR.
import { ArgumentError } from '../base/errors.js';
import { describe, isPlain, shown } from '../base/tree.js';
import { Tensor } from '../tensor/tensor.js';
import {
  type AnyOptimizer,
  type Arguments,
  checkOptimizer,
  groupsOf,
  initialRate,
  perGroup,
  type Resumable,
  readArguments,
  Schedule,
  scheduleState,
} from './schedule.js';

/** Checks the schedules that a composed one is made of. */
type Part = Schedule | SequentialLR | ChainedScheduler;
function checkParts(kind: string, parts: unknown, optimizer: AnyOptimizer | undefined): readonly Part[] {
  if (!Array.isArray(parts) || !parts.length)
    throw new ArgumentError(`${kind}: schedulers is ${shown(parts)}: it must be a list with one schedule or more`);
  parts.forEach((part, i) => {
    const isFit = part instanceof Schedule || part instanceof SequentialLR || part instanceof ChainedScheduler;
    if (!isFit)
      throw new ArgumentError(
        part instanceof ReduceLROnPlateau
          ? `${kind}: schedulers[${i}] is a ReduceLROnPlateau, whose step needs a metric: call its step() separately`
          : `${kind}: schedulers[${i}] is ${describe(part)}: it must be a schedule`,
      );
    if (part.optimizer !== (optimizer ?? parts[0].optimizer))
      throw new ArgumentError(`${kind}: schedulers[${i}] belongs to another optimizer`);
  });
  return parts;
}
export interface ComposedState {
  readonly step: number;
  readonly schedulers: readonly object[];
  readonly lastLr: readonly number[];
}
/** Reads the state with tsxla's or torch's names. */
function composedState(kind: string, state: object, parts: readonly Part[]): ComposedState {
  const given = (state instanceof Map ? Object.fromEntries(state) : state) as Record<string, unknown>;
  const schedulers = (given.schedulers ?? given._schedulers) as object[] | undefined;
  if (schedulers?.length !== parts.length)
    throw new ArgumentError(`${kind}: the state has ${schedulers?.length} schedules, but this one has ${parts.length}`);
  const lastLr = (given.lastLr ?? given._last_lr) as number[];
  return { step: Number(given.step ?? given.last_epoch ?? 0), schedulers, lastLr };
}

export interface SequentialLROptions {
  readonly schedulers: readonly Part[];
  /** The steps at which the next schedule begins. */
  readonly milestones: readonly number[];
}
/** Runs schedules one after the other. */
export class SequentialLR {
  readonly optimizer: AnyOptimizer;
  readonly #parts: readonly Part[];
  readonly #milestones: readonly number[];
  #step = 0;

  constructor(
    optimizer: AnyOptimizer,
    ...args: Arguments<SequentialLROptions, [schedulers: readonly Part[], milestones: readonly number[]]>
  ) {
    const kind = 'SequentialLR';
    checkOptimizer(kind, optimizer);
    const names = ['schedulers', 'milestones'] as const;
    const { schedulers, milestones } = readArguments<SequentialLROptions>(kind, names, args, names);
    this.optimizer = optimizer;
    this.#parts = checkParts(kind, schedulers, optimizer);
    if (milestones.length !== this.#parts.length - 1)
      throw new ArgumentError(
        `${kind}: ${this.#parts.length} schedules need ${this.#parts.length - 1} milestones, got ${milestones.length}`,
      );
    this.#milestones = milestones;
    this.restart();
  }
  #partOf(n: number): number {
    return this.#milestones.filter((m) => m <= n).length;
  }

  get lastEpoch(): number {
    return this.#step;
  }
  /** The learning rates of all groups in step n, counted from 0. */
  at(n: number): number[] {
    const i = this.#partOf(n);
    return this.#parts[i]!.at(n - (i ? this.#milestones[i - 1]! : 0));
  }
  getLastLr(): number[] {
    return groupsOf(this.optimizer).map((g) => g.lr);
  }
  restart(): void {
    for (const group of groupsOf(this.optimizer)) group.lr = initialRate(group);
    this.#step = 0;
    this.#parts[this.#partOf(0)]!.restart();
  }
  /** Call it on the host, after each step of the optimizer. */
  step(): void {
    this.#step++;
    const i = this.#partOf(this.#step);
    const part = this.#parts[i]!;
    if (i > 0 && this.#milestones[i - 1] === this.#step) {
      if (part instanceof Schedule) part.step(0);
      else part.restart();
    } else part.step();
  }

  stateDict(): ComposedState {
    return { step: this.#step, schedulers: this.#parts.map((p) => p.stateDict()), lastLr: this.getLastLr() };
  }
  /** Loads a state dict of tsxla or torch, and sets the rates. */
  loadStateDict(state: ComposedState | object): void {
    const { step, schedulers, lastLr } = composedState('SequentialLR', state, this.#parts);
    const current = this.#partOf(step);
    // Those that have not begun have a state of no step in torch: only the others are loaded, the current one last.
    const order = this.#parts.map((_, i) => i).filter((i) => i < current);
    for (const i of [...order, current]) this.#parts[i]!.loadStateDict(schedulers[i]!);
    this.#step = step;
    groupsOf(this.optimizer).forEach((g, i) => void (g.lr = lastLr[i]!));
  }
  state(): ComposedState {
    return this.stateDict();
  }
  load(state: ComposedState | object): void {
    this.loadStateDict(state);
  }
}

/** Applies several schedules in each step: each changes the rate that the previous one has set. */
export class ChainedScheduler {
  readonly optimizer: AnyOptimizer;
  readonly #parts: readonly Part[];
  #step = 0;

  constructor(schedulers: readonly Part[], optimizer?: AnyOptimizer | null) {
    this.#parts = checkParts('ChainedScheduler', schedulers, optimizer ?? undefined);
    this.optimizer = this.#parts[0]!.optimizer;
  }
  get lastEpoch(): number {
    return this.#step;
  }
  at(_: number): never {
    throw new ArgumentError(
      'ChainedScheduler.at: the rates of chained schedules are only known by stepping through them: use step()',
    );
  }
  getLastLr(): number[] {
    return groupsOf(this.optimizer).map((g) => g.lr);
  }
  restart(): void {
    for (const part of this.#parts) part.restart();
    this.#step = 0;
  }
  /** Call it on the host, after each step of the optimizer. */
  step(): void {
    for (const part of this.#parts) part.step();
    this.#step++;
  }

  stateDict(): ComposedState {
    return { step: this.#step, schedulers: this.#parts.map((p) => p.stateDict()), lastLr: this.getLastLr() };
  }
  /** Loads a state dict of tsxla or torch, and sets the rates. */
  loadStateDict(state: ComposedState | object): void {
    const { schedulers, lastLr } = composedState('ChainedScheduler', state, this.#parts);
    this.#parts.forEach((part, i) => void part.loadStateDict(schedulers[i]!));
    this.#step = this.#parts[0]!.lastEpoch;
    groupsOf(this.optimizer).forEach((g, i) => void (g.lr = lastLr[i]!));
  }
  state(): ComposedState {
    return this.stateDict();
  }
  load(state: ComposedState | object): void {
    this.loadStateDict(state);
  }
}

export interface ReduceLROnPlateauOptions {
  readonly mode?: 'min' | 'max';
  readonly factor?: number;
  /** The number of steps without improvement to tolerate. Default: 10. */
  readonly patience?: number;
  readonly threshold?: number;
  readonly thresholdMode?: 'rel' | 'abs';
  /** The number of steps after a reduction in which none are counted. Default: 0. */
  readonly cooldown?: number;
  readonly minLr?: number | readonly number[];
  /** The minimal change of the rate; smaller ones are skipped. Default: 1e-8. */
  readonly eps?: number;
}
const PLATEAU = [
  ...(['mode', 'factor', 'patience', 'threshold', 'thresholdMode', 'cooldown', 'minLr', 'eps'] as const),
] as const;
export interface PlateauState {
  readonly step: number;
  readonly best: number;
  readonly badSteps: number;
  readonly cooldown: number;
  readonly lastLr: readonly number[];
}
/** Reduces the rate when a metric stops improving: call step(metric) after each evaluation. */
export class ReduceLROnPlateau {
  readonly optimizer: AnyOptimizer;
  readonly #options: Required<Omit<ReduceLROnPlateauOptions, 'minLr'>> & { readonly minLrs: readonly number[] };
  #step = 0;
  #best: number;
  #badSteps = 0;
  #cooldown = 0;

  constructor(
    optimizer: AnyOptimizer,
    ...args: Arguments<ReduceLROnPlateauOptions, [mode?: 'min' | 'max', factor?: number, patience?: number]>
  ) {
    const kind = 'ReduceLROnPlateau';
    checkOptimizer(kind, optimizer);
    const o = readArguments<ReduceLROnPlateauOptions>(kind, PLATEAU, args);
    const { mode = 'min', factor = 0.1, patience = 10, threshold = 1e-4, thresholdMode = 'rel' } = o;
    const { cooldown = 0, minLr = 0, eps = 1e-8 } = o;
    if (!(factor < 1)) throw new ArgumentError(`${kind}: factor is ${shown(factor)}: it must be less than 1`);
    if (mode !== 'min' && mode !== 'max')
      throw new ArgumentError(`${kind}: mode is ${shown(mode)}: it must be 'min' or 'max'`);
    if (thresholdMode !== 'rel' && thresholdMode !== 'abs')
      throw new ArgumentError(`${kind}: thresholdMode is ${shown(thresholdMode)}: it must be 'rel' or 'abs'`);
    const minLrs = perGroup(kind, 'minLr', optimizer, minLr);
    this.optimizer = optimizer;
    this.#options = { mode, factor, patience, threshold, thresholdMode, cooldown, minLrs, eps };
    this.#best = mode === 'min' ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
  }
  get lastEpoch(): number {
    return this.#step;
  }
  getLastLr(): number[] {
    return groupsOf(this.optimizer).map((g) => g.lr);
  }

  /** Takes the metric. A tensor is read first: await the result. */
  step(metric: Tensor, epoch?: number | null): Promise<void>;
  step(metric: number, epoch?: number | null): void;
  step(metric: number | Tensor, epoch?: number | null): void | Promise<void> {
    if (metric instanceof Tensor)
      return metric
        .to('f64')
        .item()
        .then((x) => this.step(Number(x), epoch));
    if (typeof metric !== 'number')
      throw new ArgumentError(
        `ReduceLROnPlateau.step: the metric is ${shown(metric)}: it must be a number: write step(await loss.item())`,
      );
    const { factor, patience, cooldown, minLrs, eps } = this.#options;
    this.#step = epoch ?? this.#step + 1;
    if (this.#isBetter(metric)) {
      this.#best = metric;
      this.#badSteps = 0;
    } else this.#badSteps++;
    if (this.#cooldown > 0) {
      this.#cooldown--;
      this.#badSteps = 0;
    }
    if (this.#badSteps <= patience) return;
    groupsOf(this.optimizer).forEach((group, i) => {
      const next = Math.max(group.lr * factor, minLrs[i] ?? minLrs[0]!);
      if (group.lr - next > eps) group.lr = next;
    });
    this.#cooldown = cooldown;
    this.#badSteps = 0;
  }
  #isBetter(x: number): boolean {
    const { mode, threshold, thresholdMode } = this.#options;
    const sign = mode === 'min' ? -1 : 1;
    const bound = thresholdMode === 'rel' ? this.#best * (1 + sign * threshold) : this.#best + sign * threshold;
    return mode === 'min' ? x < bound : x > bound;
  }

  stateDict(): PlateauState {
    const [step, best, badSteps, cooldown] = [this.#step, this.#best, this.#badSteps, this.#cooldown];
    return { step, best, badSteps, cooldown, lastLr: this.getLastLr() };
  }
  /** Loads a state dict of tsxla or torch, and sets the rates. */
  loadStateDict(state: PlateauState | object): void {
    const given = (state instanceof Map ? Object.fromEntries(state) : state) as Record<string, never>;
    const read = (...names: string[]): number => {
      const name = names.find((n) => given[n] !== undefined);
      if (name === undefined) throw new ArgumentError(`ReduceLROnPlateau: the state has no ${names[0]}`);
      return given[name]!;
    };
    this.#step = read('step', 'last_epoch');
    this.#best = read('best');
    this.#badSteps = read('badSteps', 'num_bad_epochs');
    this.#cooldown = isPlain(state) && 'cooldown_counter' in state ? read('cooldown_counter') : read('cooldown');
    const { lastLr } = scheduleState(given);
    groupsOf(this.optimizer).forEach((g, i) => void (lastLr && (g.lr = lastLr[i]!)));
  }
  state(): PlateauState {
    return this.stateDict();
  }
  load(state: PlateauState | object): void {
    this.loadStateDict(state);
  }
}

export interface SWALROptions extends Resumable {
  readonly swaLr: number | readonly number[];
  readonly annealEpochs?: number;
  readonly annealStrategy?: 'cos' | 'linear';
}
/** Anneals the current rate to a constant one, for stochastic weight averaging. */
export class SWALR extends Schedule {
  constructor(
    optimizer: AnyOptimizer,
    ...args: Arguments<SWALROptions, [swaLr: number | readonly number[], annealEpochs?: number]>
  ) {
    const kind = 'SWALR';
    const names = ['swaLr', 'annealEpochs', 'annealStrategy'] as const;
    const {
      swaLr,
      annealEpochs = 10,
      annealStrategy = 'cos',
    } = readArguments<SWALROptions>(kind, names, args, ['swaLr']);
    if (!(Number.isInteger(annealEpochs) && annealEpochs >= 0))
      throw new ArgumentError(`${kind}: annealEpochs is ${shown(annealEpochs)}: it must be a whole number, 0 or more`);
    if (annealStrategy !== 'cos' && annealStrategy !== 'linear')
      throw new ArgumentError(`${kind}: annealStrategy is ${shown(annealStrategy)}: it must be 'cos' or 'linear'`);
    const targets = perGroup(kind, 'swaLr', optimizer, swaLr);
    const part = (n: number) => {
      const t = Math.max(0, Math.min(1, n / Math.max(1, annealEpochs)));
      return annealStrategy === 'cos' ? (1 - Math.cos(Math.PI * t)) / 2 : t;
    };
    const from = (n: number, lr: number, target: number) => {
      const before = part(n - 1);
      return before === 1 ? target : (lr - before * target) / (1 - before);
    };
    const rate = (n: number, lr: number, target: number) => {
      const step = annealEpochs === 0 ? Math.max(1, n) : n;
      return target * part(step) + from(step, lr, target) * (1 - part(step));
    };
    super(
      optimizer,
      (n, { lr }, i) => ({ lr: targets[i]! * part(annealEpochs ? n : 1) + lr * (1 - part(annealEpochs ? n : 1)) }),
      { onlyChain: true, chain: (n, lr, _, i) => rate(n, lr, targets[i]!) },
    );
  }
}
