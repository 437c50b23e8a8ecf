// Methods of Tensor that are no operations: their arguments are checked too. Imported last, when all are there.
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
