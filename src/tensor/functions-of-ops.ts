// Every operation as a function of tensors and as a method of Tensor.
import * as ops from '../ops/index.js';
import { type LiftFunction, liftFunction, liftMethod } from './lift.js';
import { Tensor } from './tensor.js';

/** Where there is nothing to do, these give the very tensor they were given, as in torch. */
const ITSELF: readonly string[] = [
  'to',
  'typeAs',
  'float',
  'double',
  'half',
  'bfloat16',
  'contiguous',
  'positive',
  'flatten',
  'atleast1d',
  'atleast2d',
  'atleast3d',
  'broadcastTensors',
] satisfies (keyof typeof ops)[];

const entries = Object.entries(ops) as [string, (...args: never[]) => unknown][];
for (const [name, f] of entries) {
  Object.defineProperty(Tensor.prototype, name, {
    value: liftMethod(f, ITSELF.includes(name)),
    writable: true,
    configurable: true,
  });
}

export const functions = Object.fromEntries(
  entries.map(([name, f]) => [name, liftFunction(f, ITSELF.includes(name))]),
) as {
  [K in keyof typeof ops]: LiftFunction<(typeof ops)[K]>;
};
