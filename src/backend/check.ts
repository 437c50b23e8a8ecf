// What callers give, checked, with errors of the backend's own.
import { unknownOption } from '../base/options.js';
import { describe, isPlain, shown } from '../base/tree.js';
import { type ErrorKind, TPUConfigurationError, TPUValidationError } from './errors.js';

/** Options by name; `what` begins the sentence. */
export function checkOptions(
  what: string,
  names: readonly string[],
  given: object,
  kind: ErrorKind = TPUValidationError,
): void {
  const problem = isPlain(given)
    ? unknownOption(names, given)
    : `takes { ${names.join(', ')} }, got ${describe(given)}`;
  if (problem) throw new kind(`${what}: ${problem}`, { details: { given } });
}

export function checkOneOf<T extends string>(
  what: string,
  given: string,
  known: readonly T[],
  kind: ErrorKind = TPUConfigurationError,
): asserts given is T {
  if (!known.includes(given as T))
    throw new kind(`${what} is ${shown(given)}: it must be ${known.join(', ')}`, { details: { given } });
}
