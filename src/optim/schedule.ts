// The base class of schedules: learning rates as a function of the step number. at(n) works for any step, and schedules resume
// exactly. step() sets the optimizer's scalars from the host; the program stays the same.
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe, isPlain, shown } from '../base/tree.js';
import { Tensor } from '../tensor/tensor.js';
import type { Group, Optimizer } from './optimizer.js';

export interface Rates {
  lr: number;
  momentum?: number;
  betas?: readonly [number, number];
}
/** The options of a group that a schedule sets. */
export type Setting = Readonly<Rates>;
// biome-ignore lint/suspicious/noExplicitAny: an optimizer of any options
export type AnyOptimizer = Pick<Optimizer<any>, 'paramGroups'>;
export type ScheduleState = {
  readonly step: number;
  readonly baseLrs: readonly number[];
  /** The rates that were set last. They differ from at(step) if several schedules, or the user, have changed them. */
  readonly lastLr?: readonly number[];
};

/** A group's options in step n, given those when the schedule was created. */
export type ScheduleRule = (n: number, base: Setting, group: number) => Setting;
/**
 * The rate of step n from the current rate, so that schedules can be chained. In the first call n is 0 and `isInitial`
 * is true.
 */
export type ChainRule = (n: number, lr: number, base: Setting, group: number, isInitial: boolean) => number;
export interface ScheduleForm {
  readonly chain?: ChainRule;
  /** Whether step(n) also uses the chain rule, as torch has no closed form. */
  readonly onlyChain?: boolean;
  /** The last step that was done, to resume with an optimizer that had a schedule before. Default: -1, a new start. */
  readonly lastEpoch?: number | undefined;
  /** Initial rates. Default: the optimizer's. */
  readonly base?: (group: number) => number;
}

/** The rates of groups before any schedule: as in torch, later schedules of the same optimizer start from them. */
const initialRates = new WeakMap<object, number>();
export const groupsOf = (optimizer: AnyOptimizer): readonly (Group<Rates> & Rates)[] =>
  optimizer.paramGroups as readonly Group<Rates>[];
export const initialRate = (group: object): number => initialRates.get(group)!;

export function checkOptimizer(kind: string, optimizer: unknown): asserts optimizer is AnyOptimizer {
  if (!Array.isArray((optimizer as AnyOptimizer | null)?.paramGroups))
    throw new ArgumentError(`${kind}: the optimizer is ${describe(optimizer)}: it must be an optimizer of tx.optim`);
  for (const { lr } of groupsOf(optimizer as AnyOptimizer) as readonly { lr: unknown }[])
    if (lr instanceof Tensor)
      throw new ArgumentError(
        `${kind}: the optimizer's lr is a tensor, ${lr.aval}: schedules compute on the host: pass a number as lr`,
      );
}

/** Sets learning rates by step number: call step() on the host after each step of the optimizer. */
export class Schedule {
  #step = 0;
  #base: readonly Setting[];
  #last: readonly number[] = [];
  /** Whether no other code changed the rates: then each is computed from the initial one, without accumulated rounding. */
  #isAlone = true;
  readonly #form: ScheduleForm;

  /** `rule` computes a group's options in step n from those when the schedule was created. */
  constructor(
    readonly optimizer: AnyOptimizer,
    readonly rule: ScheduleRule,
    form: ScheduleForm = {},
  ) {
    checkOptimizer(this.constructor.name, optimizer);
    this.#form = form;
    const { lastEpoch = -1 } = form;
    if (!(Number.isInteger(lastEpoch) && lastEpoch >= -1))
      throw new ArgumentError(`${this.constructor.name}: lastEpoch is ${shown(lastEpoch)}: it must be -1 or more`);
    this.#base = this.#groups.map((group, i) => {
      if (lastEpoch >= 0 && !initialRates.has(group))
        throw new ArgumentError(
          `${this.constructor.name}: lastEpoch is ${lastEpoch}, but this optimizer had no schedule before: load the state dict of the schedule instead`,
        );
      if (form.base) group.lr = form.base(i);
      if (!initialRates.has(group)) initialRates.set(group, group.lr);
      const { momentum, betas } = group;
      const lr = form.base ? form.base(i) : initialRate(group);
      return { lr, ...(betas ? { betas } : { momentum }) } as Setting;
    });
    this.restart(lastEpoch + 1);
  }
  get #groups(): readonly (Group<Rates> & Rates)[] {
    return groupsOf(this.optimizer);
  }

  /** The number of steps done. */
  get lastEpoch(): number {
    return Math.floor(this.#step);
  }
  /** The learning rates of all groups in step n, counted from 0, if no other schedule changes them. */
  at(n: number): number[] {
    return this.#base.map((base, i) => this.rule(n, base, i).lr);
  }
  /** The current learning rates. */
  getLastLr(): number[] {
    return [...this.#last];
  }
  /** Call it on the host after each step of the optimizer. With a number it jumps to that step. */
  step(epoch?: number | null): void {
    if (epoch !== undefined && epoch !== null && !(typeof epoch === 'number' && epoch >= 0))
      throw new ArgumentError(`${this.constructor.name}.step: epoch is ${shown(epoch)}: it must be 0 or more`);
    const { chain, onlyChain } = this.#form;
    const next = epoch ?? this.#step + 1;
    const isOther = this.#groups.some((g, i) => g.lr !== this.#last[i]);
    if (isOther) this.#isAlone = false;
    const isGiven = typeof epoch === 'number';
    if (isGiven && !onlyChain) this.#isAlone = true;
    const isChained = chain && (isGiven ? onlyChain : !this.#isAlone || onlyChain);
    this.#apply(next, isChained ? (i) => chain(next, this.#groups[i]!.lr, this.#base[i]!, i, false) : undefined);
    this.#step = next;
  }
  /** Sets the rates of step 0, as the constructor does. */
  restart(step = 0): void {
    const { chain } = this.#form;
    const first = this.#groups.map((g, i) =>
      chain && step === 0 ? chain(0, g.lr, this.#base[i]!, i, true) : undefined,
    );
    const closed = this.at(step);
    this.#isAlone = first.every((lr, i) => lr === undefined || lr === closed[i]);
    this.#apply(step, (i) => first[i] ?? closed[i]!);
    this.#step = step;
  }
  #apply(step: number, lrOf?: (group: number) => number): void {
    const settings = this.#base.map((base, i) => ({ ...this.rule(step, base, i), ...(lrOf && { lr: lrOf(i) }) }));
    settings.forEach((setting, i) => {
      for (const [name, value] of Object.entries(setting)) this.#groups[i]![name as 'lr'] = value as number;
    });
    this.#last = settings.map(({ lr }) => lr);
  }

  /** The state to resume from. state() and load() are aliases, as for data loaders. */
  stateDict(): ScheduleState {
    return { step: this.#step, baseLrs: this.#base.map((b) => b.lr), lastLr: this.getLastLr() };
  }
  /** Loads a state dict of tsxla or torch, and sets the rates. */
  loadStateDict(state: ScheduleState | object): void {
    const { step, baseLrs, lastLr } = scheduleState(state);
    if (!(typeof step === 'number' && step >= 0))
      throw new ArgumentError(`schedule: the state's step is ${shown(step)}: it must be a number, 0 or more`);
    if (baseLrs?.length !== this.#base.length)
      throw new ArgumentError(
        `schedule: the state has ${baseLrs?.length} learning rates, but the optimizer has ${this.#base.length} groups`,
      );
    this.#step = step;
    this.#base = this.#base.map((base, i) => ({ ...base, lr: baseLrs[i]! }));
    const rates = lastLr ?? this.at(step);
    this.#isAlone = String(rates) === String(this.at(step));
    this.#apply(step, (i) => rates[i]!);
  }
  state(): ScheduleState {
    return this.stateDict();
  }
  load(state: ScheduleState | object): void {
    this.loadStateDict(state);
  }
}

/** Reads a schedule's state with tsxla's or torch's names. */
export function scheduleState(state: object): ScheduleState {
  const given = (state instanceof Map ? Object.fromEntries(state) : state) as Record<string, unknown>;
  return {
    step: given.step ?? given.last_epoch,
    baseLrs: given.baseLrs ?? given.base_lrs,
    lastLr: given.lastLr ?? given._last_lr,
  } as ScheduleState;
}

/** Reads arguments by position, by name in one object at the end, or both. */
export type Arguments<O, Places extends readonly unknown[]> = readonly [O] | Places | Mixed<O, Required<Places>>;
type Mixed<O, Places extends readonly unknown[], Before extends readonly unknown[] = []> = Places extends readonly [
  infer First,
  ...infer Rest,
]
  ? readonly [...Before, First, Partial<O>] | Mixed<O, Rest, [...Before, First]>
  : never;
export function readArguments<O extends object>(
  kind: string,
  names: readonly (keyof O & string)[],
  given: readonly unknown[],
  required: readonly (keyof O & string)[] = [],
): O {
  const last = given.at(-1);
  const [places, options] = isPlain(last) ? [given.slice(0, -1), last] : [given, {}];
  checkOptions(kind, [...names, 'lastEpoch'], options as object as Record<string, unknown>);
  if (places.length > names.length)
    throw new ArgumentError(`${kind}: ${places.length} arguments: it takes ${names.join(', ')}`);
  const all: Record<string, unknown> = { ...options };
  places.forEach((value, i) => {
    const name = names[i]!;
    if (value === undefined) return;
    if (all[name] !== undefined) throw new ArgumentError(`${kind}: ${name} is given twice, by position and by name`);
    all[name] = value;
  });
  const missing = required.find((name) => all[name] === undefined);
  if (missing)
    throw new ArgumentError(`${kind}: ${missing} is missing: write new ${kind}(optimizer, { ${missing}: ... })`);
  return all as O;
}
export interface Resumable {
  /** The last step that was done. Default: -1, a new start. */
  readonly lastEpoch?: number;
}

/** One value for each group. */
export function perGroup<T>(
  kind: string,
  name: string,
  optimizer: AnyOptimizer,
  value: T | readonly T[],
): readonly T[] {
  checkOptimizer(kind, optimizer);
  const { length } = optimizer.paramGroups;
  if (!Array.isArray(value)) return Array.from({ length }, () => value as T);
  if (value.length === length) return value;
  throw new ArgumentError(`${kind}: ${name} has ${value.length} values for ${length} groups: give one for each`);
}
