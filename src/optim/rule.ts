// How optimizers are declared: a table of options, the numbers of the program, the state of a parameter, and the update rule.
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { isFloat } from '../base/promote.js';
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
  /** The default value and the check of each option. */
  readonly options: { readonly [K in keyof O]-?: Option<O[K]> };
  /** Checks combinations of options. */
  readonly check?: (o: Required<O>) => void;
  /** The numbers that the program needs, computed from the options in f64 on the host: in f32, 1 - 0.999 has four digits. */
  readonly numbers: (o: Required<O>) => Readonly<Record<string, number>>;
  /** The shapes of a parameter's state. */
  readonly state: (shape: Shape, o: Required<O>) => Readonly<Record<string, Shape>>;
  /** Rejects complex parameters: the update is not elementwise. */
  readonly realOnly?: boolean;
  /** Initial values of a parameter's state. Default: 0. */
  readonly initial?: (o: Required<O>) => Readonly<Record<string, number>>;
  /** Numbers that change with each step and are equal for all parameters of a group: f32 scalars among the Scalars. */
  readonly shared?: readonly string[];
  /** Computes what all parameters share; returns the function that computes the new `p` and state of one parameter. */
  readonly begin: (s: Scalars, o: Required<O>) => (x: Exprs, epsilon: number) => Exprs;
  /** The new values of the shared numbers. */
  readonly end?: (s: Scalars) => Exprs;
}

/** A number (or several) is an input of the program and may change at any time. `fixed`: it is part of the program. */
export interface Option<T> {
  readonly value: T;
  readonly fits: (x: unknown) => boolean;
  readonly must: string;
  readonly fixed?: boolean;
  /** Selects one of torch's kernels: kept for state dicts, without effect. */
  readonly ignored?: boolean;
}
const option = <T>(must: string, fits: (x: number) => boolean) => {
  const one = (x: unknown) => typeof x === 'number' && fits(x);
  return (value: T): Option<T> =>
    Array.isArray(value)
      ? { value, must: `${value.length} numbers, each ${must}`, fits: (x) => isListLike(x, value, one) }
      : { value, must, fits: one };
};
/** A list of this length, each element valid; null only if its default is null. */
const isListLike = (x: unknown, like: readonly unknown[], fits: (x: unknown) => boolean): boolean =>
  Array.isArray(x) && x.length === like.length && x.every((e, i) => fits(e) || (e === null && like[i] === null));

export const notNegative = option<number>('0 or more', (x) => x >= 0 && Number.isFinite(x));
export const notPositive = option<number>('0 or less', (x) => x <= 0 && Number.isFinite(x));
export const atLeastOne = option<number>('1 or more', (x) => x >= 1 && Number.isFinite(x));
export const finite = option<number>('a finite number', Number.isFinite);
export const fractions = option<readonly [number, number]>('from 0 up to but not 1', (x) => x >= 0 && x < 1);
export const epsilons = option<readonly [number | null, number]>('0 or more', (x) => x >= 0 && Number.isFinite(x));
export const between01 = option<number>('from 0 to 1', (x) => x >= 0 && x <= 1);
export const positive = option<number>('more than 0', (x) => x > 0 && Number.isFinite(x));
export const pair = option<readonly [number, number]>('a finite number', Number.isFinite);
export const triple = option<readonly [number, number, number]>('a finite number', Number.isFinite);
/** A rate: a number, or a tensor with one element that is read in each step. */
export const rate = (value: number, limit = notNegative): Option<number> => {
  const { fits, must } = limit(value);
  return {
    value,
    must: `${must}, or a tensor with one element`,
    fits: (x) => (x instanceof Tensor ? isRate(x) : fits(x)),
  };
};
const isRate = (x: Tensor): boolean => x.numel() === 1 && isFloat(x.dtype);
export const flag = (value = false): Option<boolean> => ({
  value,
  must: 'true or false',
  fits: (x) => typeof x === 'boolean',
  fixed: true,
});
/** A whole number that is part of the program. */
export const count = <T extends number | null>(value: T, least: number, most = Number.MAX_SAFE_INTEGER): Option<T> => ({
  value,
  must: `a whole number, ${least} or more${most < Number.MAX_SAFE_INTEGER ? ` and at most ${most}` : ''}`,
  fits: (x) =>
    (x === null && value === null) || (Number.isInteger(x) && (x as number) >= least && (x as number) <= most),
  fixed: true,
});
/** One of several words, or null. */
export const choice = <T extends string>(...words: readonly T[]): Option<T | null> => ({
  value: null,
  must: `${words.map((w) => `'${w}'`).join(' or ')}, or null`,
  fits: (x) => x === null || words.includes(x as T),
  fixed: true,
});

/** Options that select one of torch's implementations of a step. Accepted without effect, as XLA fuses the step. */
export interface KernelOptions {
  foreach?: boolean | null;
  fused?: boolean | null;
  capturable?: boolean;
  /** Only false: updates are not differentiable. */
  differentiable?: boolean;
}
const ignored = (value: boolean | null): Option<boolean | null> => ({
  value,
  must: 'true, false or null',
  fits: (x) => x === null || typeof x === 'boolean',
  ignored: true,
});
const KERNELS = {
  foreach: ignored(null),
  fused: ignored(null),
  capturable: ignored(false) as Option<boolean>,
  differentiable: {
    value: false,
    must: 'false: updates are not differentiable. Write the update with tensor operations to differentiate through it',
    fits: (x: unknown) => x === false || x === null,
    ignored: true,
  } as Option<boolean>,
};
/** Those of them that torch's optimizer has. */
export const kernels = <K extends keyof KernelOptions>(...names: readonly K[]): Pick<typeof KERNELS, K> =>
  Object.fromEntries(names.map((name) => [name, KERNELS[name]])) as Pick<typeof KERNELS, K>;

/** What every optimizer takes. */
export interface CommonOptions {
  /** Whether to maximize instead of minimize. Default: false. */
  maximize?: boolean;
  /** Whether to keep and update f32 copies of bf16 and f16 parameters. Default: false. */
  masterWeights?: boolean;
}
export const COMMON = { maximize: flag(), masterWeights: flag() };

export function checkOption(rule: string, name: string, { fits, must }: Option<unknown>, given: unknown): void {
  if (fits(given)) return;
  const isTensor = given instanceof Tensor && !must.includes('tensor');
  const way = isTensor ? `: read it first, await ${name}.item()` : '';
  throw new ArgumentError(`${rule}: ${name} is ${shown(given)}: it must be ${must}${way}`);
}
const shown = (x: unknown): string =>
  Array.isArray(x) ? `[${x.map((e) => (e instanceof Tensor ? showValue(e) : JSON.stringify(e)))}]` : showValue(x);

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
