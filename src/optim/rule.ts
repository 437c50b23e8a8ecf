// What an optimizer is made of: a table of options, the numbers its program needs, the state of a parameter, and the update.
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import type { Shape } from '../base/shape.js';
import { shown as showValue } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { Tensor } from '../tensor/tensor.js';

/** The expressions of a parameter's update by name: `p` the parameter, `g` its gradient, the others its state. */
export type Exprs = Readonly<Record<string, Expr>>;
/** Scalars of the program, set from the host: those of Rule.numbers, and `t`, the number of this step, from 1. */
export type Scalars = Readonly<Record<string, Expr>>;

export interface Rule<O extends object> {
  readonly name: string;
  /** Each option's default value and what it must be. */
  readonly options: { readonly [K in keyof O]-?: Option<O[K]> };
  /** Whether the options fit each other. */
  readonly check?: (o: Required<O>) => void;
  /** What the program needs of the options, in f64 on the host: in f32, 1 - 0.999 would have four digits. */
  readonly numbers: (o: Required<O>) => Readonly<Record<string, number>>;
  /** The shapes of a parameter's state. */
  readonly state: (shape: Shape, o: Required<O>) => Readonly<Record<string, Shape>>;
  /** What all parameters share is computed here; the result makes, for one of them, its new `p` and new state. */
  readonly begin: (s: Scalars, o: Required<O>) => (x: Exprs, epsilon: number) => Exprs;
}

/** A number (or several) is an input of the program and may change at any time; a boolean is part of it. */
export interface Option<T> {
  readonly value: T;
  readonly fits: (x: unknown) => boolean;
  readonly must: string;
}
const option = <T>(must: string, fits: (x: number) => boolean) => {
  const one = (x: unknown) => typeof x === 'number' && fits(x);
  return (value: T): Option<T> =>
    Array.isArray(value)
      ? { value, must: `${value.length} numbers, each ${must}`, fits: (x) => isListLike(x, value, one) }
      : { value, must, fits: one };
};
/** As many elements, each right; null only where the default is null. */
const isListLike = (x: unknown, like: readonly unknown[], fits: (x: unknown) => boolean): boolean =>
  Array.isArray(x) && x.length === like.length && x.every((e, i) => fits(e) || (e === null && like[i] === null));

export const notNegative = option<number>('0 or more', (x) => x >= 0 && Number.isFinite(x));
export const notPositive = option<number>('0 or less', (x) => x <= 0 && Number.isFinite(x));
export const atLeastOne = option<number>('1 or more', (x) => x >= 1 && Number.isFinite(x));
export const finite = option<number>('a finite number', Number.isFinite);
export const fractions = option<readonly [number, number]>('from 0 up to but not 1', (x) => x >= 0 && x < 1);
export const epsilons = option<readonly [number | null, number]>('0 or more', (x) => x >= 0 && Number.isFinite(x));
export const flag = (value = false): Option<boolean> => ({
  value,
  must: 'true or false',
  fits: (x) => typeof x === 'boolean',
});

/** What every optimizer takes. */
export interface CommonOptions {
  /** Goes up the gradient instead of down. */
  maximize?: boolean;
  /** Keeps f32 copies of bf16 and f16 parameters, and updates those. */
  masterWeights?: boolean;
}
export const COMMON = { maximize: flag(), masterWeights: flag() };

export function checkOption(rule: string, name: string, { fits, must }: Option<unknown>, given: unknown): void {
  if (fits(given)) return;
  const way = given instanceof Tensor ? `: read it first, Number(await ${name}.item())` : '';
  throw new ArgumentError(`${rule}: ${name} is ${shown(given)}: it must be ${must}${way}`);
}
const shown = (x: unknown): string => (Array.isArray(x) ? JSON.stringify(x) : showValue(x));

/** The options of a group: those given, on top of others. */
export function optionsOf<O extends object>(rule: Rule<O>, given: object, defaults?: Required<O>): Required<O> {
  const known = Object.entries<Option<unknown>>(rule.options);
  checkOptions<object>(rule.name, Object.keys(rule.options) as never[], given);
  const all = { ...(defaults ?? Object.fromEntries(known.map(([name, { value }]) => [name, value]))) } as Required<O>;
  for (const [name, o] of known) {
    const value = (given as Record<string, unknown>)[name];
    if (value === undefined) continue;
    checkOption(rule.name, name, o, value);
    (all as Record<string, unknown>)[name] = value;
  }
  rule.check?.(all);
  return all;
}
