// Slices at positions known only at run time. Starts are scalars of one integer dtype, one for each dimension. As in
// XLA, they are clamped so that the slice is inside the array.
import { DTypeError, ShapeError } from '../../base/errors.js';
import { isInteger } from '../../base/promote.js';
import { range, type Shape, showShape } from '../../base/shape.js';
import type { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import type { Emitter, Ssa } from '../../ir/op.js';
import { full, zerosLike } from './constant.js';
import { define, i64s } from './define.js';
import { gather, type Parts, scatter } from './gather.js';
import { reshape } from './move.js';
import { maximum, minimum } from './pointwise.js';
import { concat } from './slice.js';

function checkStarts(op: string, x: Aval, sizes: Shape, starts: readonly Aval[]): void {
  if (sizes.length !== x.rank || sizes.some((n, d) => n > x.shape[d]!))
    throw new ShapeError(`${op}: a slice of shape ${showShape(sizes)} does not fit in ${x}`);
  if (starts.length !== x.rank)
    throw new ShapeError(`${op}: ${starts.length} starts for the ${x.rank} dimensions of ${x}`);
  const odd = starts.find((s) => s.rank > 0 || !isInteger(s.dtype) || s.dtype !== starts[0]!.dtype);
  if (odd) throw new DTypeError(`${op}: starts are integer scalars of one dtype, one is ${odd}`);
}

/** Starts that are others for each example, as a gather takes them: [n, rank], or [n] for one dimension. */
function startsOf(starts: readonly Expr[], several: readonly boolean[], stack: (x: Expr) => Expr): Expr {
  const all = starts.map((s, i) => (several[i] ? s : stack(s)));
  if (all.length === 1) return all[0]!;
  return concat(
    all.map((s) => reshape(s, [s.shape[0]!, 1])),
    1,
  );
}
/** Parts of all dimensions, one for each example, of one array or of an array each. */
const placed = (rank: number, each: boolean): Parts => ({
  offset: range(rank).map((d) => d + 1),
  collapsed: [],
  batch: each ? [0] : [],
  startBatch: each ? [0] : [],
  map: range(rank).map((d) => (each ? d + 1 : d)),
});

const sliceOp = define<readonly [Expr, ...Expr[]], { sizes: Shape }>({
  name: 'dynamicSlice',
  infer: ([x, ...starts], { sizes }) => {
    checkStarts('dynamicSlice', x as Aval, sizes, starts as Aval[]);
    return (x as Aval).withShape(sizes);
  },
  lower: (e, xs, { sizes }, out) => e.op('dynamic_slice', xs, [out], { slice_sizes: i64s(sizes) })[0]!,
  vjp: (g, [x, ...starts]) => [dynamicUpdateSlice(zerosLike(x), g, starts), ...starts.map(() => null)],
  batch: ({ xs: [x, ...starts], stacked: [inX, ...several], attrs: { sizes }, stack, n }) => {
    if (!several.some(Boolean)) return dynamicSlice(x, [zerosLike(starts[0]!), ...starts], [n, ...sizes]);
    const places = startsOf(starts, several as boolean[], stack);
    return gather(x, places, { ...placed(sizes.length, inX), sizes: inX ? [1, ...sizes] : sizes });
  },
});
export const dynamicSlice = (x: Expr, starts: readonly Expr[], sizes: Shape): Expr =>
  sliceOp([x, ...starts], { sizes });

const updateOp = define<readonly [Expr, Expr, ...Expr[]]>({
  name: 'dynamicUpdateSlice',
  infer: ([x, update, ...starts]) => {
    const [target, part] = [x as Aval, update as Aval];
    if (target.dtype !== part.dtype) throw new DTypeError(`dynamicUpdateSlice: dtypes of ${target} and ${part} differ`);
    checkStarts('dynamicUpdateSlice', target, part.shape, starts as Aval[]);
    return target;
  },
  lower: (e, xs, _, out) => e.op('dynamic_update_slice', xs, [out])[0]!,
  vjp: (g, [, update, ...starts]) => [
    dynamicUpdateSlice(g, zerosLike(update), starts),
    dynamicSlice(g, starts, update.shape),
    ...starts.map(() => null),
  ],
  batch: ({ xs: [, , ...starts], stacked: [, , ...several], all, stack }) => {
    const [x, update] = all();
    if (!several.some(Boolean)) return dynamicUpdateSlice(x, update, [full([], 0, starts[0]!.dtype), ...starts]);
    // A scatter skips updates that do not fit; here they are moved inside.
    const [whole, part] = [x.shape.slice(1), update.shape.slice(1)];
    const moved = starts.map((s, d) => minimum(maximum(s, 0), whole[d]! - part[d]!));
    return scatter(x, startsOf(moved, several as boolean[], stack), update, {
      ...placed(part.length, true),
      combine: 'set',
      known: 'unique',
    });
  },
});
/** x with a part of it replaced. */
export const dynamicUpdateSlice = (x: Expr, update: Expr, starts: readonly Expr[]): Expr =>
  updateOp([x, update, ...starts], null);

// ---- the same in the text of a loop: one row of a stacked array, at a place counted in the first dimension

export function readRow(e: Emitter, stacked: Ssa, at: Ssa, zero: Ssa): Ssa {
  const type = e.typeOf(stacked);
  const row = type.shape.slice(1);
  const starts = range(type.rank).map((d) => (d ? zero : at));
  const [part] = e.op('dynamic_slice', [stacked, ...starts], [type.withShape([1, ...row])], {
    slice_sizes: i64s([1, ...row]),
  });
  return e.op('reshape', [part!], [type.withShape(row)])[0]!;
}

export function writeRow(e: Emitter, stacked: Ssa, row: Ssa, at: Ssa, zero: Ssa): Ssa {
  const type = e.typeOf(stacked);
  const [part] = e.op('reshape', [row], [type.withShape([1, ...type.shape.slice(1)])]);
  const starts = range(type.rank).map((d) => (d ? zero : at));
  return e.op('dynamic_update_slice', [stacked, part!, ...starts], [type])[0]!;
}
