// The leaves of graphs: inputs, variables (which require a gradient), and detach.
import type { Aval } from '../../ir/aval.js';
import { Expr } from '../../ir/expr.js';
import type { Op } from '../../ir/op.js';
import { define, OPS, same } from './define.js';

const passOn = (name: string) => {
  const op: Op = { name, lower: (_, xs) => xs, batch: (_, xs) => xs };
  OPS.set(name, op);
  return op;
};

/** An input of the program. */
const INPUT = passOn('input');
export const input = (aval: Aval, wantsGradient = false): Expr =>
  new Expr(INPUT, [], null, aval, undefined, wantsGradient);
export const isInput = (e: Expr): boolean => e.op === INPUT;

/** A computed value as a new leaf for gradients: a parameter after its update. */
const VARIABLE = passOn('variable');
export const variable = (x: Expr): Expr => new Expr(VARIABLE, [x], null, x.aval, undefined, true);
/** Whether gradients end here: a variable, or an input that requires a gradient. */
export const isVariable = (e: Expr): boolean => e.op === VARIABLE || (e.op === INPUT && e.differentiable);

const detachOp = define<[Expr]>({ name: 'detach', infer: ([x]) => x, lower: (_, [x]) => x, batch: same });
/** The same value without gradients. */
export const detach = (x: Expr): Expr => (x.differentiable ? detachOp([x], null) : x);
