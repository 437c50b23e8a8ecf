// Sugar above the strict primitives: numbers become constants, dtypes and shapes meet, as in torch.
import type { DType } from '../base/dtype.js';
import { DEFAULT_FLOAT, isFloat, kindOf, promote } from '../base/promote.js';
import { broadcastShapes, type Shape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { full } from './constant.js';
import { broadcastTo, convert } from './move.js';

/** What an op takes where torch takes a tensor or a number. */
export type Operand = Expr | number | bigint | boolean;
export const isExpr = (x: Operand): x is Expr => typeof x === 'object';

/**
 * torch's result type: among operands of the highest kind (bool, integer, float), tensors with dimensions decide; if they
 * are of a lower kind, scalars do; then JavaScript's numbers, which only ever bring the default type of their kind.
 */
export function resultType(...xs: readonly Operand[]): DType {
  const of = (list: DType[]) => (list.length ? list.reduce(promote) : undefined);
  const arrays = of(
    xs
      .filter(isExpr)
      .filter((x) => x.shape.length > 0)
      .map((x) => x.dtype),
  );
  const scalars = of(
    xs
      .filter(isExpr)
      .filter((x) => x.shape.length === 0)
      .map((x) => x.dtype),
  );
  const weak = of(xs.filter((x): x is Exclude<Operand, Expr> => !isExpr(x)).map(weakType));
  return [scalars, weak].reduce<DType | undefined>((best, d) => {
    if (!best || (d && kindOf(d) > kindOf(best))) return d ?? best;
    return best;
  }, arrays)!;
}

const weakType = (x: number | bigint | boolean): DType =>
  typeof x === 'boolean' ? 'bool' : typeof x === 'bigint' || Number.isInteger(x) ? 'i64' : DEFAULT_FLOAT;

export const shapeOf = (x: Operand): Shape => (isExpr(x) ? x.shape : []);

/** All operands in one dtype and shape. */
export function align(
  op: string,
  xs: readonly Operand[],
  dtype: DType = resultType(...xs),
  shape: Shape = broadcastShapes(op, ...xs.map(shapeOf)),
): Expr[] {
  return xs.map((x) => (isExpr(x) ? broadcastTo(convert(x, dtype), shape) : full(shape, x, dtype)));
}

/** An operand in floating point: integers become the default float. */
export const floating = (x: Expr): Expr => (isFloat(x.dtype) ? x : convert(x, DEFAULT_FLOAT));
export const floatingType = (d: DType): DType => (isFloat(d) ? d : DEFAULT_FLOAT);
