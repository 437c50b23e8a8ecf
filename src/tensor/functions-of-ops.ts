// Every operation as a function of tensors and as a method of Tensor.

import * as ops from '../ops/index.js';
import { events } from '../runtime/events.js';
import { type LiftFunction, liftFunction, liftMethod } from './lift.js';
import type { OrderOf } from './order.js';
import { type FunctionOnly, Tensor } from './tensor.js';

/** The compiler knows from their types which these are, and checks that none is missing. */
const FUNCTIONS_ONLY = {
  broadcastTensors: true,
  cat: true,
  concat: true,
  concatenate: true,
  dstack: true,
  einsum: true,
  hstack: true,
  meshgrid: true,
  multiDot: true,
  rowStack: true,
  stack: true,
  vstack: true,
} satisfies Record<FunctionOnly, true>;

type Operation = (...args: never[]) => unknown;
const counted =
  (name: string, f: Operation): Operation =>
  (...args) => {
    events.op(name);
    return f(...args);
  };
const entries = Object.entries(ops).map(([name, f]) => [name, counted(name, f as Operation)] as const);
for (const [name, f] of entries) {
  if (name in FUNCTIONS_ONLY) continue;
  Object.defineProperty(Tensor.prototype, name, { value: liftMethod(name, f), writable: true, configurable: true });
}

export const functions = Object.fromEntries(entries.map(([name, f]) => [name, liftFunction(name, f)])) as unknown as {
  [K in keyof typeof ops]: LiftFunction<(typeof ops)[K], OrderOf<K>>;
};
