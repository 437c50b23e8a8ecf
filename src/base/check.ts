// What a whole number has to be, in one sentence for all.
import { ArgumentError } from './errors.js';
import { describe } from './tree.js';

/** A whole number in a range, or an error: "DataLoader: batchSize is 0: it must be a whole number, at least 1". */
export function checkWhole(what: string, n: number, least = 0): number {
  if (Number.isSafeInteger(n) && n >= least) return n;
  const given = typeof n === 'number' ? n : describe(n);
  throw new ArgumentError(`${what} is ${given}: it must be a whole number, at least ${least}`);
}
