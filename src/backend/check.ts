// Checks arguments of the backend's methods. TypeScript checks them already; in plain JavaScript, wrong ones would be ignored.
import { checkWhole } from '../base/check.js';
import { unknownOption } from '../base/options.js';
import { messageOf } from '../base/thrown.js';
import { describe, isPlain, shown } from '../base/tree.js';
import { Module } from '../nn/module.js';
import { type ErrorKind, TPUConfigurationError, TPUValidationError } from './errors.js';

/** Checks options by name; `what` starts the error message. */
export function checkOptions(
  what: string,
  names: readonly string[],
  given: object,
  kind: ErrorKind = TPUValidationError,
): void {
  const problem = isPlain(given)
    ? unknownOption(names, given)
    : `takes options { ${names.join(', ')} }, got ${describe(given)}`;
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

/** Checks a whole number in a range, with base/check's message. */
export function checkCount(what: string, n: number, least: number, kind: ErrorKind = TPUValidationError): void {
  try {
    checkWhole(what, n, least);
  } catch (e) {
    throw new kind(messageOf(e), { cause: e });
  }
}

export function checkFile(what: string, model: unknown, path: unknown): void {
  const problem = !(model instanceof Module)
    ? `takes a model, got ${describe(model)}`
    : typeof path !== 'string' || !path
      ? `takes the path of a file, got ${describe(path)}`
      : undefined;
  if (problem) throw new TPUValidationError(`${what}: ${problem}: write ${what}(model, path)`);
}
