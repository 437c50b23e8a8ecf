// Parses the range of steps to profile.
import { ArgumentError } from '../base/errors.js';

/** The first step, and the one after the last: '10:15' means the five steps 10 to 14. */
export function parseSteps(text: string, what = 'steps'): readonly [from: number, to: number] {
  const [from, to] = (/^(\d+):(\d+)$/.exec(text) ?? []).slice(1).map(Number);
  if (from === undefined || to === undefined || !(from < to))
    throw new ArgumentError(`${what} is ${text}: write the first step and the one after the last, as in 10:15`);
  return [from, to];
}
