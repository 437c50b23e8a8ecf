// Products of rows with a matrix of their group: what routed experts compute. Rows of a group are adjacent, in the order of
// the groups; rows behind the last group belong to none, and get zeros.
//   m rows, G groups. Sizes of groups are an i32[G] of the device's.
import { ShapeError } from '../../base/errors.js';
import { Interner } from '../../base/intern.js';
import { isFloat } from '../../base/promote.js';
import type { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import type { Emitter, Ssa } from '../../ir/op.js';
import { Body, parameter } from './body.js';
import { broadcastInDim, reduceSum } from './broadcast.js';
import { full, iota, zerosLike } from './constant.js';
import { checkDType, define, type Each, showAll } from './define.js';
import { dotGeneral } from './dot.js';
import { dynamicSlice, dynamicUpdateSlice } from './dynamic.js';
import { convert, flat, reshape } from './move.js';
import { add, div, ge, le, logicalAnd, lt, minimum, mul, sub, where } from './pointwise.js';
import {
  defaultPrecision,
  isRoundable,
  type MatmulPrecision,
  precisionConfig,
  precisionSettings,
} from './precision.js';

import { concat, padDim, sliceDim } from './slice.js';
import { whileLoop } from './while.js';

type Three = readonly [Expr, Expr, Expr];
interface Precise {
  /** Of products of f32. Absent: the device's default. */
  readonly precision?: MatmulPrecision | undefined;
}
interface Contract extends Precise {
  /** The dimension of the matrices that is summed over: 2 of [G, out, in], 1 of [G, in, out]. */
  readonly contract: 1 | 2;
}

// ---- tiles: rows of one group, at most a fixed number

/** How a platform goes through them. */
interface Loop {
  /** Rows of a tile, at most. */
  readonly largest: number;
  /** One pass per tile. Otherwise the maximum number of passes: on a GPU, testing for the last pass costs more than running it. */
  readonly counted: boolean;
}
const LOOPS: Readonly<Record<string, Loop>> = {
  cpu: { largest: 32, counted: true },
  gpu: { largest: 128, counted: false },
};

/** Half the average size of a group, so that few rows of padding are computed. */
function tileRows(m: number, groups: number, { largest }: Loop): number {
  const half = Math.max(1, m / groups / 2);
  return Math.min(m, largest, Math.max(8, 2 ** Math.ceil(Math.log2(half))));
}

/** The first n of sums: sums[i] = x[0] + ... + x[i]. */
function runningSums(x: Expr): Expr {
  const n = x.shape[0]!;
  const upTo = le(iota([n, n], 1, 'i32'), iota([n, n], 0, 'i32'));
  return reduceSum(where(upTo, broadcastInDim(x, [n, n], [1]), 0), [1]);
}

interface Tile {
  /** i32[] */
  readonly group: Expr;
  /** The first of the rows that are read, i32[]: near the end more are read than belong to the tile. */
  readonly at: Expr;
  /** bool[b]: those that belong to the tile. */
  readonly own: Expr;
}

/** Loops over the tiles of all groups; `step` computes the next carry. One loop, for any sizes of groups. */
function overTiles(m: number, sizes: Expr, init: Expr, loop: Loop, step: (y: Expr, tile: Tile) => Expr): Expr {
  const G = sizes.shape[0]!;
  const b = tileRows(m, G, loop);
  const ends = runningSums(sizes);
  const tiles = div(add(sizes, b - 1), b, { roundingMode: 'trunc' });
  const tileEnds = runningSums(tiles);
  // Of each group: its first tile, its first row, its end.
  const facts = concat(
    [sub(tileEnds, tiles), sub(ends, sizes), ends].map((x) => reshape(x, [G, 1])),
    1,
  );
  const count = loop.counted ? reshape(sliceDim(tileEnds, 0, G - 1, G), []) : full([], mostTiles(m, G, b), 'i32');
  const zero = full([], 0, 'i32');
  const [, y] = whileLoop(
    [zero, init],
    ([t]) => lt(t!, count),
    ([t, y]) => {
      const group = minimum(reduceSum(convert(le(tileEnds, broadcastInDim(t!, [G], [])), 'i32'), [0]), G - 1);
      const row = dynamicSlice(facts, [group, zero], [1, 3]);
      const [firstTile, firstRow, end] = [0, 1, 2].map((i) => reshape(sliceDim(row, 1, i, i + 1), []));
      const start = add(firstRow!, mul(sub(t!, firstTile!), b));
      const at = minimum(start, m - b);
      const rows = add(iota([b], 0, 'i32'), broadcastInDim(at, [b], []));
      const within = (x: Expr) => broadcastInDim(x, [b], []);
      const own = logicalAnd(ge(rows, within(start)), lt(rows, within(minimum(end!, add(start, b)))));
      return [add(t!, 1), step(y!, { group, at, own })];
    },
  );
  return y!;
}
/** Each group may end with a tile that is not full. */
const mostTiles = (m: number, groups: number, b: number): number => Math.floor(m / b) + Math.min(groups, m);

const rowsOf = (x: Expr, { at, own }: Tile): Expr => dynamicSlice(x, [at, zerosLike(at)], [own.shape[0]!, x.shape[1]!]);
const maskedRows = (x: Expr, tile: Tile): Expr => where(alongRows(tile.own, x.shape[1]!), rowsOf(x, tile), 0);
const alongRows = (own: Expr, n: number): Expr => broadcastInDim(own, [own.shape[0]!, n], [0]);

function dotByTiles([x, w, sizes]: Three, { contract, precision }: Contract, loop: Loop): Expr {
  const [m, n] = [x.shape[0]!, w.shape[3 - contract]!];
  return overTiles(m, sizes, full([m, n], 0, x.dtype), loop, (y, tile) => {
    const zero = zerosLike(tile.group);
    const matrix = reshape(dynamicSlice(w, [tile.group, zero, zero], [1, ...w.shape.slice(1)]), w.shape.slice(1));
    const made = dotGeneral([rowsOf(x, tile), matrix], { batch: [[], []], sum: [[1], [contract - 1]], precision });
    const next = where(alongRows(tile.own, n), made, rowsOf(y, tile));
    return dynamicUpdateSlice(y, next, [tile.at, zero]);
  });
}

function outerByTiles([a, b, sizes]: Three, { precision }: Precise, loop: Loop): Expr {
  const [m, p] = a.shape as [number, number];
  const [G, q] = [sizes.shape[0]!, b.shape[1]!];
  const wide = a.dtype === 'bf16' || a.dtype === 'f16' ? 'f32' : a.dtype; // a group's tiles are summed
  const sums = overTiles(m, sizes, full([G, p, q], 0, wide), loop, (y, tile) => {
    const start = [tile.group, zerosLike(tile.group), zerosLike(tile.group)];
    const made = dotGeneral([maskedRows(a, tile), maskedRows(b, tile)], {
      batch: [[], []],
      sum: [[0], [0]],
      precision,
      ...(wide !== a.dtype && { out: wide }),
    });
    return dynamicUpdateSlice(y, add(dynamicSlice(y, start, [1, p, q]), reshape(made, [1, p, q])), start);
  });
  return convert(sums, a.dtype);
}

// ---- the primitives

type Dims = readonly number[];
/** One product for all groups, where XLA has it: on TPUs. Elsewhere XLA would compute all groups for all rows. */
function lowerRagged(
  e: Emitter,
  xs: readonly Ssa[],
  sum: readonly [Dims, Dims],
  ragged: readonly [Dims, Dims],
  { precision = defaultPrecision(e.platform) }: Precise,
  out: Aval,
): Ssa {
  const list = (dims: Dims) => `[${dims.join(', ')}]`;
  const numbers =
    'lhs_batching_dimensions = [], rhs_batching_dimensions = [], ' +
    `lhs_contracting_dimensions = ${list(sum[0])}, rhs_contracting_dimensions = ${list(sum[1])}, ` +
    `lhs_ragged_dimensions = ${list(ragged[0])}, rhs_group_dimensions = ${list(ragged[1])}`;
  return e.op('chlo.ragged_dot', xs, [out], {
    ragged_dot_dimension_numbers: `#chlo.ragged_dot<${numbers}>`,
    ...precisionConfig(e, xs[0]!, precision === 'high' ? 'highest' : precision, 'chlo'), // no kernel for 'high'
  })[0]!;
}

/** What libtpu has a kernel for (docs/decisions.md). Of other rows it makes a dense product of every group, and f16 it refuses. */
const ROWS_OF_TPU = 8;
const isAligned = ({ shape, dtype }: Aval): boolean => shape[0]! % ROWS_OF_TPU === 0 && dtype !== 'f16';
const wide = (x: Expr): Expr => (x.dtype === 'f16' ? convert(x, 'f32') : x);
/** With rows of zeros behind the last. */
const aligned = (x: Expr): Expr => padDim(wide(x), 0, 0, (ROWS_OF_TPU - (x.shape[0]! % ROWS_OF_TPU)) % ROWS_OF_TPU);
/** An f32 as fine as f16: by default a TPU rounds it to bf16. */
const fine = <A extends Precise>({ dtype }: Expr, attrs: A): A =>
  dtype === 'f16' ? { ...attrs, precision: 'highest' as const } : attrs;

/** As a computation of other primitives. */
function lowerBy<A extends Precise>(forward: (xs: Three, attrs: A, loop: Loop) => Expr) {
  const bodies = new Interner<Body>(1000); // traced once for operands of the same types
  return (e: Emitter, xs: Each<Three, Ssa>, given: A): Ssa => {
    const attrs = { ...given, precision: given.precision ?? defaultPrecision(e.platform) };
    const types = xs.map((x) => e.typeOf(x));
    const loop = LOOPS[e.platform === 'cpu' ? 'cpu' : 'gpu']!;
    const body = bodies.get(`${types.map((t) => t.id)}:${JSON.stringify(attrs)}:${e.platform}`, () => {
      const params = types.map((t) => parameter(t));
      return new Body(params, [forward(params as unknown as Three, attrs, loop)]);
    });
    return body.emit(e, [...xs])[0]!;
  };
}

function checkGrouped(op: string, xs: readonly Aval[]): void {
  const [a, b, sizes] = xs as [Aval, Aval, Aval];
  checkDType(op, [a, b], isFloat, 'floats');
  if (a.dtype !== b.dtype || sizes.dtype !== 'i32' || sizes.rank !== 1 || a.rank !== 2)
    throw new ShapeError(`${op}: takes rows [m, n], matrices of their dtype and sizes i32[groups], got ${showAll(xs)}`);
}

/** Another group for the rows that belong to none: so that rows of several examples can be joined. */
const withRest = (sizes: Expr, m: number): Expr => {
  const n = sizes.shape[0]!;
  const rest = sub(full([n], m, sizes.dtype), reduceSum(sizes, [1]));
  return flat(concat([sizes, reshape(rest, [n, 1])], 1));
};
const joined = (x: Expr): Expr => reshape(x, [x.shape[0]! * x.shape[1]!, ...x.shape.slice(2)]);

const dotByLoop = lowerBy(dotByTiles);
const dotAligned = lowerBy(([x, w, sizes], attrs: Contract) => {
  const y = groupedDot(aligned(x), wide(w), sizes, fine(x, attrs));
  return convert(sliceDim(y, 0, 0, x.shape[0]!), x.dtype);
});
const groupedDotOp = define<Three, Contract>({
  name: 'groupedDot',
  infer: ([x, w, sizes], { contract }) => {
    checkGrouped('groupedDot', [x, w, sizes]);
    if (w.rank !== 3 || w.shape[0] !== sizes.shape[0] || w.shape[contract] !== x.shape[1])
      throw new ShapeError(`groupedDot: ${showAll([x, w, sizes])}: dim ${contract} of the matrices is summed over`);
    return x.withShape([x.shape[0]!, w.shape[3 - contract]!]);
  },
  lower: (e, xs, attrs, out) => {
    if (e.platform !== 'tpu') return dotByLoop(e, xs, attrs);
    if (!isAligned(e.typeOf(xs[0]))) return dotAligned(e, xs, attrs);
    return lowerRagged(e, xs, [[1], [attrs.contract]], [[0], [0]], attrs, out);
  },
  vjp: (g, [x, w, sizes], { contract, ...precise }) => [
    x.differentiable ? groupedDot(g, w, sizes, { contract: contract === 2 ? 1 : 2, ...precise }) : null,
    w.differentiable ? groupedOuter(...(contract === 2 ? ([g, x] as const) : ([x, g] as const)), sizes, precise) : null,
    null,
  ],
  batch: ({ all, n, attrs }) => {
    const [x, w, sizes] = all();
    const m = x.shape[1]!;
    const y = groupedDot(joined(x), joined(withGroup(w)), withRest(sizes, m), attrs);
    return reshape(y, [n, m, y.shape[1]!]);
  },
});
/** A matrix of zeros for the rows of no group, [n, G + 1, ...]. */
const withGroup = (w: Expr): Expr => padDim(w, 1, 0, 1);

/** Rows x [m, k], each times the matrix of its group: w [G, n, k] (contract 2) or [G, k, n] (contract 1). [m, n] */
export const groupedDot = (x: Expr, w: Expr, sizes: Expr, attrs: Contract): Expr =>
  groupedDotOp([x, w, sizes], precisely(x, attrs));
function precisely<A extends Precise>(x: Expr, attrs: A): A {
  const { matmul } = precisionSettings();
  return matmul && isRoundable(x.dtype) && !attrs.precision ? { ...attrs, precision: matmul } : attrs;
}

const outerByLoop = lowerBy(outerByTiles);
const outerAligned = lowerBy(([a, b, sizes], attrs: Precise) =>
  convert(groupedOuter(aligned(a), aligned(b), sizes, fine(a, attrs)), a.dtype),
);
const groupedOuterOp = define<Three, Precise>({
  name: 'groupedOuter',
  infer: ([a, b, sizes]) => {
    checkGrouped('groupedOuter', [a, b, sizes]);
    if (b.rank !== 2 || a.shape[0] !== b.shape[0])
      throw new ShapeError(`groupedOuter: ${showAll([a, b, sizes])}: both have a row for each product`);
    return a.withShape([sizes.shape[0]!, a.shape[1]!, b.shape[1]!]);
  },
  lower: (e, xs, attrs, out) => {
    if (e.platform !== 'tpu') return outerByLoop(e, xs, attrs);
    if (!isAligned(e.typeOf(xs[0]))) return outerAligned(e, xs, attrs);
    return lowerRagged(e, xs, [[0], [0]], [[0], []], attrs, out);
  },
  vjp: (g, [a, b, sizes], precise) => [
    a.differentiable ? groupedDot(b, g, sizes, { contract: 2, ...precise }) : null,
    b.differentiable ? groupedDot(a, g, sizes, { contract: 1, ...precise }) : null,
    null,
  ],
  batch: ({ all, n, attrs }) => {
    const [a, b, sizes] = all();
    const y = groupedOuter(joined(a), joined(b), withRest(sizes, a.shape[1]!), attrs);
    const each = reshape(y, [n, sizes.shape[1]! + 1, ...y.shape.slice(1)]);
    return sliceDim(each, 1, 0, sizes.shape[1]!);
  },
});
/** Of each group, the sum of the outer products of its rows: a [m, p] and b [m, q] give [G, p, q]. */
export const groupedOuter = (a: Expr, b: Expr, sizes: Expr, attrs: Precise = {}): Expr =>
  groupedOuterOp([a, b, sizes], precisely(a, attrs));
