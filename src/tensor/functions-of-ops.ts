// Every operation as a function of tensors and as a method of Tensor.
import * as ops from '../ops/index.js';
import { count } from '../runtime/metrics.js';
import { type LiftFunction, liftFunction, liftMethod } from './lift.js';
import { Tensor } from './tensor.js';

type Operation = (...args: never[]) => unknown;
const counted = (name: string, f: Operation): Operation => {
  const counter = `xla::${name}` as const;
  return (...args) => {
    count(counter);
    return f(...args);
  };
};
const entries = Object.entries(ops).map(([name, f]) => [name, counted(name, f as Operation)] as const);
for (const [name, f] of entries) {
  Object.defineProperty(Tensor.prototype, name, { value: liftMethod(f), writable: true, configurable: true });
}

export const functions = Object.fromEntries(entries.map(([name, f]) => [name, liftFunction(f)])) as {
  [K in keyof typeof ops]: LiftFunction<(typeof ops)[K]>;
};
