// The primitives that read and write parts of an array where integers say. Strict: starts are [..., k], one component for
// each dimension in `map`. A start out of range is moved to the nearest that fits when reading, and left out when writing
// (`scatter`); a dynamic slice is moved for both. Gradients follow these rules.
import { DTypeError } from '../base/errors.js';
import { isInteger, promote } from '../base/promote.js';
import { broadcastShapes, range, type Shape } from '../base/shape.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { constants, zerosLike } from './constant.js';
import { checkDType, comparing, define, i64, i64s, showAll } from './define.js';
import { broadcastInDim, broadcastTo, concat, convert, reshape } from './move.js';
import { div, eq, ge, le, logicalAnd, maximum, minimum, mul, where } from './pointwise.js';
import { reduceAnd } from './reduce.js';

/** How the parts of an array and the starts line up with the result of a gather, or the updates of a scatter. */
export interface Parts {
  /** Dimensions of the result that run through a part; the others run through the starts. */
  readonly offset: readonly number[];
  /** Dimensions that a part has with size 1 and the result lacks. */
  readonly collapsed: readonly number[];
  /** Dimensions of the array that go along with `startBatch` of the starts. */
  readonly batch: readonly number[];
  readonly startBatch: readonly number[];
  /** The dimension that each component of a start is for. */
  readonly map: readonly number[];
}
interface Gather extends Parts {
  /** Of a part, in every dimension of the array. */
  readonly sizes: Shape;
}
const COMBINE = { set: null, add: 'add', mul: 'multiply', min: 'minimum', max: 'maximum' } as const;
export type Combine = keyof typeof COMBINE;
interface Scatter extends Parts {
  readonly combine: Combine;
}

const list = (xs: readonly number[]) => `[${xs.join(', ')}]`;
const inPart = (p: Parts) => (d: number) => !p.collapsed.includes(d) && !p.batch.includes(d);
const dimsOfStarts = (p: Parts, rank: number): number[] => range(rank).filter((d) => !p.offset.includes(d));

function shapeOfParts(x: Aval, starts: Aval, p: Gather): number[] {
  const lead = starts.shape.slice(0, -1);
  const part = range(x.rank)
    .filter(inPart(p))
    .map((d) => p.sizes[d]!);
  return range(lead.length + part.length).map((d) => (p.offset.includes(d) ? part.shift()! : lead.shift()!));
}

const gatherOp = define<[Expr, Expr], Gather>({
  name: 'gather',
  infer: ([x, starts], p) => {
    checkDType('gather', [starts], isInteger, 'integer indices');
    return x.withShape(shapeOfParts(x, starts, p));
  },
  lower: (e, xs, p, out) =>
    e.op('gather', xs, [out], {
      dimension_numbers:
        `#stablehlo.gather<offset_dims = ${list(p.offset)}, collapsed_slice_dims = ${list(p.collapsed)}, ` +
        `operand_batching_dims = ${list(p.batch)}, start_indices_batching_dims = ${list(p.startBatch)}, ` +
        `start_index_map = ${list(p.map)}, index_vector_dim = ${e.typeOf(xs[1]).rank - 1}>`,
      slice_sizes: i64s(p.sizes),
      indices_are_sorted: 'false',
    })[0]!,
  vjp: (g, [x, starts], { sizes, ...parts }) => {
    const last = constants(lastStarts(x.shape, sizes, parts), starts.dtype);
    const inRange = minimum(maximum(starts, 0), last); // where the forward pass has read
    return [scatter(zerosLike(x), inRange, g, { ...parts, combine: 'add' }), null];
  },
});
export const gather = (x: Expr, starts: Expr, parts: Gather): Expr => gatherOp([x, starts], parts);

/** The last start in each dimension of `map` where a part still fits. */
const lastStarts = (shape: Shape, sizes: Shape, { map }: Parts): number[] => map.map((d) => shape[d]! - sizes[d]!);

const scatterOp = define<[Expr, Expr, Expr], Scatter>({
  name: 'scatter',
  infer: ([x, starts, updates]) => {
    checkDType('scatter', [starts], isInteger, 'integer indices');
    if (x.dtype !== updates.dtype) throw new DTypeError(`scatter: dtypes of ${showAll([x, updates])} differ`);
    return x;
  },
  lower: (e, xs, p, out) => {
    const scalar = out.withShape([]);
    const op = COMBINE[p.combine];
    const body = e.region([scalar, scalar], ([old, update]) => (op ? e.op(op, [old!, update!], [scalar]) : [update!]));
    const numbers =
      `#stablehlo.scatter<update_window_dims = ${list(p.offset)}, inserted_window_dims = ${list(p.collapsed)}, ` +
      `input_batching_dims = ${list(p.batch)}, scatter_indices_batching_dims = ${list(p.startBatch)}, ` +
      `scatter_dims_to_operand_dims = ${list(p.map)}, index_vector_dim = ${e.typeOf(xs[1]).rank - 1}>`;
    const attrs = { scatter_dimension_numbers: numbers, indices_are_sorted: 'false', unique_indices: 'false' };
    return e.op('scatter', xs, [out], attrs, [body])[0]!;
  },
  vjp: (g, [x, starts, updates], { combine, ...parts }, y) => {
    const sizes = sizesOf(x, updates, parts);
    const written = within(x, starts, updates, sizes, parts);
    const read = (from: Expr) => where(written, gather(from, starts, { ...parts, sizes }), zerosLike(updates));
    const write = (to: Expr, values: Expr, how: Combine) => scatter(to, starts, values, { ...parts, combine: how });
    if (combine === 'add') return [g, null, read(g)];
    // Of several updates of one element one wins, and XLA does not say which: each gets the gradient, as in torch.
    if (combine === 'set') return [write(g, zerosLike(updates), 'set'), null, read(g)];
    if (combine === 'mul') {
      const [one, zero] = [(v: Expr) => where(eq(v, 0), 1, v), (v: Expr) => convert(eq(v, 0), v.dtype)];
      const [product, zeros] = [write(one(x), one(updates), 'mul'), write(zero(x), zero(updates), 'add')];
      // The product of all others: without dividing by zero, of which there may be none, one, or more.
      const others = (v: Expr, p: Expr, n: Expr) => where(eq(n, zero(v)), div(p, one(v)), zerosLike(v));
      return [mul(g, others(x, product, zeros)), null, mul(read(g), others(updates, read(product), read(zeros)))];
    }
    const [hit, hits] = [convert(eq(x, y), g.dtype), convert(eq(updates, read(y)), g.dtype)];
    const share = div(g, maximum(write(hit, hits, 'add'), 1)); // equal extremes share the gradient
    return [mul(share, hit), null, mul(read(share), hits)];
  },
});
export const scatter = (x: Expr, starts: Expr, updates: Expr, parts: Scatter): Expr =>
  scatterOp([x, starts, updates], parts);

/** The sizes of the parts that are written, in every dimension of x. */
const sizesOf = (x: Expr, updates: Expr, p: Parts): number[] => {
  const part = p.offset.map((d) => updates.shape[d]!);
  return range(x.shape.length).map((d) => (inPart(p)(d) ? part.shift()! : 1));
};

/** For each element of the updates, whether it is written. */
function within(x: Expr, starts: Expr, updates: Expr, sizes: Shape, p: Parts): Expr {
  const last = constants(lastStarts(x.shape, sizes, p), starts.dtype);
  const fits = logicalAnd(ge(starts, 0), le(starts, last));
  const every = reduceAnd(fits, [fits.shape.length - 1]);
  return broadcastInDim(every, updates.shape, dimsOfStarts(p, updates.shape.length));
}

// ---- one element of a dimension for each index, the other dimensions side by side (along.ts reads and adds so)

const aside = (rank: number, dim: number): Parts => {
  const others = range(rank).filter((d) => d !== dim);
  return { offset: [], collapsed: [dim], batch: others, startBatch: others, map: [dim] };
};
const asStarts = (index: Expr): Expr => reshape(index, [...index.shape, 1]);
/** x[index[i, j], j] is combined with updates[i, j] for dim 0. */
export const scatterAside = (x: Expr, index: Expr, updates: Expr, dim: number, combine: Combine): Expr =>
  scatter(x, asStarts(index), updates, { ...aside(x.shape.length, dim), combine });

// ---- some dimensions indexed, the others whole

/** Broadcast indices for some dimensions, as starts; and how the result lies: as torch and NumPy have it. */
function indexed(rank: number, dims: readonly number[], indices: readonly Expr[]): { starts: Expr; parts: Parts } {
  const shape = broadcastShapes('index', ...indices.map((i) => i.shape));
  const dtype = indices.map((i) => i.dtype).reduce(promote);
  const starts = indices.map((i) => reshape(broadcastTo(convert(i, dtype), shape), [...shape, 1]));
  // Neighbours give way to the indices' dimensions in their place; otherwise these come first.
  const place = dims.every((d, i) => d === dims[0]! + i) ? dims[0]! : 0;
  const offset = range(rank - dims.length).map((d) => (d < place ? d : d + shape.length));
  return {
    starts: concat(starts, shape.length),
    parts: { offset, collapsed: dims, batch: [], startBatch: [], map: dims },
  };
}
/** x[:, i, j] for dims 1 and 2: dims ascend. */
export function takeAt(x: Expr, dims: readonly number[], indices: readonly Expr[]): Expr {
  const { starts, parts } = indexed(x.shape.length, dims, indices);
  return gather(x, starts, { ...parts, sizes: x.shape.map((n, d) => (dims.includes(d) ? 1 : n)) });
}
/** x with x[:, i, j] combined with values, which broadcast. */
export function putAt(
  x: Expr,
  dims: readonly number[],
  indices: readonly Expr[],
  values: Expr,
  combine: Combine,
): Expr {
  const { starts, parts } = indexed(x.shape.length, dims, indices);
  const sizes = x.shape.map((n, d) => (dims.includes(d) ? 1 : n));
  return scatter(x, starts, broadcastTo(values, shapeOfParts(x.aval, starts.aval, { ...parts, sizes })), {
    ...parts,
    combine,
  });
}

// ---- one part, at scalars

const sortKeysOp = define<[Expr]>({
  name: 'sortKeys',
  infer: ([x]) => x,
  lower: (e, [x], _, out) => {
    const scalar = out.withShape([]);
    const compare = e.region([scalar, scalar], (xs) =>
      e.op('compare', xs, [scalar.withDType('bool')], comparing('LT', scalar.dtype)),
    );
    return e.op('sort', [x], [out], { dimension: i64(0), is_stable: 'false' }, [compare])[0]!;
  },
});
/** Integers of one dimension in ascending order. */
export const sortKeys = (x: Expr): Expr => sortKeysOp([x], null);
