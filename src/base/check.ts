// What a whole number has to be, in one sentence for all.
import { ArgumentError } from './errors.js';
import { shown } from './tree.js';

/** A whole number in a range, or an error: "DataLoader: batchSize is 0: it must be a whole number, at least 1". */
export function checkWhole(what: string, n: number, least = 0, most = Number.MAX_SAFE_INTEGER): number {
  if (Number.isSafeInteger(n) && n >= least && n <= most) return n;
  const range = most < Number.MAX_SAFE_INTEGER ? `, ${least} to ${most}` : `, at least ${least}`;
  throw new ArgumentError(`${what} is ${shown(n)}: it must be a whole number${range}`);
}
