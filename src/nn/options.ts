// What layers are made with: options by name, or by place in torch's order.
import { checkWhole } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { isPlain } from '../base/tree.js';
import { named } from '../tensor/arguments.js';
import { Tensor } from '../tensor/tensor.js';

export type { Given } from '../tensor/lift.js';

/** A number of something. */
export const checkCount = (what: string, n: number, least = 1): number => checkWhole(what, n, least);

/** One for each option; undefined where an option that is left out has a meaning of its own. */
export type Defaults<O> = { readonly [K in keyof O]-?: O[K] | undefined };
/** Options over their defaults, all of which are named there; one that is not is an error. */
export function optionsOf<O extends object>(layer: string, defaults: Defaults<O>, given: object): O {
  const names = Object.keys(defaults);
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    const takes = names.length ? `it takes ${names.join(', ')}` : 'it takes none';
    throw new ArgumentError(`${layer}: there is no option '${unknown}': ${takes}`);
  }
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
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
