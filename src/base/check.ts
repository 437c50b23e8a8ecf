// Checks of whole numbers, durations and lists of parameters, with one error message for each.
import { ArgumentError } from './errors.js';
import { describe, shown } from './tree.js';

/** Checks a whole number in a range. The error: "DataLoader: batchSize is 0: it must be a whole number, at least 1". */
export function checkWhole(what: string, n: number, least = 0, most = Number.MAX_SAFE_INTEGER): number {
  if (Number.isSafeInteger(n) && n >= least && n <= most) return n;
  const range = most < Number.MAX_SAFE_INTEGER ? `, ${least} to ${most}` : `, at least ${least}`;
  throw new ArgumentError(`${what} is ${shown(n)}: it must be a whole number${range}`);
}

/** The longest time of a timer, in seconds: 24.8 days. For longer ones, setTimeout fires immediately. */
export const MOST_SECONDS = Math.floor((2 ** 31 - 1) / 1000);

/** Checks seconds for a timer. The error: "--timeout is 1e+20: it must be a number of seconds above 0, ...". */
export function checkSeconds(what: string, seconds: number): number {
  if (typeof seconds === 'number' && seconds > 0 && seconds <= MOST_SECONDS) return seconds;
  throw new ArgumentError(
    `${what} is ${shown(seconds)}: it must be a number of seconds above 0, at most ${MOST_SECONDS} (24 days)`,
  );
}

/** Checks a list of parameters: a model itself, or nothing, is an error. */
export function checkList<P extends Iterable<unknown>>(what: string, params: P): P {
  const isModel = typeof (params as { parameters?: unknown } | null)?.parameters === 'function';
  if (!isModel && Symbol.iterator in Object(params)) return params;
  throw new ArgumentError(
    `${what}: the parameters are ${describe(params)}: pass model.parameters(), or a list of tensors`,
  );
}
