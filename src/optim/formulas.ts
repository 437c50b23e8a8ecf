// Formulas shared by optimizers.
import type { Expr } from '../ir/expr.js';
import { add, expm1, mul, neg, sub } from '../ops/prim/pointwise.js';

/** From a towards b; for weights that are scalars of the program. */
export const towards = (a: Expr, b: Expr, weight: Expr): Expr => add(a, mul(weight, sub(b, a)));
/** The running mean of squares. */
export const meanSquare = (v: Expr, g: Expr, keep: Expr, rest: Expr): Expr => add(mul(v, keep), mul(mul(g, g), rest));
export const log = (beta: number): number => Math.log(beta); // -Infinity for 0, whose powers are then 0
/** 1 - beta^t, from log(beta): all digits, where beta is near 1. */
export const correction = (t: Expr, logBeta: Expr): Expr => neg(expm1(mul(t, logBeta)));
/** The factor of decoupled weight decay. */
export const left = (lr: number, weightDecay: number): number => 1 - lr * weightDecay;
