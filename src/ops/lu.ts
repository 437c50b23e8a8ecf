// LU decompositions with row pivots, by a loop over the columns: StableHLO has none. Gradients are those of the loop.
import { scan } from '../autograd/scan.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { broadcastShapes, range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { broadcastInDim, broadcastTo, reduceSum } from './prim/broadcast.js';
import { full, iota } from './prim/constant.js';
import {
  columns,
  columnsOf,
  eyeLike,
  lowerPart,
  rows,
  rowsOf,
  transposed,
  triangularSolve,
  upperPart,
} from './prim/decompose.js';
import { checkDType, typesOf } from './prim/define.js';
import { gatherAlong } from './prim/gather.js';
import { convert, permute, reshape } from './prim/move.js';
import {
  abs,
  add,
  div,
  eq,
  ge,
  gt,
  isfinite,
  logicalAnd,
  logicalNot,
  logicalOr,
  mul,
  ne,
  sub,
  where,
} from './prim/pointwise.js';
import { reduceExtreme, reduceOr } from './prim/reduce.js';
import { detach } from './prim/variable.js';

export interface Packed {
  /** L below the diagonal, whose own is 1, and U. */
  readonly LU: Expr;
  /** The row that each row was swapped with, one after the other, counted from 1; i32. */
  readonly pivots: Expr;
}
/** x = P L U, packed; and the places of the rows of x in P^T x, i64. */
export function factored(op: string, x: Expr, pivot = true): Packed & { readonly order: Expr } {
  if (!pivot) throw new ArgumentError(`${op}: pivot: false is not supported, as in torch on CPUs`);
  checkDType(op, [x.aval], (d) => isFloat(d) && (d === 'f32' || d === 'f64'), 'f32 or f64 (convert others first)');
  if (x.shape.length < 2) throw new ShapeError(`${op}: takes matrices [..., m, n], got ${x.aval}`);
  const lead = x.shape.slice(0, -2);
  const [m, n] = [rowsOf(x), columnsOf(x)];
  const k = Math.min(m, n);
  const first = iota([...lead, m], lead.length, 'i64');
  if (!x.aval.size) return { LU: x, pivots: full([...lead, k], 0, 'i32'), order: first };
  const r = lead.length; // the dimension of rows
  const rowAt = iota(x.shape, r, 'i64');
  const columnAt = iota(x.shape, r + 1, 'i64');
  const { carry, ys } = scan([x, first], [iota([k], 0, 'i64')], k, ([a, order], [step]) => {
    const t = step!;
    const at = (dims: Expr) => eq(dims, broadcastTo(t, dims.shape));
    const below = gt(rowAt, broadcastTo(t, x.shape));
    const column = (y: Expr) => reduceSum(where(at(columnAt), y, 0), [r + 1]);
    const candidates = where(ge(first, broadcastTo(t, first.shape)), abs(column(detach(a!))), -1);
    const best = reshape(reduceExtreme(candidates, r, true).indices, [...lead, 1]);
    const swapped = where(
      at(first),
      broadcastTo(best, first.shape),
      where(eq(first, best), broadcastTo(t, first.shape), first),
    );
    const b = gatherAlong(a!, broadcastInDim(swapped, x.shape, range(r + 1)), r, 'unique');
    const line = reduceSum(where(at(rowAt), b, 0), [r]);
    const pivot = reduceSum(where(at(iota(line.shape, r, 'i64')), line, 0), [r]);
    const wide = (y: Expr, dims: readonly number[]) => broadcastInDim(y, x.shape, dims);
    const divisor = wide(where(eq(pivot, 0), 1, pivot), range(r));
    const factor = where(logicalAnd(below, ne(divisor, 0)), div(wide(column(b), range(r + 1)), divisor), 0);
    const right = gt(columnAt, broadcastTo(t, x.shape));
    const reduced = sub(b, where(right, mul(factor, wide(line, [...range(r), r + 1])), 0));
    const next = where(logicalAnd(below, at(columnAt)), factor, reduced);
    return {
      carry: [next, gatherAlong(order!, swapped, r, 'unique')],
      ys: [convert(add(reshape(best, lead), 1), 'i32')],
    };
  });
  const pivots = permute(ys[0]!, [...range(r).map((d) => d + 1), 0]);
  return { LU: carry[0]!, pivots, order: carry[1]! };
}
/** Where rows end up that are swapped one after the other. */
export function orderOf(pivots: Expr, m: number): Expr {
  if (!pivots.shape.length) throw new ShapeError(`lu: pivots are [..., k], got ${pivots.aval}`);
  const lead = pivots.shape.slice(0, -1);
  const [r, k] = [lead.length, pivots.shape.at(-1)!];
  const first = iota([...lead, m], r, 'i64');
  if (!k || !first.aval.size) return first;
  const steps = permute(sub(convert(pivots, 'i64'), 1), [r, ...range(r)]);
  const { carry } = scan([first], [steps, iota([k], 0, 'i64')], k, ([order], [swap, t]) => {
    const [to, from] = [broadcastInDim(swap!, first.shape, range(r)), broadcastTo(t!, first.shape)];
    const swapped = where(eq(first, from), to, where(eq(first, to), from, first));
    return { carry: [gatherAlong(order!, swapped, r, 'unique')], ys: [] };
  });
  return carry[0]!;
}
export const lowerOf = (LU: Expr): Expr => {
  const k = Math.min(rowsOf(LU), columnsOf(LU));
  const square = columns(LU, 0, k);
  return add(lowerPart(square, true), eyes(square));
};
const eyes = (x: Expr): Expr => eyeLike(detach(x));
export const upperOf = (LU: Expr): Expr => upperPart(rows(LU, 0, Math.min(rowsOf(LU), columnsOf(LU))));
/** The matrix of an order of rows. */
export const permutation = (order: Expr, like: Expr): Expr => {
  const m = order.shape.at(-1)!;
  const shape = [...order.shape.slice(0, -1), m, m];
  const r = order.shape.length - 1;
  return convert(eq(broadcastInDim(order, shape, [...range(r), r + 1]), iota(shape, r, 'i64')), like.dtype);
};
/** Whether a pivot is 0: its place, counted from 1, else 0; i32. */
export const infoOf = ({ LU }: Packed): Expr => {
  const k = Math.min(rowsOf(LU), columnsOf(LU));
  const lead = LU.shape.slice(0, -2);
  if (!k) return full(lead, 0, 'i32');
  const square = detach(columns(rows(LU, 0, k), 0, k));
  const diagonal = reduceSum(where(gt(eyes(square), 0), square, 0), [lead.length + 1]);
  const bad = logicalOr(eq(diagonal, 0), logicalNot(isfinite(diagonal)));
  const place = reduceExtreme(convert(bad, 'i32'), lead.length, true).indices;
  return convert(where(reduceOr(bad, [lead.length]), add(reshape(place, lead), 1), 0), 'i32');
};

/** The x with A x = b, given A packed; with `adjoint` A^T x = b. */
export function solvePacked(op: string, LU: Expr, pivots: Expr, b: Expr, adjoint: boolean): Expr {
  const m = rowsOf(LU);
  if (LU.shape.length < 2 || b.shape.length < 2 || columnsOf(LU) !== m || rowsOf(b) !== m)
    throw new ShapeError(`${op}: takes [..., n, n] and [..., n, k], got ${typesOf([LU, b])}`);
  const lead = broadcastShapes(op, LU.shape.slice(0, -2), b.shape.slice(0, -2));
  const [a, B] = [broadcastTo(LU, [...lead, m, m]), broadcastTo(b, [...lead, m, columnsOf(b)])];
  if (!B.aval.size) return B;
  const order = broadcastTo(orderOf(pivots, m), [...lead, m]);
  const P = permutation(order, a);
  const taken = (y: Expr, byColumns: boolean): Expr => {
    const places = byColumns ? order : inverse(P);
    return gatherAlong(y, broadcastInDim(places, y.shape, range(lead.length + 1)), lead.length, 'unique');
  };
  if (!adjoint) {
    const y = triangularSolve(a, taken(B, true), { lower: true, unit: true });
    return triangularSolve(a, y, { lower: false });
  }
  const y = triangularSolve(a, B, { lower: false, transpose: true });
  return taken(triangularSolve(a, y, { lower: true, unit: true, transpose: true }), false);
}
/** The order that undoes one. */
const inverse = (P: Expr): Expr => {
  const r = P.shape.length - 1;
  return reduceSum(convert(mul(P, iota(P.shape, r, P.dtype)), 'i64'), [r]);
};
export const turnedSolve = (op: string, LU: Expr, pivots: Expr, b: Expr, left: boolean, adjoint: boolean): Expr =>
  left ? solvePacked(op, LU, pivots, b, adjoint) : transposed(solvePacked(op, LU, pivots, transposed(b), !adjoint));
