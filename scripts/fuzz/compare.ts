// Comparing what was read.
import { inspect, isDeepStrictEqual } from 'node:util';

/** Whether two values are equal; undefined where they are nested too deep to tell. */
export function sameValue(a: unknown, b: unknown): boolean | undefined {
  try {
    return isDeepStrictEqual(a, b);
  } catch (e) {
    if (e instanceof RangeError) return undefined;
    throw e;
  }
}

/** A value in a line. */
export const shown = (x: unknown): string =>
  inspect(x, { depth: 2, maxStringLength: 60, maxArrayLength: 10, breakLength: Infinity }).slice(0, 120);
