// Loops and branches inside a program. Carries, operands and results are tensors or nested arrays and objects of tensors.
// A body is called once, to see what it computes, and may use any tensor it can reach.

import * as branch from '../autograd/cond.js';
import * as loop from '../autograd/scan.js';
import { checkWhole } from '../base/check.js';
import { ArgumentError, DTypeError } from '../base/errors.js';
import { isInteger } from '../base/promote.js';
import { describe, type Flat } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { entry } from '../ir/source.js';
import { full, iota } from '../ops/prim/constant.js';
import { convert } from '../ops/prim/move.js';
import { add, lt } from '../ops/prim/pointwise.js';
import * as control from '../ops/prim/while.js';
import { Tensor } from './tensor.js';
import { callUser, checkSameTrees, exprsOf, lengthOf, raiseTree, tensorsOf } from './trees.js';

/** trueFn(...operands) if pred is true, otherwise falseFn(...operands). Only one of them is computed. */
export const cond = entry(
  <A extends unknown[], R>(
    pred: Tensor,
    trueFn: (...operands: A) => R,
    falseFn: (...operands: NoInfer<A>) => NoInfer<R>,
    ...operands: A
  ): R => {
    if (!(pred instanceof Tensor)) {
      throw new ArgumentError(`cond: pred is ${describe(pred)}: choose with an ordinary if, or pass a boolean tensor`);
    }
    checkCondition('cond: pred', pred);
    const given = tensorsOf('cond: the operands', operands);
    const outs: Flat<Tensor>[] = [];
    const run = (f: (...operands: A) => R, name: string) => (xs: readonly Expr[]) => {
      const out = tensorsOf(`cond: the result of ${name}`, callUser('cond', f, ...(raiseTree(given, xs) as A)));
      outs.push(out);
      if (outs.length === 2)
        checkSameTrees('cond', 'the result', [outs[1]!, 'from trueFn'], [outs[0]!, 'from falseFn']);
      return exprsOf(out);
    };
    const results = branch.cond(pred.expr, exprsOf(given), run(trueFn, 'trueFn'), run(falseFn, 'falseFn'));
    return raiseTree(outs[0]!, results) as R;
  },
);

function checkCondition(what: string, t: Tensor): void {
  if (t.dtype !== 'bool' || t.expr.aval.size !== 1 || t.shape.length) {
    throw new DTypeError(
      `${what} is ${t.expr.aval}: it must be a single boolean, bool[]: compare it, or reduce it with all() or any()`,
    );
  }
}

/** Applies bodyFn to the carry, starting from init, while condFn is true. No reverse-mode gradient: the length is unknown. */
export const whileLoop = entry(<C>(condFn: (carry: C) => Tensor, bodyFn: (carry: C) => NoInfer<C>, init: C): C => {
  const first = tensorsOf('whileLoop: init', init);
  const results = control.whileLoop(
    exprsOf(first),
    (carry) => {
      const go = callUser('whileLoop', condFn, raiseTree(first, carry) as C);
      if (!(go instanceof Tensor))
        throw new ArgumentError(`whileLoop: condFn returned ${describe(go)}: it must return a boolean tensor`);
      checkCondition('whileLoop: the result of condFn', go);
      return go.expr;
    },
    (carry) => nextCarry('whileLoop', first, callUser('whileLoop', bodyFn, raiseTree(first, carry) as C)),
  );
  return raiseTree(first, results) as C;
});

function nextCarry(op: string, first: Flat<Tensor>, carry: unknown): Expr[] {
  const next = tensorsOf(`${op}: the carry that the body returns`, carry);
  checkSameTrees(op, 'the carry', [first, 'on entry'], [next, 'after the body']);
  return exprsOf(next);
}

/**
 * Applies bodyFn(i, carry) for i (an i32) from lower up to but not including upper. With numbers as bounds it is a scan and
 * differentiable; with tensors it is a whileLoop.
 */
export const foriLoop = entry(
  <C>(
    lower: number | Tensor,
    upper: number | Tensor,
    bodyFn: (i: Tensor, carry: C) => NoInfer<C>,
    init: C,
    options: loop.ScanOptions = {},
  ): C => {
    const first = tensorsOf('foriLoop: init', init);
    const body = (i: Expr, carry: readonly Expr[]) =>
      nextCarry('foriLoop', first, callUser('foriLoop', bodyFn, new Tensor(i), raiseTree(first, carry) as C));
    const [from, to] = [lower, upper].map((bound, k) => checkBound(bound, k ? 'upper' : 'lower'));
    if (typeof from === 'number' && typeof to === 'number') {
      const length = Math.max(0, to - from);
      const counts = length ? [add(iota([length], 0, 'i32'), from)] : [full([0], 0, 'i32')];
      const { carry } = loop.scan(
        exprsOf(first),
        counts,
        length,
        (c, [i]) => ({ carry: body(i!, c), ys: [] }),
        checkOptions('foriLoop', options),
      );
      return raiseTree(first, carry) as C;
    }
    const [start, end] = [from!, to!].map((b) => (typeof b === 'number' ? full([], b, 'i32') : convert(b.expr, 'i32')));
    const [, ...carry] = control.whileLoop(
      [start!, ...exprsOf(first)],
      ([i]) => lt(i!, end!),
      ([i, ...c]) => [add(i!, full([], 1, 'i32')), ...body(i!, c)],
    );
    return raiseTree(first, carry) as C;
  },
);

function checkBound(bound: number | Tensor, name: string): number | Tensor {
  if (typeof bound === 'number' ? Number.isInteger(bound) : bound.shape.length === 0 && isInteger(bound.dtype))
    return bound;
  throw new ArgumentError(
    `foriLoop: ${name} is ${typeof bound === 'number' ? bound : bound.expr.aval}: it must be a whole number or an integer scalar`,
  );
}

function checkOptions(op: string, options: loop.ScanOptions): loop.ScanOptions {
  checkWhole(`${op}: unroll`, options.unroll ?? 1, 1);
  return options;
}

export interface ScanOptions extends loop.ScanOptions {
  /** The number of iterations, if there are no xs to give it. */
  readonly length?: number;
}

/**
 * Applies f(carry, x), which returns [next carry, y], to each element x of xs along the first dimension. Returns the last
 * carry and the stacked ys. The size of the program, and of its gradient's, does not grow with the number of iterations.
 */
export const scan = entry(
  <C, X, Y>(
    f: (carry: C, x: X) => readonly [NoInfer<C>, Y],
    init: C,
    xs: X,
    { length, ...options }: ScanOptions = {},
  ): [C, Y] => {
    const first = tensorsOf('scan: init', init);
    const stacked = tensorsOf('scan: xs', xs);
    const passes = lengthOf('scan', 'xs', stacked, length);
    let ys: Flat<Tensor> | undefined;
    const done = loop.scan(
      exprsOf(first),
      exprsOf(stacked),
      passes,
      (carry, x) => {
        const out = callUser('scan', f, raiseTree(first, carry) as C, raiseTree(stacked, x) as X);
        if (!Array.isArray(out) || out.length !== 2)
          throw new ArgumentError(`scan: f returned ${describe(out)}: it must return a pair, [next carry, y]`);
        ys = tensorsOf('scan: y', out[1]);
        return { carry: nextCarry('scan', first, out[0]), ys: exprsOf(ys) };
      },
      checkOptions('scan', options),
    );
    return [raiseTree(first, done.carry) as C, raiseTree(ys!, done.ys) as Y];
  },
);
