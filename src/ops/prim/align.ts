// Prepares operands for the strict primitives: numbers become constants, dtypes are promoted and shapes broadcast, as in torch.
import type { DType } from '../../base/dtype.js';
import { ArgumentError, DTypeError } from '../../base/errors.js';
import { fits, highest, lowest } from '../../base/literal.js';
import { DEFAULT_FLOAT, isInexact, kindOf, promote, wideType } from '../../base/promote.js';
import { broadcastShapes, type Shape } from '../../base/shape.js';
import type { Expr } from '../../ir/expr.js';
import { broadcastTo } from './broadcast.js';
import { full } from './constant.js';
import { convert } from './move.js';

/** An operand: an expression or a number. */
export type Operand = Expr | number | bigint | boolean;
export const isExpr = (x: Operand): x is Expr => typeof x === 'object';

/**
 * torch's result type. Tensors with dimensions determine it; scalars only if theirs is a higher kind (bool, integer, float);
 * last come JavaScript numbers, with the default type of their kind (a whole number is an integer).
 */
export function resultType(...xs: readonly Operand[]): DType {
  const [first] = xs;
  if (first !== undefined && isExpr(first) && xs.every((x) => isExpr(x) && x.aval === first.aval)) return first.dtype;
  const of = (list: readonly DType[]) => (list.length ? list.reduce(promote) : undefined);
  const tensors = xs.filter(isExpr);
  const arrays = of(tensors.filter((x) => x.shape.length > 0).map((x) => x.dtype));
  const scalars = of(tensors.filter((x) => x.shape.length === 0).map((x) => x.dtype));
  const weak = of(xs.flatMap((x) => (isExpr(x) ? [] : [weakType(x)])));
  return [scalars, weak].reduce((best, d) => {
    if (!best || !d) return best ?? d;
    return kindOf(d) > kindOf(best) ? promote(best, d) : best;
  }, arrays)!;
}

/** The same; an error names the op and its operands. */
export function resultTypeOf(op: string, xs: readonly Operand[]): DType {
  try {
    return resultType(...xs);
  } catch (e) {
    const operands = xs.map((x) => (isExpr(x) ? x.aval : x)).join(' and ');
    throw e instanceof DTypeError ? new DTypeError(`${op}: ${operands}: ${e.message}`) : e;
  }
}

const weakType = (x: number | bigint | boolean): DType =>
  typeof x === 'boolean' ? 'bool' : typeof x === 'bigint' || Number.isSafeInteger(x) ? 'i64' : DEFAULT_FLOAT;

export const shapeOf = (x: Operand): Shape => (isExpr(x) ? x.shape : []);

/** Numbers converted to the dtype of a tensor must fit it: an overflow is an error, as in torch. */
export function checkFits(op: string, xs: readonly Operand[], dtype: DType): void {
  const bad = xs.find((x) => !isExpr(x) && !fits(x, dtype));
  if (bad === undefined) return;
  const tensors = xs.filter(isExpr).map((x) => x.aval);
  throw new ArgumentError(
    `${op}: ${bad} does not fit ${tensors.join(' and ')}: ${dtype} holds ${lowest(dtype)} to ${highest(dtype)}: convert to i64 first`,
  );
}

/** All operands in one dtype and shape. */
export function align(
  op: string,
  xs: readonly Operand[],
  dtype: DType = resultTypeOf(op, xs),
  shape: Shape = broadcastShapes(op, ...xs.map(shapeOf)),
): Expr[] {
  return xs.map((x) => (isExpr(x) ? broadcastTo(convert(x, dtype), shape) : full(shape, x, dtype)));
}

/** The same in floating point: integers become the default float. */
export const alignFloats = (op: string, xs: readonly Operand[]): Expr[] =>
  align(op, xs, floatingType(resultTypeOf(op, xs)));

/** An operand in floating point: integers become the default float. */
export const floating = (x: Expr): Expr => (isInexact(x.dtype) ? x : convert(x, DEFAULT_FLOAT));
/** Several steps in f32 for floats of fewer bits, as torch does: rounded once, at the end. */
export const inWide = (x: Expr, f: (x: Expr) => Expr): Expr => convert(f(convert(x, wideType(x.dtype))), x.dtype);
export const floatingType = (d: DType): DType => (isInexact(d) ? d : DEFAULT_FLOAT);
