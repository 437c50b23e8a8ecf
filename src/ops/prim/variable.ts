// Where a graph begins: values that are given, variables that want a gradient, and places no gradient passes.
import type { Aval } from '../../ir/aval.js';
import { Expr } from '../../ir/expr.js';
import { define, OPS } from './define.js';

const passOn = (name: string) => {
  const op = { name, lower: (_: unknown, xs: readonly string[]) => xs };
  OPS.set(name, op);
  return op;
};

/** A value that is given when the program runs. */
const INPUT = passOn('input');
export const input = (aval: Aval, wantsGradient = false): Expr =>
  new Expr(INPUT, [], null, aval, undefined, wantsGradient);
export const isInput = (e: Expr): boolean => e.op === INPUT;

/** A computed value that is where gradients end: a parameter after its update. */
const VARIABLE = passOn('variable');
export const variable = (x: Expr): Expr => new Expr(VARIABLE, [x], null, x.aval, undefined, true);
/** Where a gradient ends: a variable, or an input that wants one. */
export const isVariable = (e: Expr): boolean => e.op === VARIABLE || (e.op === INPUT && e.differentiable);

const detachOp = define<[Expr]>({ name: 'detach', infer: ([x]) => x, lower: (_, [x]) => x });
/** The same value, with nothing behind it for a gradient. */
export const detach = (x: Expr): Expr => (x.differentiable ? detachOp([x], null) : x);
