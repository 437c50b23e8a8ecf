// Linear algebra on matrices [..., m, n], batched over leading dimensions. f32 and f64 only, as in torch. Only running
// the program shows whether a matrix is singular or indefinite, so nothing is thrown; the results hold infinities or
// NaN. Systems, inverses and determinants go by QR (StableHLO has no LU).
import { checkWhole } from '../base/check.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { broadcastShapes, normalizeDim, range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { matmul } from './matmul.js';
import { broadcastTo, reduceSum } from './prim/broadcast.js';
import { full } from './prim/constant.js';
import {
  asColumns,
  asRows,
  choleskyLower,
  columns,
  columnsOf,
  diagonalOf,
  epsilonOf,
  eyeLike,
  pseudoinverse,
  qrParts,
  rowsOf,
  solveBy,
  svdReduced,
  symmetricEigen,
  transposed,
  triangularSolve as triangular,
} from './prim/decompose.js';
import { checkDType, typesOf } from './prim/define.js';
import { mmPrecise as mm } from './prim/dot.js';
import { takeFixed } from './prim/gather.js';
import { convert, reshape } from './prim/move.js';
import { abs, div, gt, log, lt, maximum, mul, ne, neg, sign, sub, where } from './prim/pointwise.js';
import { reduceMax } from './prim/reduce.js';
import { concat, sliceDim } from './prim/slice.js';
import { detach } from './prim/variable.js';

function checkMatrix(op: string, x: Expr): void {
  checkDType(op, [x.aval], (d) => d === 'f32' || d === 'f64', 'f32 or f64 (convert others first)');
  if (x.shape.length < 2) throw new ShapeError(`${op}: takes matrices [..., m, n], got ${x.aval}`);
  if (x.aval.size === 0) throw new ShapeError(`${op}: ${x.aval} is empty: there is nothing to decompose`);
}
function checkSquare(op: string, x: Expr): void {
  checkMatrix(op, x);
  if (rowsOf(x) !== columnsOf(x)) throw new ShapeError(`${op}: takes square matrices [..., n, n], got ${x.aval}`);
}
/** Two operands whose leading dimensions meet, and whose numbers of rows are equal. */
function together(op: string, a: Expr, b: Expr): [Expr, Expr] {
  checkMatrix(op, b);
  if (a.dtype !== b.dtype) throw new ArgumentError(`${op}: dtypes of ${typesOf([a, b])} differ: convert one first`);
  if (rowsOf(a) !== rowsOf(b))
    throw new ShapeError(`${op}: ${typesOf([a, b])}: ${rowsOf(a)} and ${rowsOf(b)} rows differ`);
  const lead = broadcastShapes(op, a.shape.slice(0, -2), b.shape.slice(0, -2));
  const stretch = (x: Expr) => broadcastTo(x, [...lead, ...x.shape.slice(-2)]);
  return [stretch(a), stretch(b)];
}

// ---- products and powers

/**
 * The vector at right angles to two vectors of 3 elements each. Unlike torch.cross: along the last dimension
 * unless told, as torch.linalg.cross.
 */
export function cross(a: Expr, b: Expr, { dim = -1 }: { readonly dim?: number } = {}): Expr {
  const shape = broadcastShapes('cross', a.shape, b.shape);
  const d = normalizeDim('cross', dim, shape.length);
  if (shape[d] !== 3) throw new ShapeError(`cross: takes 3 elements in dim ${dim}, got ${typesOf([a, b])}`);
  const [x, y] = [broadcastTo(a, shape), broadcastTo(b, shape)];
  const [next, after] = [
    [1, 2, 0],
    [2, 0, 1],
  ];
  return sub(mul(takeFixed(x, d, next), takeFixed(y, d, after)), mul(takeFixed(x, d, after), takeFixed(y, d, next)));
}

/** The matrix times itself, n times; negative: its inverse. */
export function matrixPower(x: Expr, n: number): Expr {
  if (!Number.isInteger(n)) throw new ArgumentError(`matrixPower: ${n} is not a whole number`);
  if (x.shape.length < 2 || rowsOf(x) !== columnsOf(x))
    throw new ShapeError(`matrixPower: takes square matrices [..., n, n], got ${x.aval}`);
  if (n < 0) return matrixPower(inv(x), -n);
  if (n === 0) return eyeLike(x);
  if (n === 1) return x;
  const root = matrixPower(x, Math.floor(n / 2));
  const square = matmul(root, root);
  return n % 2 ? matmul(square, x) : square;
}

/**
 * The powers of each element, as rows: from N - 1 down to 0, or up with `increasing`. Unlike
 * torch.linalg.vander: down unless told, as torch.vander.
 */
export function vander(
  x: Expr,
  { N = x.shape.at(-1) ?? 0, increasing = false }: { readonly N?: number; readonly increasing?: boolean } = {},
): Expr {
  checkWhole('vander: N', N);
  if (!x.shape.length) throw new ShapeError(`vander: takes vectors [..., n], got ${x.aval}`);
  const y = isFloat(x.dtype) ? x : convert(x, 'i64');
  const powers = range(N - 1).reduce<Expr[]>(
    (list) => [...list, list.length > 1 ? mul(list.at(-1)!, y) : y],
    [full(y.shape, 1, y.dtype)],
  );
  return N
    ? concat((increasing ? powers : powers.reverse()).map(asRows), y.shape.length)
    : full([...y.shape, 0], 0, y.dtype);
}

// ---- Cholesky and triangular systems

/** The lower triangular L with L L^T = x. Unlike torch: NaN, and no error, if x is not positive definite. */
export function cholesky(x: Expr, { upper = false }: { readonly upper?: boolean } = {}): Expr {
  checkSquare('cholesky', x);
  const l = choleskyLower(x);
  return upper ? transposed(l) : l;
}

/** The x with A x = b, given A's Cholesky factor. */
export function choleskySolve(b: Expr, factor: Expr, { upper = false }: { readonly upper?: boolean } = {}): Expr {
  checkSquare('choleskySolve', factor);
  const [l, c] = together('choleskySolve', factor, b);
  const y = triangular(l, c, { lower: !upper, transpose: upper });
  return triangular(l, y, { lower: !upper, transpose: !upper });
}
/** The inverse of A, given its Cholesky factor. */
export const choleskyInverse = (factor: Expr, options: { readonly upper?: boolean } = {}): Expr => {
  checkSquare('choleskyInverse', factor);
  return choleskySolve(eyeLike(factor), factor, options);
};

export interface TriangularOptions {
  readonly upper: boolean;
  /** false: solves x A = B. */
  readonly left?: boolean;
  /** The diagonal is taken as ones. */
  readonly unitriangular?: boolean;
}
/** The x with A x = B, for a triangular A; the other triangle is not looked at. */
export function solveTriangular(
  a: Expr,
  b: Expr,
  { upper, left = true, unitriangular = false }: TriangularOptions,
): Expr {
  checkSquare('solveTriangular', a);
  if (!left) return transposed(solveTriangular(transposed(a), transposed(b), { upper: !upper, unitriangular }));
  const [A, B] = together('solveTriangular', a, b);
  return triangular(A, B, { lower: !upper, unit: unitriangular });
}
/**
 * The same with torch's older arguments: the right side first. Unlike torch: the solution alone, without a copy of A.
 */
export const triangularSolve = (
  b: Expr,
  a: Expr,
  {
    upper = true,
    transpose = false,
    unitriangular = false,
  }: { readonly upper?: boolean; readonly transpose?: boolean; readonly unitriangular?: boolean } = {},
): Expr =>
  transpose
    ? solveTriangular(transposed(a), b, { upper: !upper, unitriangular })
    : solveTriangular(a, b, { upper, unitriangular });

// ---- systems, inverses, determinants

/**
 * The x with A x = B (or x A = B with `left: false`); B is a vector [n], or matrices [..., n, k]. Unlike torch:
 * infinities or NaN, and no error, if A is singular.
 */
export function solve(a: Expr, b: Expr, { left = true }: { readonly left?: boolean } = {}): Expr {
  checkSquare('solve', a);
  const vectors =
    b.shape.length === 1 || (b.shape.length === a.shape.length - 1 && String(b.shape) === String(a.shape.slice(0, -1)));
  if (vectors && left) return reshape(...droppingLast(solve(a, asRows(b))));
  if (!left) return transposed(solve(transposed(a), transposed(b)));
  return solveBy(...together('solve', a, b));
}
const droppingLast = (x: Expr): [Expr, readonly number[]] => [x, x.shape.slice(0, -1)];

/** The inverse. Unlike torch: infinities or NaN, and no error, if x is singular. */
export function inv(x: Expr): Expr {
  checkSquare('inv', x);
  return solveBy(x, eyeLike(x));
}

/** The logarithm of the absolute value of the determinant, and its sign. */
export function slogdet(x: Expr): { readonly sign: Expr; readonly logabsdet: Expr } {
  checkSquare('slogdet', x);
  const { diagonal, turned } = determinantParts(x);
  return {
    sign: mul(detach(product(sign(diagonal))), turned),
    logabsdet: reduceSum(log(abs(diagonal)), [x.shape.length - 2]),
  };
}
/** NaN where the determinant is negative. */
export function logdet(x: Expr): Expr {
  checkSquare('logdet', x);
  const { sign: s, logabsdet } = slogdet(x);
  return where(lt(s, 0), Number.NaN, logabsdet);
}
/** The determinant. Unlike torch: its gradient is NaN where it is 0. */
export function det(x: Expr): Expr {
  checkSquare('det', x);
  const { diagonal, turned } = determinantParts(x);
  return mul(product(diagonal), turned);
}
/** R's diagonal, and the determinant of Q: each reflection that is one turns space inside out. */
function determinantParts(x: Expr): { diagonal: Expr; turned: Expr } {
  const { r, taus } = qrParts(x);
  const one = full(taus.shape, 1, taus.dtype);
  return { diagonal: diagonalOf(r), turned: detach(product(where(ne(taus, 0), neg(one), one))) };
}
/** The product over the last dimension, halving it: its gradient needs no division. */
function product(x: Expr): Expr {
  const [d, n] = [x.shape.length - 1, x.shape.at(-1)!];
  if (n === 1) return reshape(x, x.shape.slice(0, -1));
  const k = Math.floor(n / 2);
  const halves = mul(sliceDim(x, d, 0, k), sliceDim(x, d, k, 2 * k));
  return product(n % 2 ? concat([halves, sliceDim(x, d, 2 * k, n)], d) : halves);
}

// ---- orthogonal decompositions

/**
 * x = Q R, with orthonormal columns of Q; 'complete' makes Q square, 'r' makes only R. Unlike torch: signs of Q's
 * columns and R's rows may differ.
 */
export function qr(
  x: Expr,
  { mode = 'reduced' }: { readonly mode?: 'reduced' | 'complete' | 'r' } = {},
): { readonly Q: Expr; readonly R: Expr } {
  checkMatrix('qr', x);
  const { q, r } = qrParts(x, mode === 'complete');
  return { Q: mode === 'r' ? full([0], 0, x.dtype) : q, R: r };
}

/**
 * Eigenvalues of symmetric matrices in ascending order, and eigenvectors as columns (their signs are not determined).
 * Only the lower triangle is looked at, or the upper one with UPLO 'U'. Precise to some units in the last place of the
 * matrix's norm.
 */
export function eigh(
  x: Expr,
  { UPLO = 'L' }: { readonly UPLO?: 'L' | 'U' } = {},
): { readonly eigenvalues: Expr; readonly eigenvectors: Expr } {
  checkSquare('eigh', x);
  const [eigenvectors, eigenvalues] = symmetricEigen([UPLO === 'U' ? transposed(x) : x], null) as [Expr, Expr];
  return { eigenvalues, eigenvectors };
}
export const eigvalsh = (x: Expr, options: { readonly UPLO?: 'L' | 'U' } = {}): Expr => eigh(x, options).eigenvalues;

/**
 * x = U diag(S) Vh, singular values in descending order; signs of the vectors are not determined. By one-sided Jacobi:
 * precise to a few units in the last place of the largest. With `fullMatrices` U and Vh are square; the vectors that
 * adds have no gradient. Unlike torch.svd: gives Vh, and whole matrices unless told, as torch.linalg.svd.
 */
export function svd(
  x: Expr,
  { fullMatrices = true }: { readonly fullMatrices?: boolean } = {},
): { readonly U: Expr; readonly S: Expr; readonly Vh: Expr } {
  checkMatrix('svd', x);
  const [u, s, v] = svdReduced([x], null) as [Expr, Expr, Expr];
  const whole = (y: Expr): Expr => {
    const [m, k] = [rowsOf(y), columnsOf(y)];
    return !fullMatrices || m === k
      ? y
      : concat([y, detach(columns(qrParts(detach(y), true).q, k, m))], y.shape.length - 1);
  };
  return { U: whole(u), S: s, Vh: transposed(whole(v)) };
}
export const svdvals = (x: Expr): Expr => svd(x, { fullMatrices: false }).S;

export interface RankOptions {
  /** Singular values up to this, and up to this much of the largest one, count as 0. */
  readonly atol?: number;
  readonly rtol?: number;
}
function above(
  x: Expr,
  s: Expr,
  { atol = 0, rtol = atol > 0 ? 0 : epsilonOf(x) * Math.max(rowsOf(x), columnsOf(x)) }: RankOptions,
): Expr {
  const largest = reduceMax(s, [s.shape.length - 1]);
  const limit = mul(largest, rtol);
  return gt(s, asRows(maximum(limit, full(limit.shape, atol, limit.dtype))));
}
/** The Moore-Penrose inverse. */
export function pinv(x: Expr, options: RankOptions = {}): Expr {
  checkMatrix('pinv', x);
  const [u, s, v] = svdReduced([detach(x)], null) as [Expr, Expr, Expr];
  const kept = above(x, s, options);
  const reciprocal = where(kept, div(1, where(kept, s, 1)), 0);
  return pseudoinverse([x, mm(mul(v, asColumns(reciprocal)), transposed(u))], null);
}
export function matrixRank(x: Expr, options: RankOptions = {}): Expr {
  checkMatrix('matrixRank', x);
  const s = svdvals(x);
  return reduceSum(convert(above(x, s, options), 'i64'), [s.shape.length - 1]);
}
/** The sum of the singular values. */
export const nuclearNorm = (x: Expr): Expr => reduceSum(svdvals(x), [x.shape.length - 2]);
/** The largest singular value: torch.linalg.matrix_norm(x, 2). */
export const spectralNorm = (x: Expr): Expr => reduceMax(svdvals(x), [x.shape.length - 2]);

/**
 * The x with the least |A x - B|, and of several the shortest. Unlike torch: A must have full rank, and the solution is
 * all there is.
 */
export function lstsq(a: Expr, b: Expr): { readonly solution: Expr } {
  checkMatrix('lstsq', a);
  const [A, B] = together('lstsq', a, b);
  if (rowsOf(a) >= columnsOf(a)) {
    const { q, r } = qrParts(A);
    return { solution: triangular(r, mm(transposed(q), B), { lower: false }) };
  }
  const { q, r } = qrParts(transposed(A));
  return { solution: mm(q, triangular(r, B, { lower: false, transpose: true })) };
}
