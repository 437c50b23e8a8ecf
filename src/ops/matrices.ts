// torch's older functions of matrices, outside of torch.linalg. Those of torch.linalg are in linalg-space.ts.
import { ShapeError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import { matrixExp as exponential, householderProduct } from './linalg-space.js';
import { factored, infoOf, lowerOf, orderOf, permutation, solvePacked, upperOf } from './lu.js';
import { full } from './prim/constant.js';
import { rowsOf } from './prim/decompose.js';

/** x = P L U: L and U packed in one matrix, the pivots of P, and with `getInfos` the place of a pivot that is 0. */
export function lu(
  x: Expr,
  { pivot = true, getInfos = false }: { readonly pivot?: boolean; readonly getInfos?: boolean } = {},
): Expr[] {
  const packed = factored('lu', x, pivot);
  return [packed.LU, packed.pivots, ...(getInfos ? [infoOf(packed)] : [])];
}
/** The x with A x = b, given A packed by lu. */
export const luSolve = (b: Expr, LU: Expr, pivots: Expr): Expr => solvePacked('luSolve', LU, pivots, b, false);
/** P, L and U of what lu packs. */
export function luUnpack(
  LU: Expr,
  pivots: Expr,
  { unpackData = true, unpackPivots = true }: { readonly unpackData?: boolean; readonly unpackPivots?: boolean } = {},
): { readonly P: Expr; readonly L: Expr; readonly U: Expr } {
  if (LU.shape.length < 2) throw new ShapeError(`luUnpack: takes matrices [..., m, n], got ${LU.aval}`);
  const none = full([0], 0, LU.dtype);
  return {
    P: unpackPivots ? permutation(orderOf(pivots, rowsOf(LU)), LU) : none,
    L: unpackData ? lowerOf(LU) : none,
    U: unpackData ? upperOf(LU) : none,
  };
}

/** The matrix exponential: linalg.matrixExp. */
export const matrixExp = (x: Expr): Expr => exponential(x);
/** The first columns of a product of reflections: linalg.householderProduct. */
export const orgqr = (x: Expr, tau: Expr): Expr => householderProduct(x, tau);
