// The primitives that take arrays apart and put them together: slices, padding, concatenation. Strict: dimensions are counted
// from the front.
import { DTypeError, ShapeError } from '../../base/errors.js';
import { range } from '../../base/shape.js';
import type { Expr } from '../../ir/expr.js';
import { broadcastInDim, reduceSum } from './broadcast.js';
import { full, zerosLike } from './constant.js';
import { define, defineMulti, i64, i64s, shifted, showAll } from './define.js';
import { sub, where } from './pointwise.js';

interface Slice {
  readonly start: readonly number[];
  readonly limit: readonly number[];
  readonly step: readonly number[];
}
const sliceOp = define<[Expr], Slice>({
  name: 'slice',
  infer: ([x], { start, limit, step }) =>
    x.withShape(start.map((s, d) => Math.max(0, Math.ceil((limit[d]! - s) / step[d]!)))),
  lower: (e, xs, { start, limit, step }, out) =>
    e.op('slice', xs, [out], { start_indices: i64s(start), limit_indices: i64s(limit), strides: i64s(step) })[0]!,
  vjp: (g, [x], { start, step }) => {
    const high = x.shape.map((n, d) => n - start[d]! - (g.shape[d] ? 1 + (g.shape[d]! - 1) * step[d]! : 0));
    return [
      pad(
        g,
        full([], 0, g.dtype),
        start,
        high,
        step.map((s) => s - 1),
      ),
    ];
  },
  batch: shifted(({ start, limit, step }, n) => ({ start: [0, ...start], limit: [n, ...limit], step: [1, ...step] })),
});
/** Elements start, start + step, ... below limit, in each dimension. */
export const slice = (
  x: Expr,
  start: readonly number[],
  limit: readonly number[],
  step: readonly number[] = start.map(() => 1),
): Expr =>
  start.every((s, d) => s === 0 && limit[d] === x.shape[d] && step[d] === 1) ? x : sliceOp([x], { start, limit, step });

/** The elements start to limit of one dimension. */
export const sliceDim = (x: Expr, dim: number, start: number, limit: number, step = 1): Expr =>
  slice(
    x,
    x.shape.map((_, d) => (d === dim ? start : 0)),
    x.shape.map((n, d) => (d === dim ? limit : n)),
    x.shape.map((_, d) => (d === dim ? step : 1)),
  );

interface Padding {
  readonly low: readonly number[];
  readonly high: readonly number[];
  readonly interior: readonly number[];
}
const padOp = define<[Expr, Expr], Padding>({
  name: 'pad',
  infer: ([x], { low, high, interior }) =>
    x.withShape(x.shape.map((n, d) => n + low[d]! + high[d]! + Math.max(0, n - 1) * interior[d]!)),
  lower: (e, xs, { low, high, interior }, out) =>
    e.op('pad', xs, [out], {
      edge_padding_low: i64s(low),
      edge_padding_high: i64s(high),
      interior_padding: i64s(interior),
    })[0]!,
  vjp: (g, [, value], { low, high, interior }) => {
    const zero = full([], 0, g.dtype);
    const cut = pad(
      g,
      zero,
      low.map((n) => -n),
      high.map((n) => -n),
      low.map(() => 0),
    );
    const gx = slice(
      cut,
      low.map(() => 0),
      cut.shape,
      interior.map((n) => n + 1),
    );
    return [gx, value.differentiable ? sub(reduceSum(g), reduceSum(gx)) : null];
  },
  batch: ({ xs: [x, value], stacked: [, several], attrs: { low, high, interior }, stack }) => {
    const padded = (y: Expr, by: Expr) => pad(y, by, [0, ...low], [0, ...high], [0, ...interior]);
    const whole = x.shape.length > low.length ? x : stack(x);
    if (!several) return padded(whole, value);
    // Each example has a value of its own to pad with.
    const inside = padded(full(whole.shape, true, 'bool'), full([], false, 'bool'));
    const values = broadcastInDim(value, inside.shape, [0]);
    return where(inside, padded(whole, full([], 0, x.dtype)), values);
  },
});
/** Negative padding takes away. */
export const pad = (
  x: Expr,
  value: Expr,
  low: readonly number[],
  high: readonly number[],
  interior: readonly number[],
): Expr => ([...low, ...high, ...interior].every((n) => n === 0) ? x : padOp([x, value], { low, high, interior }));

/** One dimension padded; negative counts take away. */
export const padDim = (x: Expr, dim: number, low: number, high: number, value: number | bigint | boolean = 0): Expr => {
  const at = (n: number) => x.shape.map((_, d) => (d === dim ? n : 0));
  return pad(x, full([], value, x.dtype), at(low), at(high), at(0));
};

const concatOp = define<readonly Expr[], { dim: number }>({
  name: 'concat',
  infer: (xs, { dim }) => {
    const [first] = xs as readonly [Expr['aval']];
    for (const x of xs) {
      if (x.dtype !== first.dtype) throw new DTypeError(`cat: dtypes of ${showAll(xs)} differ`);
      if (x.rank !== first.rank || x.shape.some((n, d) => d !== dim && n !== first.shape[d])) {
        throw new ShapeError(`cat: ${showAll(xs)} differ in more than dim ${dim}`);
      }
    }
    return first.withShape(
      first.shape.map((n, d) => (d === dim ? xs.reduce((total, x) => total + x.shape[dim]!, 0) : n)),
    );
  },
  lower: (e, xs, { dim }, out) => e.op('concatenate', xs, [out], { dimension: i64(dim) })[0]!,
  batch: shifted(({ dim }) => ({ dim: dim + 1 })),
  vjp: (g, xs, { dim }) => {
    let at = 0;
    return xs.map((x) => {
      const start = range(g.shape.length).map((d) => (d === dim ? at : 0));
      at += x.shape[dim]!;
      return slice(
        g,
        start,
        g.shape.map((n, d) => (d === dim ? at : n)),
      );
    });
  },
});
export const concat = (xs: readonly Expr[], dim: number): Expr => (xs.length === 1 ? xs[0]! : concatOp(xs, { dim }));

const piecesOp = defineMulti<[Expr], { dim: number; sizes: readonly number[] }>({
  name: 'pieces',
  infer: ([x], { dim, sizes }) => sizes.map((n) => x.withShape(x.shape.with(dim, n))),
  lower: (e, [x], { dim, sizes }, outs) => {
    const { shape } = e.typeOf(x);
    let at = 0;
    return outs.map((out, i) => {
      const start = shape.map((_, d) => (d === dim ? at : 0));
      at += sizes[i]!;
      const limit = shape.with(dim, at);
      const strides = i64s(shape.map(() => 1));
      return e.op('slice', [x], [out], { start_indices: i64s(start), limit_indices: i64s(limit), strides })[0]!;
    });
  },
  vjp: (gs, _, { dim }, ys) => [
    concat(
      gs.map((g, i) => g ?? zerosLike(ys[i]!)),
      dim,
    ),
  ],
  batch: shifted(({ dim, sizes }) => ({ dim: dim + 1, sizes })),
});
/** Slices side by side that make up all of x: their gradients are put together again, not added up. */
export const pieces = (x: Expr, dim: number, sizes: readonly number[]): Expr[] =>
  sizes.length === 1 ? [x] : piecesOp([x], { dim, sizes });
