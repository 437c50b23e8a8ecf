// Functions that only describe: a mode (noGrad, autocast) holds while its function runs, and not while a promise waits.
import { ArgumentError } from './errors.js';

/** Promises whose computation was described in full when they were made: those of compiled functions and steps. */
const described = new WeakSet<Promise<unknown>>();
export function markDescribed<P extends Promise<unknown>>(promise: P): P {
  described.add(promise);
  return promise;
}

/** What a mode's function gives: of an async function, most of which would run when the mode is over, an error. */
export function checkDescribed<T>(op: string, result: T): T {
  if (!(result instanceof Promise) || described.has(result)) return result;
  result.catch(() => {}); // what went wrong in it is said here
  throw new ArgumentError(`${op}: the function is async: describe inside ${op}, and await the results after it`);
}
