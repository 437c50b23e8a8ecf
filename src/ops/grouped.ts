// A product for each group of rows, as torch's grouped_mm.
import { ShapeError } from '../base/errors.js';
import { isFloat, isInteger } from '../base/promote.js';
import type { Expr } from '../ir/expr.js';
import { checkDType, typesOf } from './prim/define.js';
import { groupedDot, groupedOuter } from './prim/grouped.js';
import { convert, permute } from './prim/move.js';
import { sub } from './prim/pointwise.js';
import { padDim, sliceDim } from './prim/slice.js';

/**
 * Rows a [m, k] in groups, each group times its own matrix b [groups, k, n]: [m, n]. Or, of a [m, k] and b [k, n], a product for
 * each group of the k: [groups, m, n]. `offs`: the ends of the groups, integers [groups]. Rows after the last group get zeros.
 */
export function groupedMm(a: Expr, b: Expr, offs: Expr): Expr {
  checkDType('groupedMm', [a.aval, b.aval], isFloat, 'floats');
  checkDType('groupedMm', [offs.aval], isInteger, 'integer ends of groups');
  const [ranks, isOuter] = [[a, b, offs].map((x) => x.shape.length), b.shape.length === 2];
  const fits = isOuter ? a.shape[1] === b.shape[0] : a.shape[1] === b.shape[1] && b.shape[0] === offs.shape[0];
  if (a.dtype !== b.dtype || !['2,3,1', '2,2,1'].includes(String(ranks)) || !fits)
    throw new ShapeError(
      `groupedMm: takes [m, k], [groups, k, n] and ends [groups], or [m, k], [k, n] and ends, got ${typesOf([a, b, offs])}`,
    );
  const ends = convert(offs, 'i32');
  const sizes = sub(ends, padDim(sliceDim(ends, 0, 0, ends.shape[0]! - 1), 0, 1, 0));
  return isOuter ? groupedOuter(permute(a, [1, 0]), b, sizes) : groupedDot(a, b, sizes, { contract: 1 });
}
