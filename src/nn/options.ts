// Reads the options of layers: by name, or by position in torch's order.
import { checkWhole } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { isPlain, shown } from '../base/tree.js';
import { named } from '../tensor/arguments.js';
import { Tensor } from '../tensor/tensor.js';

export type { Given } from '../tensor/lift.js';

/** A number that is a probability. */
export function checkProbability(what: string, p: number): number {
  if (typeof p === 'number' && p >= 0 && p <= 1) return p;
  throw new ArgumentError(`${what} is ${shown(p)}: a probability is between 0 and 1`);
}

/** A number of something. */
export const checkCount = (what: string, n: number, least = 1): number => checkWhole(what, n, least);

/** The default of each option; undefined if leaving the option out has a separate meaning. */
export type Defaults<O> = { readonly [K in keyof O]-?: O[K] | undefined };
/** Options over their defaults, all of which are named there; one that is not is an error. */
export function optionsOf<O extends object>(layer: string, defaults: Defaults<O>, given: object): O {
  checkOptions<object>(layer, Object.keys(defaults) as never[], given);
  // null, torch's None, means "left out" where that has a separate meaning.
  const isLeftOut = (key: string, value: unknown) =>
    value === undefined || (value === null && defaults[key as keyof O] === undefined);
  const set = Object.entries(given).filter(([key, value]) => !isLeftOut(key, value));
  return { ...defaults, ...Object.fromEntries(set) } as O;
}

/** The same, where the first few may be given by place. */
export function optionsInOrder<O extends object>(
  layer: string,
  order: readonly (keyof O & string)[],
  defaults: Defaults<O>,
  given: readonly unknown[],
): O {
  const places = given.filter((x, i) => i < given.length - 1 || !isPlain(x)).length;
  if (places > order.length)
    throw new ArgumentError(
      `${layer}: takes ${order.length ? order.join(', ') : 'no options'}, got ${places} ${places === 1 ? 'argument' : 'arguments'}`,
    );
  return optionsOf(layer, defaults, named<O>(order, given));
}

/** Options as they are printed: kernelSize=2, stride=[2, 1]. */
export const showOptions = (options: object): string =>
  Object.entries(options)
    .filter(([, value]) => value !== undefined && value !== null && !(value instanceof Tensor))
    .map(([name, value]) => `${name}=${showOption(value)}`)
    .join(', ');
export const showOption = (value: unknown): string =>
  Array.isArray(value) ? `[${value.map(showOption).join(', ')}]` : String(value);
