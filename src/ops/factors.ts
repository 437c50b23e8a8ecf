// What decompositions of matrices share: checks, empty matrices, products of reflections, singular values.
import { ShapeError } from '../base/errors.js';
import { range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { matmul } from './matmul.js';
import { broadcastTo, reduceSum } from './prim/broadcast.js';
import { full } from './prim/constant.js';
import { columns, columnsOf, eyeLike, qrParts, rows, rowsOf, svdReduced, transposed } from './prim/decompose.js';
import { checkDType } from './prim/define.js';
import { reshape } from './prim/move.js';
import { add, mul, sub } from './prim/pointwise.js';
import { concat } from './prim/slice.js';
import { detach } from './prim/variable.js';

export function checkMatrix(op: string, x: Expr): void {
  checkDType(op, [x.aval], (d) => d === 'f32' || d === 'f64', 'f32 or f64 (convert others first)');
  if (x.shape.length < 2) throw new ShapeError(`${op}: takes matrices [..., m, n], got ${x.aval}`);
}
/** Of an empty x there is nothing to decompose: results are empty too, or made of nothing. */
export const isEmpty = (x: Expr): boolean => x.aval.size === 0;
/** An array without elements, or full of one value, that x leads to: its gradient is 0. */
export const madeOf = (x: Expr, shape: readonly number[], value = 0): Expr =>
  add(full(shape, value, x.dtype), broadcastTo(reduceSum(x), shape));
/** Identity matrices. */
export const eyes = (x: Expr, lead: readonly number[], n: number): Expr => {
  const shape = [...lead, n, n];
  return add(eyeLike(full(shape, 0, x.dtype)), madeOf(x, shape));
};
export const leadOf = (x: Expr): readonly number[] => x.shape.slice(0, -2);

/** The product of reflections I - tau v v^T, whose vectors are below the diagonal of the columns of x, times y. */
export function reflected(x: Expr, tau: Expr, y: Expr, transpose = false): Expr {
  const [m, k, lead] = [rowsOf(x), tau.shape.at(-1)!, leadOf(x)];
  const order = transpose ? range(k) : range(k).reverse();
  return order.reduce((q, i) => {
    const below = rows(columns(x, i, i + 1), i + 1, m);
    const v = concat([full([...lead, i, 1], 0, x.dtype), full([...lead, 1, 1], 1, x.dtype), below], lead.length);
    const scale = reshape(columns(tau, i, i + 1), [...lead, 1, 1]);
    return sub(q, mul(scale, matmul(v, matmul(transposed(v), q))));
  }, y);
}

/**
 * x = U diag(S) Vh, singular values in descending order; signs of the vectors are not determined. By one-sided Jacobi:
 * precise to a few units in the last place of the largest. With `fullMatrices` U and Vh are square; the vectors that
 * adds have no gradient.
 */
export function singular(op: string, x: Expr, fullMatrices: boolean): { U: Expr; S: Expr; Vh: Expr } {
  checkMatrix(op, x);
  if (isEmpty(x)) {
    const [m, n, k] = [rowsOf(x), columnsOf(x), Math.min(rowsOf(x), columnsOf(x))];
    const part = (rows: number, columns: number) =>
      fullMatrices ? eyes(x, leadOf(x), Math.max(rows, columns)) : madeOf(x, [...leadOf(x), rows, columns]);
    return { U: part(m, k), S: madeOf(x, [...leadOf(x), k]), Vh: part(k, n) };
  }
  const [u, s, v] = svdReduced([x], null) as [Expr, Expr, Expr];
  const whole = (y: Expr): Expr => {
    const [m, k] = [rowsOf(y), columnsOf(y)];
    return !fullMatrices || m === k
      ? y
      : concat([y, detach(columns(qrParts(detach(y), true).q, k, m))], y.shape.length - 1);
  };
  return { U: whole(u), S: s, Vh: transposed(whole(v)) };
}
