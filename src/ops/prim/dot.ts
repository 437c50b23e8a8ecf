// Products of matrices: the strict primitive.
import { type DType, sizeOf } from '../../base/dtype.js';
import { DTypeError, ShapeError } from '../../base/errors.js';
import { isFloat, kindOf } from '../../base/promote.js';
import { range } from '../../base/shape.js';
import { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import type { Emitter, Ssa } from '../../ir/op.js';
import { conjugate } from './complex.js';
import { checkDType, define, i64s, next, showAll } from './define.js';
import { convert, permute } from './move.js';
import {
  defaultPrecision,
  isRoundable,
  type MatmulPrecision,
  precisionConfig,
  precisionSettings,
} from './precision.js';

type Dims = readonly number[];
interface Dot {
  /** Dimensions of a and b that run together, and those that are summed over. */
  readonly batch: readonly [Dims, Dims];
  readonly sum: readonly [Dims, Dims];
  /** Of products of f32. Absent: the device's default. */
  readonly precision?: MatmulPrecision | undefined;
  /** The dtype of the result, where it is wider than the operands': sums are not rounded to theirs. */
  readonly out?: DType;
}

type LoweredDot = Pick<Dot, 'batch' | 'sum' | 'precision'>;

const without = (rank: number, ...taken: readonly Dims[]): number[] =>
  range(rank).filter((d) => !taken.some((t) => t.includes(d)));

const list = (xs: Dims): string => `[${xs.join(', ')}]`;

/** Whether dimensions are adjacent, in this order. */
const isRun = (dims: Dims): boolean => dims.every((d, i) => d === dims[0]! + i);

/** An operand with the dimensions of each role merged into one, and the new positions. */
function merged(e: Emitter, x: Ssa, roles: readonly Dims[]): { readonly x: Ssa; readonly at: Dims[] } {
  const { shape, dtype } = e.typeOf(x);
  const runs = roles.filter((r) => r.length).sort((p, q) => p[0]! - q[0]!);
  const sizes = runs.map((r) => sizeOf(r.map((d) => shape[d]!)));
  return {
    x: e.op('reshape', [x], [Aval.of(dtype, sizes)])[0]!,
    at: roles.map((r) => (r.length ? [runs.indexOf(r)] : [])),
  };
}

/** As StableHLO has it. */
function lowerDot(e: Emitter, xs: readonly Ssa[], { batch, sum, precision }: LoweredDot, out: Aval): Ssa {
  const numbers = `lhs_batching_dimensions = ${list(batch[0])}, rhs_batching_dimensions = ${list(batch[1])}, lhs_contracting_dimensions = ${list(sum[0])}, rhs_contracting_dimensions = ${list(sum[1])}`;
  const attrs = {
    dot_dimension_numbers: `#stablehlo.dot<${numbers}>`,
    ...precisionConfig(e, xs[0]!, precision ?? defaultPrecision(e.platform)),
  };
  return e.op('dot_general', xs, [out], attrs)[0]!;
}

/** Above this many rows both forms of `lowerFewRows` took the same time. */
const FEW_ROWS = 128;
/** Smaller matrices take no time worth a barrier, which keeps XLA from fusing. */
const LEAST_ELEMENTS = 2 ** 15;

/**
 * Whether a product is one of few rows with a larger matrix that is stored [columns, summed], as a layer's weight is. For 2 to 7
 * rows XLA's CPU compiler takes ten times as long as for the product with its operands swapped, for 32 rows three times.
 */
function isOfFewRows(e: Emitter, [a, b]: readonly Ssa[], { batch, sum }: LoweredDot): boolean {
  if (e.platform !== 'cpu' || e.mesh || batch[0].length || sum[0].length !== 1) return false;
  const [left, right] = [e.typeOf(a!), e.typeOf(b!)];
  if (left.rank !== 2 || right.rank !== 2 || sum[0][0] !== 1 || sum[1][0] !== 1 || !isFloat(left.dtype)) return false;
  const [rows, columns] = [left.shape[0]!, right.shape[0]!];
  return rows > 1 && rows <= FEW_ROWS && rows < columns && right.size >= LEAST_ELEMENTS;
}

/** a b^T as (b a^T)^T. Without the barrier XLA would swap the operands back. */
function lowerFewRows(e: Emitter, [a, b]: readonly Ssa[], dims: LoweredDot, out: Aval): Ssa {
  const swapped = out.withShape([out.shape[1]!, out.shape[0]!]);
  const y = lowerDot(e, [b!, a!], { ...dims, sum: [dims.sum[1], dims.sum[0]] }, swapped);
  const [kept] = e.op('optimization_barrier', [y], [swapped]);
  return e.op('transpose', [kept!], [out], { permutation: i64s([1, 0]) })[0]!;
}

export function lowerRanked(e: Emitter, xs: readonly Ssa[], dims: LoweredDot, out: Aval): Ssa {
  const turned = isOfRows(dims) && e.typeOf(xs[0]!).rank === 2 && e.turned?.get(xs[1]!);
  if (turned) return lowerDot(e, [xs[0]!, turned], { ...dims, sum: [[1], [0]] }, out);
  return (isOfFewRows(e, xs, dims) ? lowerFewRows : lowerDot)(e, xs, dims, out);
}
const isOfRows = ({ batch, sum }: LoweredDot): boolean =>
  !batch[0].length && sum[0].length === 1 && sum[0][0] === 1 && sum[1][0] === 1;

/**
 * The second operand of a node, if that is a product of rows with a matrix stored [columns, summed], as a layer's weight is.
 * XLA's CPU compiler computes it twice as fast if the matrix is stored [summed, columns].
 */
export function matrixOfRows({ op, attrs, inputs }: Expr): Expr | undefined {
  if (op.name !== 'dotGeneral' || !isOfRows(attrs as Dot)) return undefined;
  const [x, matrix] = inputs as [Expr, Expr];
  const isProduct = x.shape.length === 2 && x.shape[0]! > 1 && matrix.shape.length === 2 && isFloat(matrix.dtype);
  return isProduct ? matrix : undefined;
}

/** The dimensions of the result are: batch, the rest of a, the rest of b. */
export function dotGeneral(xs: [Expr, Expr], attrs: Dot): Expr {
  const { matmul } = precisionSettings();
  return dotOp(xs, matmul && isRoundable(xs[0].dtype) && !attrs.precision ? { ...attrs, precision: matmul } : attrs);
}
const dotOp: (xs: [Expr, Expr], attrs: Dot) => Expr = define<[Expr, Expr], Dot>({
  name: 'dotGeneral',
  infer: ([a, b], { batch, sum, out = a.dtype }) => {
    checkDType('dotGeneral', [a, b], (d) => kindOf(d) > 0, 'numbers');
    if (a.dtype !== b.dtype) throw new DTypeError(`dotGeneral: dtypes of ${showAll([a, b])} differ`);
    for (const [as, bs] of [batch, sum]) {
      if (as.length !== bs.length || as.some((d, i) => a.shape[d] !== b.shape[bs[i]!])) {
        throw new ShapeError(`dotGeneral: sizes of dims ${list(as)} and ${list(bs)} of ${showAll([a, b])} differ`);
      }
    }
    const [freeA, freeB] = [without(a.rank, batch[0], sum[0]), without(b.rank, batch[1], sum[1])];
    return Aval.of(out, [...[...batch[0], ...freeA].map((d) => a.shape[d]!), ...freeB.map((d) => b.shape[d]!)]);
  },
  // One dimension for each role: XLA's CPU compiler is 1.5 times as fast on such. Dimensions that are split over devices are not merged.
  lower: (e, xs, { batch, sum, precision }, out) => {
    const rolesOf = (i: 0 | 1) => [batch[i], sum[i], without(e.typeOf(xs[i]).rank, batch[i], sum[i])];
    const roles = [rolesOf(0), rolesOf(1)] as const;
    const all = roles.flat();
    if (e.mesh || all.every((r) => r.length < 2) || !all.every(isRun))
      return lowerRanked(e, xs, { batch, sum, precision }, out);
    const [a, b] = [merged(e, xs[0], roles[0]), merged(e, xs[1], roles[1])];
    const sizes = (m: typeof a, ...dims: readonly Dims[]) => dims.flat().map((d) => e.typeOf(m.x).shape[d]!);
    const shape = [...sizes(a, a.at[0]!, a.at[2]!), ...sizes(b, b.at[2]!)];
    const dims = { batch: [a.at[0]!, b.at[0]!], sum: [a.at[1]!, b.at[1]!], precision } as const;
    return e.op('reshape', [lowerRanked(e, [a.x, b.x], dims, out.withShape(shape))], [out])[0]!;
  },
  // Each operand's gradient is the result's, contracted with the other operand over what the other brought in.
  vjp: (gradient, operands, { batch, sum, out: _, ...options }) => {
    const { differentiable: wantsA } = operands[0];
    const { differentiable: wantsB } = operands[1];
    const [a, b] = operands.map(conjugate) as [Expr, Expr];
    const g = convert(gradient, a.dtype);
    const [freeA, freeB] = [without(a.shape.length, batch[0], sum[0]), without(b.shape.length, batch[1], sum[1])];
    const n = batch[0].length;
    const [gBatch, gA, gB] = [
      range(n),
      range(freeA.length).map((i) => i + n),
      range(freeB.length).map((i) => i + n + freeA.length),
    ];
    /** The partners of the other's summed dims, in the order the other has them. */
    const summed = (own: Dims, other: Dims) =>
      own
        .map((_, i) => i)
        .sort((i, j) => other[i]! - other[j]!)
        .map((i) => own[i]!);
    const back = (x: Expr, order: Dims) =>
      permute(
        x,
        range(order.length).map((d) => order.indexOf(d)),
      );
    return [
      wantsA
        ? back(dotGeneral([g, b], { batch: [gBatch, batch[1]], sum: [gB, freeB], ...options }), [
            ...batch[0],
            ...freeA,
            ...summed(sum[0], sum[1]),
          ])
        : null,
      wantsB
        ? back(dotGeneral([a, g], { batch: [batch[0], gBatch], sum: [freeA, gA], ...options }), [
            ...batch[1],
            ...summed(sum[1], sum[0]),
            ...freeB,
          ])
        : null,
    ];
  },
  // Examples of both run together. Those of one operand are rows, or columns, of one product.
  batch: ({ xs, stacked: [inA, inB], attrs: { batch, sum, ...options } }) => {
    const of = ([a, b]: readonly [Dims, Dims]): [Dims, Dims] => [inA ? next(a) : a, inB ? next(b) : b];
    const [together, summed] = [of(batch), of(sum)];
    if (inA && inB) {
      return dotGeneral(xs, {
        batch: [
          [0, ...together[0]],
          [0, ...together[1]],
        ],
        sum: summed,
        ...options,
      });
    }
    const y = dotGeneral(xs, { batch: together, sum: summed, ...options });
    const before = batch[0].length + (inA ? 0 : xs[0].shape.length - batch[0].length - sum[0].length);
    return permute(y, [before, ...range(y.shape.length).filter((d) => d !== before)]);
  },
});

/** Matrices [..., m, k] and [..., k, n] with equal leading dimensions, in full precision: for decompositions. */
export const mmPrecise = (a: Expr, b: Expr): Expr => {
  const lead = range(a.shape.length - 2);
  return dotGeneral([a, b], { batch: [lead, lead], sum: [[lead.length + 1], [lead.length]], precision: 'highest' });
};
