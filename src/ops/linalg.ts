// Linear algebra on matrices [..., m, n], batched over leading dimensions. f32 and f64 only, as in torch. Singular and
// indefinite matrices are found only when the program runs, so nothing is thrown: results are infinite or NaN. Systems,
// inverses and determinants use QR (StableHLO has no LU).
import { checkWhole } from '../base/check.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { isFloat } from '../base/promote.js';
import { broadcastShapes, normalizeDim, range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { checkMatrix, eyes, isEmpty, leadOf, madeOf, reflected, singular } from './factors.js';
import { matmul } from './matmul.js';
import { isExpr, type Operand } from './prim/align.js';
import { broadcastTo, reduceSum } from './prim/broadcast.js';
import { full } from './prim/constant.js';
import {
  asColumns,
  asRows,
  choleskyLower,
  columnsOf,
  diagonalOf,
  epsilonOf,
  eyeLike,
  lowerPart,
  pseudoinverse,
  qrParts,
  rowsOf,
  solveBy,
  svdReduced,
  symmetricEigen,
  transposed,
  triangularSolve as triangular,
} from './prim/decompose.js';
import { typesOf } from './prim/define.js';
import { mmPrecise as mm } from './prim/dot.js';
import { takeFixed } from './prim/gather.js';
import { convert, reshape } from './prim/move.js';
import { abs, add, div, gt, log, lt, maximum, mul, ne, neg, sign, sub, where } from './prim/pointwise.js';
import { reduceMax } from './prim/reduce.js';
import { concat, sliceDim } from './prim/slice.js';
import { detach } from './prim/variable.js';

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
 * The cross product of vectors with 3 elements. Unlike torch.cross: along the last dimension by default, as
 * torch.linalg.cross.
 */
export function cross(a: Expr, b: Expr, { dim = -1 }: { readonly dim?: number } = {}): Expr {
  const shape = broadcastShapes('cross', a.shape, b.shape);
  const d = normalizeDim('cross', dim, shape.length);
  if (a.shape.length !== b.shape.length)
    throw new ShapeError(`cross: ${typesOf([a, b])} differ in the number of dimensions: unsqueeze one`);
  if (a.shape[d] !== 3 || b.shape[d] !== 3)
    throw new ShapeError(`cross: takes 3 elements in dim ${dim}, got ${typesOf([a, b])}`);
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
  if (n === 0) return where(full(x.shape, false, 'bool'), x, eyeLike(x)); // of slope 0, as in torch
  if (n === 1) return x;
  const root = matrixPower(x, Math.floor(n / 2));
  const square = matmul(root, root);
  return n % 2 ? matmul(square, x) : square;
}

/** The powers of each element, as rows: from N - 1 down to 0, or up with `increasing`. */
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

/** The lower triangular L with L L^T = x. Unlike torch: NaN instead of an error if x is not positive definite. */
export function cholesky(x: Expr, { upper = false }: { readonly upper?: boolean } = {}): Expr {
  checkSquare('cholesky', x);
  if (isEmpty(x)) return x;
  const l = choleskyLower(x);
  return upper ? transposed(l) : l;
}

/** The x with A x = b, given A's Cholesky factor. */
export function choleskySolve(b: Expr, factor: Expr, { upper = false }: { readonly upper?: boolean } = {}): Expr {
  checkSquare('choleskySolve', factor);
  const [l, c] = together('choleskySolve', factor, b);
  if (isEmpty(c)) return c;
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
  /** Whether the diagonal is assumed to be ones. Default: false. */
  readonly unitriangular?: boolean;
}
/** The x with A x = B, for a triangular A; the other triangle is not read. */
export function solveTriangular(
  a: Expr,
  b: Expr,
  { upper, left = true, unitriangular = false }: TriangularOptions,
): Expr {
  checkSquare('solveTriangular', a);
  if (!left) return transposed(solveTriangular(transposed(a), transposed(b), { upper: !upper, unitriangular }));
  const [A, B] = together('solveTriangular', a, b);
  if (isEmpty(B)) return B;
  return triangular(A, B, { lower: !upper, unit: unitriangular });
}
/** The same with torch's older arguments, the right side first. Also returns the matrix. */
export const triangularSolve = (
  b: Expr,
  a: Expr,
  {
    upper = true,
    transpose = false,
    unitriangular = false,
  }: { readonly upper?: boolean; readonly transpose?: boolean; readonly unitriangular?: boolean } = {},
): { readonly solution: Expr; readonly clonedCoefficient: Expr } => {
  const solution = transpose
    ? solveTriangular(transposed(a), b, { upper: !upper, unitriangular })
    : solveTriangular(a, b, { upper, unitriangular });
  return { solution, clonedCoefficient: broadcastTo(a, [...leadOf(solution), ...a.shape.slice(-2)]) };
};

// ---- systems, inverses, determinants

/**
 * The x with A x = B (or x A = B with `left: false`); B is a vector [n] or matrices [..., n, k]. Unlike torch: infinities or
 * NaN instead of an error if A is singular.
 */
export function solve(a: Expr, b: Expr, { left = true }: { readonly left?: boolean } = {}): Expr {
  checkSquare('solve', a);
  const vectors =
    b.shape.length === 1 || (b.shape.length === a.shape.length - 1 && String(b.shape) === String(a.shape.slice(0, -1)));
  if (vectors && left) return reshape(...droppingLast(solve(a, asRows(b))));
  if (!left) return transposed(solve(transposed(a), transposed(b)));
  const [A, B] = together('solve', a, b);
  return isEmpty(B) ? add(B, madeOf(A, B.shape)) : solveBy(A, B);
}
const droppingLast = (x: Expr): [Expr, readonly number[]] => [x, x.shape.slice(0, -1)];

/** The inverse. Unlike torch: infinities or NaN instead of an error if x is singular. */
export function inv(x: Expr): Expr {
  checkSquare('inv', x);
  if (isEmpty(x)) return x;
  return solveBy(x, eyeLike(x));
}

/** The logarithm of the absolute value of the determinant, and its sign. */
export function slogdet(x: Expr): { readonly sign: Expr; readonly logabsdet: Expr } {
  checkSquare('slogdet', x);
  if (isEmpty(x)) return { sign: madeOf(x, leadOf(x), 1), logabsdet: madeOf(x, leadOf(x)) };
  const { diagonal, turned } = determinantParts(x);
  return {
    sign: mul(product(sign(diagonal)), turned), // of slope 0
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
  if (isEmpty(x)) return madeOf(x, leadOf(x), 1);
  const { diagonal, turned } = determinantParts(x);
  return mul(product(diagonal), turned);
}
/** The diagonal of R, and the determinant of Q: each nontrivial reflection contributes -1. */
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
 * LAPACK's form of x = Q R: R on and above the diagonal, below it the vectors of the reflections whose product Q is, and
 * their factors. ormqr and householderProduct take them. It has no gradient, as in torch: use qr.
 */
export function geqrf(x: Expr): { readonly a: Expr; readonly tau: Expr } {
  checkMatrix('geqrf', x);
  if (isEmpty(x)) return { a: x, tau: madeOf(x, [...leadOf(x), Math.min(rowsOf(x), columnsOf(x))]) };
  const { packed, taus } = qrParts(detach(x));
  return { a: packed, tau: taus };
}
/** The product of Q and other, for the Q of reflections that geqrf gives; with `transpose` of Q^T; other Q without `left`. */
export function ormqr(
  x: Expr,
  tau: Expr,
  other: Expr,
  { left = true, transpose = false }: { readonly left?: boolean; readonly transpose?: boolean } = {},
): Expr {
  checkMatrix('ormqr', x);
  checkMatrix('ormqr', other);
  if (!left) return transposed(ormqr(x, tau, transposed(other), { transpose: !transpose }));
  const [m, k] = [rowsOf(other), tau.shape.at(-1)];
  if (rowsOf(x) !== m || k !== Math.min(m, columnsOf(x)))
    throw new ShapeError(
      `ormqr: takes [..., m, k], [..., k] and other of m rows (with left: false of m columns), got ${typesOf([x, tau, other])}`,
    );
  return isEmpty(other) ? other : reflected(x, tau, other, transpose);
}

/**
 * x = Q R, with orthonormal columns of Q; 'complete' makes Q square, 'r' makes only R. Unlike torch: signs of Q's
 * columns and R's rows may differ.
 */
export function qr(
  x: Expr,
  { mode = 'reduced' }: { readonly mode?: 'reduced' | 'complete' | 'r' } = {},
): { readonly Q: Expr; readonly R: Expr } {
  checkMatrix('qr', x);
  if (isEmpty(x)) {
    const [m, k] = [rowsOf(x), mode === 'complete' ? rowsOf(x) : Math.min(rowsOf(x), columnsOf(x))];
    const Q = mode === 'complete' ? eyes(x, leadOf(x), m) : madeOf(x, mode === 'r' ? [0] : [...leadOf(x), m, k]);
    return { Q, R: madeOf(x, [...leadOf(x), k, columnsOf(x)]) };
  }
  const { q, r } = qrParts(x, mode === 'complete');
  return { Q: mode === 'r' ? full([0], 0, x.dtype) : q, R: r };
}

/**
 * Eigenvalues of symmetric matrices in ascending order, and eigenvectors as columns (their signs are not determined).
 * Only the lower triangle is read, or the upper one with UPLO 'U'. Precise to some units in the last place of the
 * matrix's norm.
 */
export function eigh(
  x: Expr,
  { UPLO = 'L' }: { readonly UPLO?: 'L' | 'U' } = {},
): { readonly eigenvalues: Expr; readonly eigenvectors: Expr } {
  checkSquare('eigh', x);
  if (isEmpty(x)) return { eigenvalues: madeOf(x, x.shape.slice(0, -1)), eigenvectors: x };
  const [eigenvectors, eigenvalues] = symmetricEigen([UPLO === 'U' ? transposed(x) : x], null) as [Expr, Expr];
  return { eigenvalues, eigenvectors };
}
export const eigvalsh = (x: Expr, options: { readonly UPLO?: 'L' | 'U' } = {}): Expr => eigh(x, options).eigenvalues;

export const svdvals = (x: Expr): Expr => singular('svdvals', x, false).S;

export interface SvdOptions {
  /** Whether to return only as many vectors as singular values; otherwise U and V are square. Default: true. */
  readonly some?: boolean;
  /** false returns zeros for U and V. Default: true. */
  readonly computeUv?: boolean;
}
/** x = U diag(S) V^T, as torch.svd: V is not transposed, and by default U and V are reduced. linalg.svd gives Vh. */
export function svd(
  x: Expr,
  { some = true, computeUv = true }: SvdOptions = {},
): { readonly U: Expr; readonly S: Expr; readonly V: Expr } {
  const { U, S, Vh } = singular('svd', x, !some && computeUv);
  if (computeUv) return { U, S, V: transposed(Vh) };
  const zeros = (n: number) => full([...leadOf(x), n, n], 0, x.dtype);
  return { U: zeros(rowsOf(x)), S, V: zeros(columnsOf(x)) };
}

export interface RankOptions {
  /** Singular values up to this, and up to this much of the largest one, count as 0. */
  readonly atol?: Operand;
  readonly rtol?: Operand;
  /** Whether x is symmetric: only its lower triangle is read. Default: false. */
  readonly hermitian?: boolean;
}
const symmetric = (x: Expr, hermitian: boolean): Expr =>
  hermitian ? add(lowerPart(x), transposed(lowerPart(x, true))) : x;
/** Which singular values count. */
function above(x: Expr, s: Expr, { atol, rtol }: RankOptions): Expr {
  const least = atol ?? 0;
  const usual = epsilonOf(x) * Math.max(rowsOf(x), columnsOf(x));
  const share =
    rtol ?? (isExpr(least) ? where(gt(least, 0), 0, full([], usual, x.dtype)) : Number(least) > 0 ? 0 : usual);
  const largest = reduceMax(s, [s.shape.length - 1]);
  const limits = [mul(largest, share), least].map((l) => (isExpr(l) ? convert(l, s.dtype) : full([], l, s.dtype)));
  return gt(s, asRows(broadcastTo(maximum(limits[0]!, limits[1]!), largest.shape)));
}
/** The Moore-Penrose inverse. */
export function pinv(x: Expr, options: RankOptions = {}): Expr {
  checkMatrix('pinv', x);
  if (isEmpty(x)) return madeOf(x, [...leadOf(x), columnsOf(x), rowsOf(x)]);
  const y = symmetric(x, options.hermitian ?? false);
  const [u, s, v] = svdReduced([detach(y)], null) as [Expr, Expr, Expr];
  const kept = above(y, s, options);
  const reciprocal = where(kept, div(1, where(kept, s, 1)), 0);
  return pseudoinverse([x, mm(mul(v, asColumns(reciprocal)), transposed(u))], null);
}
/** The number of singular values that are not 0. */
export function matrixRank(x: Expr, options: RankOptions = {}): Expr {
  checkMatrix('matrixRank', x);
  if (isEmpty(x)) return full(leadOf(x), 0, 'i64');
  const y = symmetric(x, options.hermitian ?? false);
  const s = svdvals(y);
  return reduceSum(convert(above(y, s, options), 'i64'), [s.shape.length - 1]);
}
/** The sum of the singular values. */
export const nuclearNorm = (x: Expr): Expr => reduceSum(svdvals(x), [x.shape.length - 2]);
/** The largest singular value: torch.linalg.matrix_norm(x, 2). */
export const spectralNorm = (x: Expr): Expr => reduceMax(svdvals(x), [x.shape.length - 2]);

export interface LstsqOptions {
  /** Singular values up to this fraction of the largest count as 0, for drivers that use them. */
  readonly rcond?: number;
  /** LAPACK's drivers: 'gels' needs an A of full rank; the others take any A and return the shortest solution. */
  readonly driver?: 'gels' | 'gelsy' | 'gelsd' | 'gelss';
}
/**
 * The x with the least |A x - B|, the shortest if there are several; the squared residuals, if there are more rows than
 * columns and the driver is not 'gelsy'; the rank and the singular values, if the driver computes them. Unlike torch: A must have full rank, unless a driver is given.
 */
export function lstsq(
  a: Expr,
  b: Expr,
  { rcond, driver = 'gels' }: LstsqOptions = {},
): { readonly solution: Expr; readonly residuals: Expr; readonly rank: Expr; readonly singularValues: Expr } {
  checkMatrix('lstsq', a);
  const [A, B] = together('lstsq', a, b);
  const [m, n] = [rowsOf(a), columnsOf(a)];
  const options = rcond === undefined ? {} : { rtol: rcond };
  const solution = isEmpty(A)
    ? madeOf(B, [...leadOf(B), n, columnsOf(B)])
    : driver !== 'gels'
      ? mm(pinv(A, options), B)
      : m >= n
        ? byRows(A, B)
        : byColumns(A, B);
  const rest = sub(mm(A, solution), B);
  return {
    solution,
    residuals:
      m > n && driver !== 'gelsy' ? reduceSum(mul(rest, rest), [rest.shape.length - 2]) : full([0], 0, a.dtype),
    rank: driver === 'gels' ? full([0], 0, 'i64') : matrixRank(detach(a), options),
    singularValues: driver === 'gelsd' || driver === 'gelss' ? detach(svdvals(a)) : full([0], 0, a.dtype),
  };
}
const byRows = (A: Expr, B: Expr): Expr => {
  const { q, r } = qrParts(A);
  return triangular(r, mm(transposed(q), B), { lower: false });
};
const byColumns = (A: Expr, B: Expr): Expr => {
  const { q, r } = qrParts(transposed(A));
  return mm(q, triangular(r, B, { lower: false, transpose: true }));
};
