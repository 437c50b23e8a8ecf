// What whole numbers and durations have to be, in one sentence for all.
import { ArgumentError } from './errors.js';
import { shown } from './tree.js';

/** A whole number in a range, or an error: "DataLoader: batchSize is 0: it must be a whole number, at least 1". */
export function checkWhole(what: string, n: number, least = 0, most = Number.MAX_SAFE_INTEGER): number {
  if (Number.isSafeInteger(n) && n >= least && n <= most) return n;
  const range = most < Number.MAX_SAFE_INTEGER ? `, ${least} to ${most}` : `, at least ${least}`;
  throw new ArgumentError(`${what} is ${shown(n)}: it must be a whole number${range}`);
}

/** The most that a timer takes, in seconds: 24.8 days. For more, setTimeout fires at once. */
export const MOST_SECONDS = Math.floor((2 ** 31 - 1) / 1000);

/** Seconds that a timer can wait for, or an error: "--timeout is 1e+20: it must be a number of seconds above 0, ...". */
export function checkSeconds(what: string, seconds: number): number {
  if (typeof seconds === 'number' && seconds > 0 && seconds <= MOST_SECONDS) return seconds;
  throw new ArgumentError(
    `${what} is ${shown(seconds)}: it must be a number of seconds above 0, at most ${MOST_SECONDS} (24 days)`,
  );
}
