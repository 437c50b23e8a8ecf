// Every operation as a function of tensors and as a method of Tensor.
import * as ops from '../ops/index.js';
import { type LiftFunction, liftFunction, liftMethod } from './lift.js';
import type { OrderOf } from './order.js';
import { Tensor } from './tensor.js';

const entries = Object.entries(ops) as [string, (...args: never[]) => unknown][];
for (const [name, f] of entries) {
  Object.defineProperty(Tensor.prototype, name, { value: liftMethod(name, f), writable: true, configurable: true });
}

export const functions = Object.fromEntries(entries.map(([name, f]) => [name, liftFunction(name, f)])) as unknown as {
  [K in keyof typeof ops]: LiftFunction<(typeof ops)[K], OrderOf<K>>;
};
