// Installs every operation of ops/ as a function of tensors and as a method of Tensor.

import type { Expr } from '../ir/expr.js';
import * as ops from '../ops/index.js';
import { isExpr, type Operand } from '../ops/prim/align.js';
import { events } from '../runtime/events.js';
import { type LiftFunction, liftFunction, liftMethod } from './lift.js';
import { byOffsets } from './offsets.js';
import type { OrderOf } from './order.js';
import type { PiecesOf } from './pieces.js';
import type { MaxPoolsOf } from './pooled.js';
import { inRange } from './ranges.js';
import { type FunctionOnly, Tensor } from './tensor.js';

/** The TypeScript compiler checks that this list is complete. */
const FUNCTIONS_ONLY = {
  broadcastTensors: true,
  cat: true,
  columnStack: true,
  concat: true,
  concatenate: true,
  dstack: true,
  einsum: true,
  hstack: true,
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
const entries = Object.entries({ ...ops, ...byOffsets, ...inRange }).map(
  ([name, f]) => [name, counted(name, f as Operation)] as const,
);
/** Operations whose methods take the arguments in another order. */
const METHODS: Record<string, Operation> = {
  where: (x: Expr, a: Operand, b: Operand) =>
    isExpr(a) && a.dtype === 'bool' ? ops.where(a, x, b) : ops.where(x, a, b),
};
for (const [name, f] of entries) {
  if (name in FUNCTIONS_ONLY) continue;
  const method = METHODS[name] ? counted(name, METHODS[name]) : f;
  Object.defineProperty(Tensor.prototype, name, {
    value: liftMethod(name, method),
    writable: true,
    configurable: true,
  });
}

type Typed = PiecesOf & MaxPoolsOf;
export const functions = Object.fromEntries(entries.map(([name, f]) => [name, liftFunction(name, f)])) as unknown as {
  [K in keyof typeof ops]: K extends keyof Typed ? Typed[K] : LiftFunction<(typeof ops)[K], OrderOf<K>>;
};
