// Checks that functions of modes (noGrad, autocast) only describe: a mode is on while its function runs, not while a promise
// is pending.
import { ArgumentError } from './errors.js';

/** Promises whose computation was fully described when they were made: those of compiled functions and steps. */
const described = new WeakSet<Promise<unknown>>();
export function markDescribed<P extends Promise<unknown>>(promise: P): P {
  described.add(promise);
  return promise;
}

/** Checks the result of a mode's function: an async function is an error, since most of it would run after the mode ends. */
export function checkDescribed<T>(op: string, result: T): T {
  if (!(result instanceof Promise) || described.has(result)) return result;
  result.catch(() => {}); // the error below replaces its own
  throw new ArgumentError(`${op}: the function is async: only describe inside ${op}, and await the results after it`);
}
