// Whether what is computed now can be differentiated later.
import { ArgumentError } from '../base/errors.js';

let enabled = true;
export const gradEnabled = (): boolean => enabled;

export function withGrad<T>(on: boolean, op: string, fn: () => T): T {
  const was = enabled;
  enabled = on;
  try {
    const result = fn();
    if (result instanceof Promise) {
      result.catch(() => {}); // what went wrong in it is said here
      throw new ArgumentError(`${op}: the function is async: describe inside ${op}, and await the results after it`);
    }
    return result;
  } finally {
    enabled = was;
  }
}
