// Decompositions of matrices [..., m, n]: the strict primitives under linalg. All of them batched.
import { ArgumentError } from '../../base/errors.js';
import { range } from '../../base/shape.js';
import { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import { collect } from '../../ir/graph.js';
import type { Emitter, Ssa } from '../../ir/op.js';
import { broadcastInDim, broadcastTo, reduceSum } from './broadcast.js';
import { full, iota, onesLike, zerosLike } from './constant.js';
import { define, defineMulti, same } from './define.js';
import { mmPrecise as mm } from './dot.js';
import { convert, permute, reshape, reverse } from './move.js';
import {
  abs,
  add,
  div,
  eq,
  fmod,
  ge,
  gt,
  le,
  logicalAnd,
  logicalOr,
  lt,
  maximum,
  minimum,
  mul,
  neg,
  rsqrt,
  sqrt,
  sub,
  where,
} from './pointwise.js';
import { reduceMax } from './reduce.js';
import { concat, padDim, sliceDim } from './slice.js';
import { input } from './variable.js';

// ---- matrices

export const rowsOf = (x: Expr): number => x.shape.at(-2)!;
export const columnsOf = (x: Expr): number => x.shape.at(-1)!;
export const transposed = (x: Expr): Expr => {
  const n = x.shape.length;
  return permute(x, [...range(n - 2), n - 1, n - 2]);
};
/** Rows, or columns, from start to end. */
export const rows = (x: Expr, start: number, end: number): Expr => sliceDim(x, x.shape.length - 2, start, end);
export const columns = (x: Expr, start: number, end: number): Expr => sliceDim(x, x.shape.length - 1, start, end);
/** Row and column numbers compared: which elements of a matrix are meant. */
const mask = (x: Expr, which: (row: Expr, column: Expr) => Expr): Expr => {
  const shape = [rowsOf(x), columnsOf(x)];
  return broadcastTo(which(iota(shape, 0, 'i32'), iota(shape, 1, 'i32')), x.shape);
};
export const lowerPart = (x: Expr, strict = false): Expr =>
  where(
    mask(x, (i, j) => (strict ? gt(i, j) : ge(i, j))),
    x,
    zerosLike(x),
  );
export const upperPart = (x: Expr, strict = false): Expr =>
  where(
    mask(x, (i, j) => (strict ? lt(i, j) : le(i, j))),
    x,
    zerosLike(x),
  );
const isDiagonal = (x: Expr): Expr => mask(x, eq);
/** The identity, as large as these square matrices. */
export const eyeLike = (x: Expr): Expr => convert(isDiagonal(x), x.dtype);
/** A vector [..., n] as a diagonal matrix, as the factors of rows, and of columns. */
export const asRows = (v: Expr): Expr => reshape(v, [...v.shape, 1]);
export const asColumns = (v: Expr): Expr => reshape(v, [...v.shape.slice(0, -1), 1, v.shape.at(-1)!]);
const diagonalMatrix = (v: Expr): Expr => {
  const wide = broadcastTo(asRows(v), [...v.shape, v.shape.at(-1)!]);
  return where(isDiagonal(wide), wide, zerosLike(wide));
};
export const diagonalOf = (x: Expr): Expr =>
  reduceSum(where(isDiagonal(x), x, zerosLike(x)), [x.shape.length - (rowsOf(x) > columnsOf(x) ? 2 : 1)]);
const half = (x: Expr): Expr => mul(x, 0.5);
const skew = (x: Expr): Expr => sub(x, transposed(x));
/** values_j - values_i, and 1 on the diagonal. */
const gaps = (values: Expr): Expr => {
  const all = sub(asColumns(values), asRows(values));
  return where(isDiagonal(all), onesLike(all), all);
};

const boolean = (b: boolean): string => (b ? 'true' : 'false');
const call = (e: Emitter, target: string, operands: readonly Ssa[], outs: readonly Aval[]): Ssa[] =>
  e.op('custom_call', operands, outs, {
    call_target_name: `"${target}"`,
    backend_config: '""',
    api_version: '1 : i32',
  });

// ---- Cholesky, triangular systems

const choleskyOp = define<[Expr]>({
  name: 'cholesky',
  infer: ([a]) => a,
  lower: (e, xs, _, out) => e.op('cholesky', xs, [out], { lower: 'true' })[0]!,
  // With L' = L phi(L^-1 A' L^-T), phi taking the lower half: its adjoint, made symmetric as A is.
  vjp: (g, _, __, y) => {
    const l = lowerPart(y);
    const p = mm(transposed(l), lowerPart(g));
    const phi = sub(lowerPart(p), half(where(isDiagonal(p), p, zerosLike(p))));
    const left = triangularSolve(l, add(phi, transposed(phi)), { lower: true, transpose: true });
    return [half(transposed(triangularSolve(l, transposed(left), { lower: true, transpose: true })))];
  },
  batch: same,
});
/** The lower triangular L with L L^T = a. */
export const choleskyLower = (a: Expr): Expr => lowerPart(choleskyOp([a], null));

interface Triangular {
  readonly lower: boolean;
  /** Solves with a^T. */
  readonly transpose?: boolean;
  /** The diagonal is taken as ones. */
  readonly unit?: boolean;
}
const triangularOp: (xs: [Expr, Expr], attrs: Triangular) => Expr = define<[Expr, Expr], Triangular>({
  name: 'triangularSolve',
  infer: ([, b]) => b,
  lower: (e, xs, { lower, transpose = false, unit = false }, out) =>
    e.op('triangular_solve', xs, [out], {
      left_side: 'true',
      lower: boolean(lower),
      unit_diagonal: boolean(unit),
      transpose_a: `#stablehlo<transpose ${transpose ? 'TRANSPOSE' : 'NO_TRANSPOSE'}>`,
    })[0]!,
  vjp: (g, [a], attrs, x) => {
    const { lower, transpose = false, unit = false } = attrs;
    const gb = triangularOp([a, g], { ...attrs, transpose: !transpose });
    const ga = transpose ? mm(x, transposed(gb)) : mm(gb, transposed(x));
    return [neg((lower ? lowerPart : upperPart)(ga, unit)), gb];
  },
  batch: same,
});
/** The x with a x = b, for a triangular a [..., n, n] (the other triangle is not looked at) and b [..., n, k]. */
export const triangularSolve = (a: Expr, b: Expr, attrs: Triangular): Expr => triangularOp([a, b], attrs);

// ---- QR

const qrOp = defineMulti<[Expr], { complete: boolean }>({
  name: 'qr',
  infer: ([a], { complete }) => {
    const [m, n] = a.shape.slice(-2) as [number, number];
    const [lead, k] = [a.shape.slice(0, -2), Math.min(m, n)];
    return [a.withShape([...lead, m, complete ? m : k]), a, a.withShape([...lead, k])];
  },
  lower: (e, [a], _, [q, packed, taus]) => {
    const [r, t] = call(e, 'Qr', [a], [packed!, taus!]) as [Ssa, Ssa];
    // The reflectors that make up Q: one for each column of Q, at most as many as a has.
    const given = input(packed!);
    const [have, want] = [packed!.shape.at(-1)!, q!.shape.at(-1)!];
    const cut = want > have ? padDim(given, packed!.rank - 1, 0, want - have) : columns(given, 0, want);
    const [reflectors] = emit(e, [cut], new Map([[given, r]]));
    const [made] = call(e, 'ProductOfElementaryHouseholderReflectors', [reflectors!, t], [q!]);
    return [made!, r, t];
  },
  vjp: ([gq, gPacked], [a], { complete }, [q, packed]) => {
    const [m, n] = [rowsOf(a), columnsOf(a)];
    if (complete && m > n) {
      throw new ArgumentError(
        `qr: the gradient of mode 'complete' is not determined for ${a.aval} (more rows than columns): use 'reduced'`,
      );
    }
    const k = Math.min(m, n);
    const r = upperPart(columns(rows(packed!, 0, k), 0, k));
    const gr = gPacked ? upperPart(rows(gPacked, 0, k)) : full([...a.shape.slice(0, -2), k, n], 0, a.dtype);
    const [gSquare, gRest] = [columns(gr, 0, k), columns(gr, k, n)];
    // Columns beyond the square ones are Q times theirs of R.
    const through = n > k ? mm(columns(a, k, n), transposed(gRest)) : zerosLike(q!);
    const gQ = gq ? add(gq, through) : through;
    const inner = sub(mm(r, transposed(gSquare)), mm(transposed(gQ), q!));
    const symmetric = add(lowerPart(inner), transposed(lowerPart(inner, true)));
    const sum = add(gQ, mm(q!, symmetric));
    const ga = transposed(triangularSolve(r, transposed(sum), { lower: false }));
    return [n > k ? concat([ga, mm(q!, gRest)], a.shape.length - 1) : ga];
  },
  batch: same,
});
/** Q with orthonormal columns, R upper triangular, R packed with the vectors of reflectors below it, and the factors of the reflectors that Q is the product of. */
export function qrParts(a: Expr, complete = false): { q: Expr; r: Expr; packed: Expr; taus: Expr } {
  const [q, packed, taus] = qrOp([a], { complete }) as [Expr, Expr, Expr];
  return { q, r: upperPart(rows(packed, 0, columnsOf(q))), packed, taus };
}

// ---- linear systems, by QR (StableHLO has no LU): stable without pivoting, at twice the work

/** Gradients flow to a; the computation uses its decomposition q r. */
const solveOp: (xs: [Expr, Expr, Expr, Expr], attrs: { transpose: boolean }) => Expr = define<
  [Expr, Expr, Expr, Expr],
  { transpose: boolean }
>({
  name: 'solve',
  infer: ([, b]) => b,
  lower: (e, [, b, q, r], { transpose }) => {
    const [B, Q, R] = [b, q, r].map((x) => input(e.typeOf(x))) as [Expr, Expr, Expr];
    const x = transpose
      ? mm(Q, triangularSolve(R, B, { lower: false, transpose }))
      : triangularSolve(R, mm(transposed(Q), B), { lower: false });
    return emit(
      e,
      [x],
      new Map([
        [B, b],
        [Q, q],
        [R, r],
      ]),
    )[0]!;
  },
  vjp: (g, [a, , q, r], { transpose }, x) => {
    const gb = solveOp([a, g, q, r], { transpose: !transpose });
    return [neg(transpose ? mm(x, transposed(gb)) : mm(gb, transposed(x))), gb, null, null];
  },
  batch: same,
});
/** The x with a x = b, for square a and b [..., n, k]. */
export function solveBy(a: Expr, b: Expr): Expr {
  const { q, r } = qrParts(a);
  return solveOp([a, b, q, r], { transpose: false });
}

// ---- eigenvalues of symmetric matrices

/**
 * By the same rotations as the singular values below, of a matrix moved so far that all eigenvalues are positive. (XLA's
 * custom call "Eigh" stops at the precision of f32 in f64 too.) The lower triangle is the matrix.
 */
export const symmetricEigen = defineMulti<[Expr]>({
  name: 'eigh',
  infer: ([a]) => [a, a.withShape(a.shape.slice(0, -1))],
  lower: (e, [x]) => {
    const given = input(e.typeOf(x));
    const a = add(lowerPart(given), transposed(lowerPart(given, true)));
    const matrix = [a.shape.length - 2, a.shape.length - 1] as const;
    const rowSums = reduceMax(reduceSum(abs(a), [matrix[1]]), [matrix[0]]);
    const bound = minimum(rowSums, sqrt(reduceSum(mul(a, a), matrix))); // no eigenvalue is larger
    const shift = asRows(where(eq(bound, 0), onesLike(bound), mul(bound, 1.1)));
    const moved = add(div(a, asRows(shift)), eyeLike(a));
    const { w, v } = orthogonalize(moved);
    const ascending = reverse(descending(lengthsOf(w)), [a.shape.length - 1]);
    const vectors = mm(v, ascending);
    // Rayleigh's quotients: the error of a vector counts squared.
    return emit(e, [vectors, reduceSum(mul(vectors, mm(a, vectors)), [a.shape.length - 2])], new Map([[given, x]]));
  },
  vjp: ([gv, gw], _, __, [v, w]) => {
    const vt = transposed(v!);
    const turns = gv ? div(mm(vt, gv), gaps(w!)) : null;
    const off = turns && where(isDiagonal(turns), zerosLike(turns), turns);
    const sizes = gw && diagonalMatrix(gw);
    const inner = off && sizes ? add(off, sizes) : (off ?? sizes)!;
    return [mm(mm(v!, inner), vt)];
  },
  batch: same,
});

// ---- singular values

/**
 * One-sided Jacobi (Hestenes): columns are turned in pairs until all are orthogonal; their lengths are
 * the singular values. Small ones keep their relative accuracy, which eigenvalues of a^T a would lose.
 */
export const svdReduced = defineMulti<[Expr]>({
  name: 'svd',
  infer: ([a]) => {
    const [m, n] = a.shape.slice(-2) as [number, number];
    const [lead, k] = [a.shape.slice(0, -2), Math.min(m, n)];
    return [a.withShape([...lead, m, k]), a.withShape([...lead, k]), a.withShape([...lead, n, k])];
  },
  lower: (e, [x]) => {
    const a = input(e.typeOf(x));
    const wide = columnsOf(a) > rowsOf(a);
    const { u, s, v } = jacobi(wide ? transposed(a) : a);
    return emit(e, wide ? [v, s, u] : [u, s, v], new Map([[a, x]]));
  },
  vjp: ([gu, gs, gv], [a], _, [u, s, v]) => {
    const [m, n, k] = [rowsOf(a), columnsOf(a), s!.shape.at(-1)!];
    const [ut, vt] = [transposed(u!), transposed(v!)];
    const between = gaps(mul(s!, s!));
    const parts = [
      gs && diagonalMatrix(gs),
      gu && mul(div(skew(mm(ut, gu)), between), asColumns(s!)),
      gv && mul(asRows(s!), div(skew(mm(vt, gv)), between)),
    ].filter((p) => p != null);
    const inside = mm(
      mm(
        u!,
        parts.reduce((p, q) => add(p, q)),
      ),
      vt,
    );
    // What leaves the space that the columns of u, or of v, span.
    const beyond = [
      gu && m > k ? mm(div(sub(gu, mm(u!, mm(ut, gu))), asColumns(s!)), vt) : null,
      gv && n > k ? mm(u!, transposed(div(sub(gv, mm(v!, mm(vt, gv))), asColumns(s!)))) : null,
    ].filter((p) => p != null);
    return [beyond.reduce((p, q) => add(p, q), inside)];
  },
  batch: same,
});

const SWEEPS = 30;
const EPSILON = { f32: 2 ** -23, f64: 2 ** -52 } as const;
export const epsilonOf = (x: Expr): number => EPSILON[x.dtype as 'f32'];

/** For a with no more columns than rows. */
function jacobi(a: Expr): { u: Expr; s: Expr; v: Expr } {
  const rank = a.shape.length;
  const largest = reduceMax(abs(a), [rank - 2, rank - 1]);
  const scale = asRows(where(eq(largest, 0), onesLike(largest), largest)); // squares neither overflow nor vanish
  const { w, v } = orthogonalize(div(a, asRows(scale)));
  const lengths = lengthsOf(w);
  const order = descending(lengths);
  const s = reshape(mm(asColumns(lengths), order), lengths.shape);
  // A QR returns orthonormal columns even for columns of length 0.
  const { q, r } = qrParts(mm(w, order));
  const d = diagonalOf(r);
  const u = mul(q, asColumns(where(lt(d, 0), neg(onesLike(d)), onesLike(d))));
  return { u, s: mul(s, scale), v: mm(v, order) };
}
const lengthsOf = (x: Expr): Expr => sqrt(reduceSum(mul(x, x), [x.shape.length - 2]));

/** The permutation matrix that sorts a vector, greatest first. */
function descending(v: Expr): Expr {
  const [mine, other] = [asRows(v), asColumns(v)];
  const square = broadcastTo(mine, [...v.shape, v.shape.at(-1)!]);
  const before = logicalOr(
    gt(other, mine),
    logicalAnd(
      eq(other, mine),
      mask(square, (i, j) => lt(j, i)),
    ),
  );
  const place = reduceSum(convert(before, 'i32'), [v.shape.length]);
  return convert(
    eq(asRows(place), broadcastInDim(iota([v.shape.at(-1)!], 0, 'i32'), square.shape, [v.shape.length])),
    v.dtype,
  );
}

/** Turns all pairs of columns, k at a time, until each pair is orthogonal in its first rows; a loop of XLA's. */
const orthogonalizeOp = define<[Expr, Expr], { rows: number }>({
  name: 'orthogonalize',
  infer: ([left]) => left.withShape([...left.shape.slice(0, -1), 2 * left.shape.at(-1)!]),
  lower: (e, [left, right], { rows: m }, out) => {
    const pair = e.typeOf(left);
    const [step, flag, number] = [Aval.of('i32', []), Aval.of('bool', []), Aval.of(out.dtype, [])];
    const types = [step, flag, number, pair, pair];
    const inputs = types.map((t) => input(t)) as [Expr, Expr, Expr, Expr, Expr];
    const start = emit(e, [full([], 0, 'i32'), full([], false, 'bool'), full([], 0, out.dtype)], new Map());
    const within = (roots: readonly Expr[]) =>
      e.region(types, (xs) => emit(e, roots, new Map(inputs.map((x, i) => [x, xs[i]!]))));
    const turns = 2 * pair.shape.at(-1)! - 1; // turns that bring all pairs together, and every column home
    const more = logicalAnd(lt(inputs[0], full([], SWEEPS * turns, 'i32')), eq(inputs[1], full([], false, 'bool')));
    const results = e.op('while', [...start, left, right], types, {}, [within([more]), within(turn(inputs, m, turns))]);
    return e.op('concatenate', results.slice(3), [out], { dimension: `${out.rank - 1} : i64` })[0]!;
  },
  batch: same,
});
/** w = a v with orthogonal columns, and v orthogonal. */
function orthogonalize(a: Expr): { w: Expr; v: Expr } {
  const [rank, m, n] = [a.shape.length, rowsOf(a), columnsOf(a)];
  const eye = eyeLike(full([...a.shape.slice(0, -2), n, n], 0, a.dtype));
  const k = Math.ceil(n / 2);
  const even = padDim(concat([a, eye], rank - 2), rank - 1, 0, 2 * k - n); // what happens to a happens to v
  const turned = columns(orthogonalizeOp([columns(even, 0, k), columns(even, k, 2 * k)], { rows: m }), 0, n);
  return { w: rows(turned, 0, m), v: rows(turned, m, m + n) };
}

function turn([step, , most, left, right]: readonly [Expr, Expr, Expr, Expr, Expr], m: number, turns: number): Expr[] {
  const [rank, k] = [left.shape.length, columnsOf(left)];
  const sum = (x: Expr, y: Expr) => reduceSum(mul(rows(x, 0, m), rows(y, 0, m)), [rank - 2]);
  const [a, b, c] = [sum(left, left), sum(right, right), sum(left, right)];
  const lengths = sqrt(mul(a, b));
  const cosine = where(eq(c, 0), zerosLike(c), div(abs(c), lengths));
  const orthogonal = logicalOr(eq(c, 0), le(cosine, epsilonOf(left)));
  const zeta = div(sub(b, a), mul(2, where(orthogonal, onesLike(c), c)));
  const size = div(1, add(abs(zeta), sqrt(add(mul(zeta, zeta), 1))));
  const tangent = where(orthogonal, zerosLike(c), where(lt(zeta, 0), neg(size), size));
  const cos = rsqrt(add(mul(tangent, tangent), 1));
  const [x, y] = [asColumns(cos), asColumns(mul(cos, tangent))];
  const [l, r] = [sub(mul(x, left), mul(y, right)), add(mul(y, left), mul(x, right))];
  // The first column stays; all others move on by one place: along the left, back along the right.
  const last = rank - 1;
  const nextLeft =
    k === 1 ? l : concat([columns(l, 0, 1), columns(r, 0, 1), ...(k > 2 ? [columns(l, 1, k - 1)] : [])], last);
  const nextRight = k === 1 ? r : concat([columns(r, 1, k), columns(l, k - 1, k)], last);
  const next = add(step, full([], 1, 'i32'));
  const largest = maximum(most, reduceMax(cosine));
  const sweepEnds = eq(fmod(next, full([], turns, 'i32')), 0);
  const done = logicalAnd(sweepEnds, le(largest, 2 * turns * epsilonOf(left)));
  return [next, done, where(sweepEnds, zerosLike(largest), largest), nextLeft, nextRight];
}
// ---- gradients of values that were made otherwise

/** The value of `inverse`, with the gradient that a pseudoinverse of a has (Golub and Pereyra), at constant rank. */
export const pseudoinverse = define<[Expr, Expr]>({
  name: 'pseudoinverse',
  infer: ([, inverse]) => inverse,
  lower: (_, [, inverse]) => inverse,
  vjp: (g, [a], _, p) => {
    const gt = transposed(g);
    const pt = transposed(p);
    // Of -P A' P + P P^T A'^T (I - A P) + (I - P A) A'^T P^T P.
    const one = neg(mm(mm(pt, g), pt));
    const outside = sub(gt, mm(a, mm(p, gt)));
    const two = mm(mm(outside, p), pt);
    const inside = sub(gt, mm(mm(gt, p), a));
    const three = mm(mm(pt, p), inside);
    return [add(one, add(two, three)), null];
  },
  batch: same,
});

// ---- expressions inside a lowering

/** Writes expressions with an emitter: a lowering, or a region, in the language of ops. */
function emit(e: Emitter, roots: readonly Expr[], given: ReadonlyMap<Expr, Ssa>): Ssa[] {
  const values = new Map<Expr, readonly Ssa[]>([...given].map(([x, name]) => [x, [name]]));
  for (const x of collect(roots, (y) => given.has(y)).nodes) {
    if (values.has(x)) continue;
    const inputs = x.inputs.map((y) => values.get(y)![0]!);
    const picked =
      x.op.name === 'pick' ? [values.get(x.inputs[0]!)![(x.attrs as { index: number }).index]!] : undefined;
    values.set(x, picked ?? x.op.lower(e, inputs, x));
  }
  return roots.map((r) => values.get(r)![0]!);
}
