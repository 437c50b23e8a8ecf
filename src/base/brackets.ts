// x[0] of what is not an array: JavaScript gives undefined, which fails somewhere else. Loops over x[i] begin with 0.
import { ArgumentError } from './errors.js';

const NUMBERS = ['0', '1', '2', '3', '-1'];

/** Makes x[0], x[1] and x[-1] of a class an error that says what to write: `write` gives it for an index. */
export function refuseBrackets(of: { readonly prototype: object }, write: (x: object, index: string) => string): void {
  for (const index of NUMBERS) {
    const refuse = function (this: object): never {
      throw new ArgumentError(write(this, index));
    };
    Object.defineProperty(of.prototype, index, { configurable: true, get: refuse, set: refuse });
  }
}
