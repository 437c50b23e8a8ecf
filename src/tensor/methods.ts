// Adds argument checks to the methods of Tensor that are not operations. Imported last, after all methods are installed.
import { ArgumentError } from '../base/errors.js';
import { entry } from '../ir/source.js';
import { checkOf } from './arguments.js';
import { SIGNATURES } from './signatures.js';
import { Tensor } from './tensor.js';

const prototype = Tensor.prototype as unknown as Record<string, (...args: unknown[]) => unknown>;
for (const key of Object.keys(SIGNATURES).filter((k) => k.startsWith('x.'))) {
  const name = key.slice(2);
  const [method, check] = [prototype[name]!, checkOf(key)];
  const value = entry(function (this: Tensor, ...args: unknown[]) {
    return method.apply(this, check(args));
  });
  Object.defineProperty(prototype, name, { value, writable: true, configurable: true });
}

// In torch `p.data = t` puts values into a parameter; here it would hide the method.
const read = prototype['data']!;
Object.defineProperty(prototype, 'data', {
  configurable: true,
  get: () => read,
  set(): never {
    throw new ArgumentError(
      'data is a method here, await x.data(). To put values in place: tx.noGrad(() => x.copy_(values))',
    );
  },
});
