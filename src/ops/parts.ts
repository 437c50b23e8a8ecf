// Splitting, windows, padding and diagonals, by numbers known when the graph is made.
import { checkWhole } from '../base/check.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { isInexact } from '../base/promote.js';
import { normalizeDims, range, type Shape, showShape } from '../base/shape.js';
import { Expr } from '../ir/expr.js';
import { broadcastInDim, reduceSum } from './prim/broadcast.js';
import { full, iota, zerosLike } from './prim/constant.js';
import { gather, takeFixed } from './prim/gather.js';
import { convert, permute, reshape, reverse } from './prim/move.js';
import { add, ge, le, mul, where } from './prim/pointwise.js';
import { concat, pad as padOp, pieces, sliceDim } from './prim/slice.js';
import { dimIn, narrowed, selected, shapeByValues } from './spec.js';

/** One dimension, plain or by its name. */
type Dim = number | { readonly dim?: number };

const dimOf = (op: string, x: Expr, option: Dim): number =>
  dimIn(op, x, typeof option === 'number' ? option : (option.dim ?? 0));

// ---- pieces

/**
 * The elements start to start + length of one dimension. Unlike torch: a start given as a tensor is clamped to where the
 * length fits.
 */
export const narrow = (x: Expr, dim: number, start: number | Expr, length: number): Expr =>
  narrowed(x, dim, start, length);

/** One element of a dimension, which is dropped. */
export const select = (x: Expr, dim: number, index: number | Expr): Expr => selected(x, dim, index);

export const unbind = (x: Expr, dim: Dim = 0): Expr[] => {
  const d = dimOf('unbind', x, dim);
  const rest = x.shape.toSpliced(d, 1);
  const ones = range(x.shape[d]!).map(() => 1);
  return ones.length ? pieces(x, d, ones).map((piece) => reshape(piece, rest)) : [];
};

function cutAt(x: Expr, dim: number, cuts: readonly number[]): Expr[] {
  const ends = [...cuts, x.shape[dim]!];
  const sizes = ends.map((end, i) => end - (ends[i - 1] ?? 0));
  if (sizes.every((n) => n >= 0)) return pieces(x, dim, sizes);
  return [0, ...cuts].map((start, i) => sliceDim(x, dim, start, Math.max(start, ends[i]!))); // cuts may go back
}
const multiples = (size: number, below: number): number[] =>
  range(Math.max(0, Math.ceil(below / size) - 1)).map((i) => (i + 1) * size);

/** Pieces of one size, the last possibly smaller; or of the sizes in a list, which must add up to the dimension. */
export function split(x: Expr, sizes: number | Shape, dim: Dim = 0): Expr[] {
  const d = dimOf('split', x, dim);
  const n = x.shape[d]!;
  if (typeof sizes === 'number') return cutAt(x, d, multiples(checkWhole('split: the size', sizes, 1), n));
  const total = sizes.reduce((sum, size) => sum + checkWhole('split: a size', size), 0);
  if (total !== n)
    throw new ShapeError(
      `split: sizes ${showShape(sizes)} add up to ${total}, but dim ${d} of ${x.aval} has size ${n}`,
    );
  return pieces(x, d, sizes);
}
/** Pieces of the sizes in a list, which must add up to the dimension. */
export const splitWithSizes = (x: Expr, sizes: Shape, dim: Dim = 0): Expr[] => split(x, sizes, dim);
/** At most this many pieces of equal size; the last may be smaller. */
export function chunk(x: Expr, chunks: number, dim: Dim = 0): Expr[] {
  const d = dimOf('chunk', x, dim);
  const n = x.shape[d]!;
  checkWhole('chunk: the number of chunks', chunks, 1);
  return n ? cutAt(x, d, multiples(Math.ceil(n / chunks), n)) : range(chunks).map(() => x);
}
/** Exactly this many pieces, with sizes that differ by at most one; or split before the indices in a list. */
export function tensorSplit(x: Expr, sections: number | Shape | Expr, dim: Dim = 0): Expr[] {
  if (sections instanceof Expr) throw shapeByValues('tensorSplit', sections);
  const d = dimOf('tensorSplit', x, dim);
  const n = x.shape[d]!;
  if (typeof sections !== 'number')
    return cutAt(
      x,
      d,
      sections.map((i) => Math.min(Math.max(i < 0 ? i + n : i, 0), n)),
    );
  const [size, larger] = [Math.floor(n / checkWhole('tensorSplit: the number of sections', sections, 1)), n % sections];
  return cutAt(
    x,
    d,
    range(sections - 1).map((i) => (i + 1) * size + Math.min(i + 1, larger)),
  );
}

/** Windows along one dimension, `step` apart; their elements form a new last dimension. */
export function unfold(x: Expr, dimension: number, size: number, step: number): Expr {
  if (!x.shape.length) return unfold(reshape(x, [1]), dimension, size, step).shape[0] ? reshape(x, [size]) : x;
  const d = dimOf('unfold', x, dimension);
  const n = x.shape[d]!;
  checkWhole('unfold: the size', size);
  checkWhole('unfold: the step', step, 1);
  if (size > n) throw new ShapeError(`unfold: windows of ${size} are larger than size ${n} of dim ${d} in ${x.aval}`);
  const windows = Math.floor((n - size) / step) + 1;
  const starts = mul(iota([windows], 0, 'i64'), step);
  const rank = x.shape.length;
  // The result of the gather has the windows before their elements, in the place of the dimension.
  const taken = gather(x, starts, {
    ...{ offset: range(rank + 1).filter((k) => k !== d), collapsed: [], batch: [], startBatch: [], map: [d] },
    ...{ sizes: x.shape.with(d, size), known: 'inRange' },
  });
  return permute(taken, [...range(rank + 1).filter((k) => k !== d + 1), d + 1]);
}

// ---- edges

type PadMode = 'constant' | 'reflect' | 'replicate' | 'circular';
/** What comes before a dimension of n elements, and what after, made of its own elements. */
const EDGES: Record<
  Exclude<PadMode, 'constant'>,
  (x: Expr, d: number, n: number, low: number, high: number) => Expr[]
> = {
  reflect: (x, d, n, low, high) => [
    reverse(sliceDim(x, d, 1, 1 + low), [d]),
    reverse(sliceDim(x, d, n - 1 - high, n - 1), [d]),
  ],
  replicate: (x, d, n, low, high) => [
    stretch(sliceDim(x, d, 0, 1), d, low),
    stretch(sliceDim(x, d, n - 1, n), d, high),
  ],
  circular: (x, d, n, low, high) => [sliceDim(x, d, n - low, n), sliceDim(x, d, 0, high)],
};
const stretch = (x: Expr, d: number, n: number): Expr => broadcastInDim(x, x.shape.with(d, n), range(x.shape.length));
const LARGEST: Record<string, (n: number) => number> = {
  reflect: (n) => n - 1,
  replicate: (n) => (n ? Number.POSITIVE_INFINITY : 0),
  circular: (n) => n,
};

/**
 * Adds elements: [before, after] for the last dimension, then for the one before it, and so on (torch's order). Negative
 * numbers remove elements. Unlike torch: all modes take any number of dimensions.
 */
export function pad(
  x: Expr,
  padding: Shape,
  { mode = 'constant', value = 0 }: { readonly mode?: PadMode; readonly value?: number | boolean } = {},
): Expr {
  const rank = x.shape.length;
  if (padding.length % 2 || padding.length > 2 * rank || padding.some((n) => !Number.isInteger(n)))
    throw new ShapeError(
      `pad: ${showShape(padding)} for ${x.aval}: takes two whole numbers for each of at most ${rank} dimensions, the last first`,
    );
  const amount = (side: 0 | 1) => range(rank).map((d) => padding[2 * (rank - 1 - d) + side] ?? 0);
  const [low, high] = [amount(0), amount(1)];
  const negative = x.shape.findIndex((n, d) => n + low[d]! + high[d]! < 0);
  if (negative >= 0)
    throw new ShapeError(`pad: ${showShape(padding)} removes more elements than dim ${negative} of ${x.aval} has`);
  const fill = (y: Expr, before: Shape, after: Shape) =>
    padOp(
      y,
      full([], value, x.dtype),
      before,
      after,
      before.map(() => 0),
    );
  if (mode === 'constant') return fill(x, low, high);
  if (mode === 'replicate' && padding.some((n) => n < 0)) {
    // What is repeated is an edge of x itself, even if it is taken away.
    const empty = x.shape.findIndex((n, d) => !n && low[d]! + high[d]! > 0);
    if (empty >= 0) throw new ShapeError(`pad: dim ${empty} of ${x.aval} has no edge to replicate`);
    return range(rank).reduce((y, d) => {
      const n = x.shape[d]!;
      const places = range(n + low[d]! + high[d]!).map((i) => Math.min(Math.max(i - low[d]!, 0), n - 1));
      return places.length ? takeFixed(y, d, places) : sliceDim(y, d, 0, 0);
    }, x);
  }
  const edges = EDGES[mode];
  // What is taken away goes first: circular padding repeats what is left.
  const cropped = fill(
    x,
    low.map((n) => Math.min(0, n)),
    high.map((n) => Math.min(0, n)),
  );
  return range(rank).reduce((y, d) => {
    const n = y.shape[d]!;
    const [before, after] = [Math.max(0, low[d]!), Math.max(0, high[d]!)];
    if (Math.max(before, after) > Math.max(0, LARGEST[mode]!(n)))
      throw new ShapeError(
        `pad: mode '${mode}' cannot add ${Math.max(before, after)} elements to the ${n} in dim ${d} of ${x.aval}`,
      );
    if (!before && !after) return y;
    const [head, tail] = edges(y, d, n, before, after) as [Expr, Expr];
    return concat([head, y, tail], d);
  }, cropped);
}

// ---- diagonals

export interface Diagonal {
  /** 0: the main one; above it: positive. */
  readonly offset?: number;
  readonly dim1?: number;
  readonly dim2?: number;
}
/** [..., n] whose elements are the diagonal of two dimensions. */
export function diagonal(x: Expr, { offset = 0, dim1 = 0, dim2 = 1 }: Diagonal = {}): Expr {
  const [a, b] = matrixDims('diagonal', x, dim1, dim2, x.shape.length);
  const rest = range(x.shape.length).filter((d) => d !== a && d !== b);
  const y = permute(x, [...rest, a, b]);
  const [rows, columns] = [x.shape[a]!, x.shape[b]!];
  const [top, left] = [Math.min(rows, Math.max(0, -offset)), Math.min(columns, Math.max(0, offset))];
  const n = Math.min(rows - top, columns - left);
  const lead = rest.map((d) => x.shape[d]!);
  const square = sliceDim(sliceDim(y, rest.length, top, top + n), rest.length + 1, left, left + n);
  return sliceDim(reshape(square, [...lead, n * n]), rest.length, 0, n * n, n + 1); // no element is read in vain
}
function matrixDims(op: string, x: Expr, dim1: number, dim2: number, rank: number): [number, number] {
  if (rank < 2) throw new ShapeError(`${op}: takes two dimensions or more, got ${x.aval}`);
  return normalizeDims(op, [dim1, dim2], rank) as [number, number];
}

/** The inverse of diagonal: matrices with the last dimension as their diagonal, zeros elsewhere. */
export function diagEmbed(x: Expr, { offset = 0, dim1 = -2, dim2 = -1 }: Diagonal = {}): Expr {
  const rank = x.shape.length + 1;
  if (!x.shape.length) throw new ShapeError(`diagEmbed: ${x.aval} has no dimensions`);
  const [a, b] = matrixDims('diagEmbed', x, dim1, dim2, rank);
  const [lead, n] = [x.shape.slice(0, -1), x.shape.at(-1)!];
  const last = (amount: number) => [...lead.map(() => 0), amount];
  const zero = full([], 0, x.dtype);
  const square = reshape(padOp(x, zero, last(0), last(0), last(n)), [...lead, n, n]);
  const edge = (rows: number, columns: number) => [...lead.map(() => 0), rows, columns];
  const [down, right] = [Math.max(0, -offset), Math.max(0, offset)];
  const matrix = padOp(square, zero, edge(down, right), edge(right, down), edge(0, 0));
  const rest = range(rank - 2);
  return permute(
    matrix,
    range(rank).map((d) => (d === a ? rank - 2 : d === b ? rank - 1 : rest.shift()!)),
  );
}
export interface Triangle {
  /** 0: the main one; above it: positive. */
  readonly diagonal?: number;
}
/** A vector's matrix, or a matrix's diagonal. */
export function diag(x: Expr, { diagonal: offset = 0 }: Triangle = {}): Expr {
  if (x.shape.length !== 1 && x.shape.length !== 2)
    throw new ShapeError(`diag: takes a vector or a matrix, got ${x.aval}: use diagonal or diagEmbed`);
  return x.shape.length === 1 ? diagEmbed(x, { offset }) : diagonal(x, { offset });
}
/** Integers are summed as i64. */
export function trace(x: Expr): Expr {
  if (x.shape.length !== 2) throw new ShapeError(`trace: takes a matrix, got ${x.aval}`);
  return reduceSum(convert(diagonal(x), isInexact(x.dtype) ? x.dtype : 'i64'));
}

const triangle =
  (op: string, keep: typeof ge) =>
  (x: Expr, { diagonal: offset = 0 }: Triangle = {}): Expr => {
    const [rows, columns] = x.shape.slice(-2) as [number, number];
    if (x.shape.length < 2) throw new ShapeError(`${op}: takes two dimensions or more, got ${x.aval}`);
    if (!Number.isInteger(offset)) throw new ArgumentError(`${op}: the diagonal must be a whole number, got ${offset}`);
    const [row, column] = [iota([rows, columns], 0, 'i32'), iota([rows, columns], 1, 'i32')];
    return where(keep(column, add(row, offset)), x, zerosLike(x));
  };
/** The lower triangle: elements on and below a diagonal, zeros elsewhere. */
export const tril = triangle('tril', le);
/** The upper triangle: elements on and above a diagonal, zeros elsewhere. */
export const triu = triangle('triu', ge);
