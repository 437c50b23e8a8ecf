// Elements taken along one dimension by an index, and added back there: each is the other's gradient. What sorting,
// extremes with indices, and torch's gather and scatter family rest on.
import { DTypeError, ShapeError } from '../base/errors.js';
import { isInteger } from '../base/promote.js';
import { range, type Shape, sameShape } from '../base/shape.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { full } from './constant.js';
import { define, i64s } from './define.js';
import { pad, reshape, slice } from './move.js';
import { add } from './pointwise.js';

interface Along {
  readonly dim: number;
  /** No element is named twice, in any row: the device need not take care of collisions. */
  readonly unique: boolean;
}
const others = (rank: number, dim: number): number[] => range(rank).filter((d) => d !== dim);
const flag = (b: boolean): string => (b ? 'true' : 'false');

function checkAlong(op: string, x: Aval, index: Aval, dim: number): void {
  if (!isInteger(index.dtype)) throw new DTypeError(`${op}: the index must be integers, got ${index} for ${x}`);
  if (index.rank !== x.rank || others(x.rank, dim).some((d) => index.shape[d] !== x.shape[d]))
    throw new ShapeError(`${op}: ${x} and its index ${index} differ in more than dim ${dim}`);
}

// Every other dimension is a batch of both operands, so that an index is a single number and nothing is flattened: sharded
// dimensions stay sharded.
const gatherOp = define<[Expr, Expr], Along>({
  name: 'gatherAlong',
  infer: ([x, index], { dim }) => {
    checkAlong('gather', x, index, dim);
    return x.withShape(index.shape);
  },
  lower: (e, xs, { dim }, out) => {
    const batch = others(out.rank, dim).join(', ');
    return e.op('gather', xs, [out], {
      dimension_numbers: `#stablehlo.gather<collapsed_slice_dims = [${dim}], operand_batching_dims = [${batch}], start_indices_batching_dims = [${batch}], start_index_map = [${dim}], index_vector_dim = ${out.rank}>`,
      slice_sizes: i64s(out.shape.map(() => 1)),
      indices_are_sorted: 'false',
    })[0]!;
  },
  vjp: (g, [x, index], { dim, unique }) => [scatterOp([full(x.shape, 0, g.dtype), index, g], { dim, unique }), null],
});

const scatterOp: (xs: [Expr, Expr, Expr], along: Along) => Expr = define<[Expr, Expr, Expr], Along>({
  name: 'scatterAddAlong',
  infer: ([x, index, updates], { dim }) => {
    checkAlong('scatterAdd', x, index, dim);
    if (updates.dtype !== x.dtype || !sameShape(updates.shape, index.shape))
      throw new ShapeError(
        `scatterAdd: ${updates} cannot be added to ${x} at ${index}: it must be ${x.dtype}, of the index's shape`,
      );
    return x;
  },
  lower: (e, xs, { dim, unique }, out) => {
    const batch = others(out.rank, dim).join(', ');
    const scalar = out.withShape([]);
    return e.op(
      'scatter',
      xs,
      [out],
      {
        scatter_dimension_numbers: `#stablehlo.scatter<inserted_window_dims = [${dim}], input_batching_dims = [${batch}], scatter_indices_batching_dims = [${batch}], scatter_dims_to_operand_dims = [${dim}], index_vector_dim = ${out.rank}>`,
        indices_are_sorted: 'false',
        unique_indices: flag(unique),
      },
      [e.region([scalar, scalar], (ab) => e.op('add', ab, [scalar]))],
    )[0]!;
  },
  vjp: (g, [, index], along) => [g, null, gatherOp([g, index], along)],
});

/** The part of x that an index smaller than x in other dimensions speaks of. */
const limits = (x: Expr, index: Expr, dim: number): Shape => x.shape.map((n, d) => (d === dim ? n : index.shape[d]!));

/**
 * y[i, j, ..] = x[index[i, j, ..], j, ..] for dim 0, and so on. The index has x's rank; in other dimensions it is as large
 * as x or smaller. An index out of range means the nearest element.
 */
export function gatherAlong(x: Expr, index: Expr, dim: number, unique = false): Expr {
  if (index.aval.size === 0) return full(index.shape, 0, x.dtype);
  if (x.shape.length === 0) return reshape(gatherAlong(reshape(x, [1]), reshape(index, [1]), 0), []);
  const start = x.shape.map(() => 0);
  return gatherOp([slice(x, start, limits(x, index, dim)), index], { dim, unique });
}

/** x with x[index[i, j, ..], j, ..] += updates[i, j, ..] for dim 0, and so on. Out of range, nothing is added. */
export function scatterAddAlong(x: Expr, index: Expr, updates: Expr, dim: number, unique = false): Expr {
  if (index.aval.size === 0) return x;
  if (x.shape.length === 0)
    return reshape(scatterAddAlong(reshape(x, [1]), reshape(index, [1]), reshape(updates, [1]), 0), []);
  const part = limits(x, index, dim);
  if (sameShape(part, x.shape)) return scatterOp([x, index, updates], { dim, unique });
  const zeros = x.shape.map(() => 0);
  const added = scatterOp([full(part, 0, x.dtype), index, updates], { dim, unique });
  return add(
    x,
    pad(
      added,
      full([], 0, x.dtype),
      zeros,
      x.shape.map((n, d) => n - part[d]!),
      zeros,
    ),
  );
}
