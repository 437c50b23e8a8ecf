// The two primitives that read and write parts of an array where integers say, and the ways they are used. Strict: starts
// are [..., k], one component for each dimension in `map`; [...] if there is only one. A start out of range is moved to the
// nearest that fits when reading, and left out when writing; a dynamic slice is moved for both. Gradients follow these rules.
import { DTypeError, ShapeError } from '../../base/errors.js';
import { isInteger, promote } from '../../base/promote.js';
import { broadcastShapes, range, type Shape, sameShape } from '../../base/shape.js';
import type { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import type { Operand } from './align.js';
import { broadcastInDim, broadcastTo } from './broadcast.js';
import { constants, full, zerosLike } from './constant.js';
import { checkDType, define, i64s, keepingNaN, next, showAll } from './define.js';
import { convert, flat, reshape } from './move.js';
import { div, eq, ge, le, logicalAnd, maximum, minimum, mul, where } from './pointwise.js';
import { reduceAnd } from './reduce.js';
import { concat, slice } from './slice.js';

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
  /** Promises about the starts: none is out of range, and no element is named twice. Skips the checks. */
  readonly known?: 'inRange' | 'unique' | undefined;
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

/** Of starts, less the dimension of their components. */
const leadOf = (starts: Shape, { map }: Parts): number[] => (map.length === 1 ? [...starts] : starts.slice(0, -1));

function shapeOfParts(x: Aval, starts: Aval, p: Gather): number[] {
  const lead = leadOf(starts.shape, p);
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
        `start_index_map = ${list(p.map)}, index_vector_dim = ${leadOf(e.typeOf(xs[1]).shape, p).length}>`,
      slice_sizes: i64s(p.sizes),
      indices_are_sorted: 'false',
    })[0]!,
  vjp: (g, [x, starts], { sizes, ...parts }) => {
    // Where the forward pass has read.
    const at = parts.known ? starts : minimum(maximum(starts, 0), lastStarts(x.shape, starts, sizes, parts));
    return [scatter(zerosLike(x), at, g, { ...parts, combine: 'add' }), null];
  },
  batch: ({ xs: [x, starts], stacked: [inX, inStarts], attrs: { sizes, ...parts }, n }) => {
    const own = inX && inStarts ? 1 : n; // of the new dimension in a part: those of one example, or of all
    return gather(x, starts, { ...batchParts(parts, inX, inStarts), sizes: inX ? [own, ...sizes] : sizes });
  },
});
export function gather(x: Expr, starts: Expr, parts: Gather): Expr {
  const shape = shapeOfParts(x.aval, starts.aval, parts);
  // An empty result that depends on x: XLA refuses to read from an empty dimension.
  if (shape.includes(0)) return reshape(slice(flat(x), [0], [0]), shape);
  return gatherOp([x, starts], parts);
}

/** How parts and starts line up if the array, or the starts, or both are stacked. */
const batchParts = (p: Parts, inX: boolean, inStarts: boolean): Parts => {
  const ofX = (dims: readonly number[]) => (inX ? next(dims) : dims);
  const startBatch = inStarts ? next(p.startBatch) : p.startBatch;
  const together = inX && inStarts;
  return {
    offset: inX && !inStarts ? [0, ...next(p.offset)] : next(p.offset),
    collapsed: ofX(p.collapsed),
    batch: together ? [0, ...ofX(p.batch)] : ofX(p.batch),
    startBatch: together ? [0, ...startBatch] : startBatch,
    map: ofX(p.map),
    known: p.known,
  };
};

/** The last start in each dimension of `map` where a part still fits. */
function lastStarts(shape: Shape, starts: Expr, sizes: Shape, { map }: Parts): Operand {
  const last = map.map((d) => shape[d]! - sizes[d]!);
  return last.length === 1 ? last[0]! : constants(last, starts.dtype);
}

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
    const body = e.region([scalar, scalar], ([old, update]) => [
      op ? keepingNaN(e, op, [old!, update!], scalar) : update!,
    ]);
    const numbers =
      `#stablehlo.scatter<update_window_dims = ${list(p.offset)}, inserted_window_dims = ${list(p.collapsed)}, ` +
      `input_batching_dims = ${list(p.batch)}, scatter_indices_batching_dims = ${list(p.startBatch)}, ` +
      `scatter_dims_to_operand_dims = ${list(p.map)}, index_vector_dim = ${leadOf(e.typeOf(xs[1]).shape, p).length}>`;
    const attrs = {
      scatter_dimension_numbers: numbers,
      indices_are_sorted: 'false',
      unique_indices: String(p.known === 'unique'),
    };
    return e.op('scatter', xs, [out], attrs, [body])[0]!;
  },
  vjp: (g, [x, starts, updates], { combine, ...parts }, y) => {
    const sizes = sizesOf(x, updates, parts);
    const written = parts.known ? null : within(x, starts, updates, sizes, parts);
    const read = (from: Expr) => {
      const there = gather(from, starts, { ...parts, sizes });
      return written ? where(written, there, zerosLike(updates)) : there;
    };
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
  batch: ({ xs: [, starts], stacked: [, inStarts], attrs: { combine, ...parts }, all }) => {
    const [x, , updates] = all();
    return scatter(x, starts, updates, { ...batchParts(parts, true, inStarts), combine });
  },
});
export const scatter = (x: Expr, starts: Expr, updates: Expr, parts: Scatter): Expr =>
  x.aval.size ? scatterOp([x, starts, updates], parts) : x;

/** The sizes of the parts that are written, in every dimension of x. */
const sizesOf = (x: Expr, updates: Expr, p: Parts): number[] => {
  const part = p.offset.map((d) => updates.shape[d]!);
  return range(x.shape.length).map((d) => (inPart(p)(d) ? part.shift()! : 1));
};

/** For each element of the updates, whether it is written. */
function within(x: Expr, starts: Expr, updates: Expr, sizes: Shape, p: Parts): Expr {
  const fits = logicalAnd(ge(starts, 0), le(starts, lastStarts(x.shape, starts, sizes, p)));
  const every = p.map.length === 1 ? fits : reduceAnd(fits, [fits.shape.length - 1]);
  return broadcastInDim(every, updates.shape, dimsOfStarts(p, updates.shape.length));
}

// ---- one element of a dimension for each index, the other dimensions side by side

/** All other dimensions are batch dimensions of both. Nothing is flattened, so sharded dimensions stay sharded. */
function aside(op: string, x: Aval, index: Aval, dim: number, known: Parts['known']): Parts {
  const others = range(x.rank).filter((d) => d !== dim);
  if (index.rank !== x.rank || others.some((d) => index.shape[d] !== x.shape[d]))
    throw new ShapeError(`${op}: ${x} and its index ${index} differ in more than dim ${dim}`);
  return { offset: [], collapsed: [dim], batch: others, startBatch: others, map: [dim], known };
}
/** y[i, j] = x[index[i, j], j] for dim 0, and so on. In other dimensions the index is as large as x, or smaller. */
export function gatherAlong(x: Expr, index: Expr, dim: number, known?: Parts['known']): Expr {
  if (index.aval.size === 0) return full(index.shape, 0, x.dtype);
  const part = slice(
    x,
    x.shape.map(() => 0),
    index.shape.with(dim, x.shape[dim]!),
  );
  return gather(part, index, { ...aside('gather', part.aval, index.aval, dim, known), sizes: x.shape.map(() => 1) });
}
/** x[index[i, j], j] is combined with updates[i, j] for dim 0, and so on. */
export function scatterAlong(
  x: Expr,
  index: Expr,
  updates: Expr,
  dim: number,
  combine: Combine,
  known?: Parts['known'],
): Expr {
  if (!sameShape(updates.shape, index.shape))
    throw new ShapeError(`scatter: ${updates.aval} and its index ${index.aval} differ in shape`);
  return scatter(x, index, updates, { ...aside('scatter', x.aval, index.aval, dim, known), combine });
}

// ---- some dimensions indexed, the others whole

/** Broadcast indices for some dimensions, as starts, and the order of the result's dimensions: that of torch and NumPy. */
function indexed(rank: number, dims: readonly number[], indices: readonly Expr[]): { starts: Expr; parts: Parts } {
  const shape = broadcastShapes('index', ...indices.map((i) => i.shape));
  const dtype = indices.map((i) => i.dtype).reduce(promote);
  const starts = indices.map((i) => broadcastTo(convert(i, dtype), shape));
  // Neighbours give way to the indices' dimensions in their place; otherwise these come first.
  const place = dims.every((d, i) => d === dims[0]! + i) ? dims[0]! : 0;
  const offset = range(rank - dims.length).map((d) => (d < place ? d : d + shape.length));
  return {
    starts:
      starts.length === 1
        ? starts[0]!
        : concat(
            starts.map((i) => reshape(i, [...shape, 1])),
            shape.length,
          ),
    parts: { offset, collapsed: dims, batch: [], startBatch: [], map: dims },
  };
}
/** x[:, i, j] for dims 1 and 2: dims ascend. */
export function takeAt(x: Expr, dims: readonly number[], indices: readonly Expr[], known?: Parts['known']): Expr {
  const { starts, parts } = indexed(x.shape.length, dims, indices);
  return gather(x, starts, { ...parts, known, sizes: x.shape.map((n, d) => (dims.includes(d) ? 1 : n)) });
}
/** x[:, indices] for dim 1, with indices known now. */
export const takeFixed = (x: Expr, dim: number, indices: readonly number[]): Expr =>
  indices.length === x.shape[dim] && indices.every((n, i) => n === i)
    ? x
    : takeAt(x, [dim], [constants(indices, 'i32')], 'inRange');
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
