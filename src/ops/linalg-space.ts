// torch.linalg: functions that torch has only there, or that have other defaults there. tensor/linalg.ts lists the others.
import type { DType } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { normalizeDims, range, type Shape, showShape } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { reflected, singular } from './factors.js';
import { cholesky, inv, solve, svdvals, vander as vanderDown } from './linalg.js';
import { factored, infoOf, lowerOf, type Packed, permutation, turnedSolve, upperOf } from './lu.js';
import { matmul } from './matmul.js';
import { diagonal as diagonalOf } from './parts.js';
import { floating, inWide, resultType } from './prim/align.js';
import { broadcastTo, reduceSum } from './prim/broadcast.js';
import { full } from './prim/constant.js';
import { columns, columnsOf, eyeLike, rowsOf } from './prim/decompose.js';
import { typesOf } from './prim/define.js';
import { convert, permute, reshape } from './prim/move.js';
import { abs, add, ceil, div, gt, isfinite, log, logicalNot, maximum, minimum, mul, where } from './prim/pointwise.js';
import { pow } from './prim/power.js';
import { reduceMax, reduceMin, reduceOr } from './prim/reduce.js';
import { detach } from './prim/variable.js';
import { vectorNorm as lengths } from './reduction.js';

// ---- norms

type MatrixOrder = 'fro' | 'nuc' | number;
export interface NormOptions {
  /** For vectors any number or infinity (default: 2); for matrices 'fro', 'nuc', 1, 2, Infinity, or the negative of one. */
  readonly ord?: MatrixOrder;
  readonly dim?: number | Shape;
  readonly keepdim?: boolean;
  readonly dtype?: DType;
}
const typed = (x: Expr, dtype: DType | undefined): Expr => (dtype ? convert(x, dtype) : floating(x));

/** (sum of |x|^ord)^(1/ord) over some dimensions or all; ord may be any number, or an infinity. */
export function vectorNorm(
  x: Expr,
  { ord = 2, dim, keepdim = false, dtype }: Omit<NormOptions, 'ord'> & { readonly ord?: number } = {},
): Expr {
  return lengths(typed(x, dtype), { p: ord, keepdim, ...(dim !== undefined && { dim }) });
}
/** The matrix norm: 'fro', 'nuc', 1 (columns), 2 (singular values) or Infinity (rows); a negative ord takes the minimum. */
export function matrixNorm(
  x: Expr,
  { ord = 'fro', dim = [-2, -1], keepdim = false, dtype }: Omit<NormOptions, 'dim'> & { readonly dim?: Shape } = {},
): Expr {
  const dims = normalizeDims('linalg.matrixNorm', dim, x.shape.length) as [number, number];
  if (x.shape.length < 2 || dims.length !== 2)
    throw new ShapeError(
      `linalg.matrixNorm: takes matrices and their two dimensions, got ${x.aval} and ${showShape(dim)}`,
    );
  if (ord === 'fro') return vectorNorm(x, { dim, keepdim, ...(dtype && { dtype }) });
  if (ord !== 'nuc' && ![1, 2, Number.POSITIVE_INFINITY].includes(Math.abs(ord)))
    throw new ArgumentError(
      `linalg.matrixNorm: ord is ${ord}: use 'fro', 'nuc', 1, 2, Infinity, or the negative of one`,
    );
  const rest = range(x.shape.length).filter((d) => !dims.includes(d));
  const y = permute(typed(x, dtype), [...rest, ...dims]);
  const found = inWide(y, (w) => matrixNormOf(w, ord));
  return keepdim
    ? reshape(
        found,
        x.shape.map((n, d) => (dims.includes(d) ? 1 : n)),
      )
    : found;
}
function matrixNormOf(x: Expr, ord: 'nuc' | number): Expr {
  const last = x.shape.length - 1;
  if (ord === 'nuc' || Math.abs(ord) === 2) {
    const s = svdvals(x);
    if (ord === 'nuc') return reduceSum(s, [last - 1]);
    return extreme(s, ord > 0, last - 1);
  }
  const along = Math.abs(ord) === 1 ? last - 1 : last; // summed
  return extreme(reduceSum(abs(x), [along]), ord > 0, last - 1);
}
const extreme = (x: Expr, largest: boolean, dim: number): Expr => {
  if (!x.shape[dim])
    throw new ShapeError(`linalg.norm: ${x.aval} has no elements along dim ${dim}: this norm is undefined`);
  return (largest ? reduceMax : reduceMin)(x, [dim]);
};
/** The vector norm along one dimension, the matrix norm along two. Default: all elements as one vector. */
export function norm(x: Expr, { ord, dim, keepdim = false, dtype }: NormOptions = {}): Expr {
  const dims = dim === undefined ? undefined : ([dim].flat() as number[]);
  const matrices = dims ? dims.length === 2 : x.shape.length === 2;
  const shared = { keepdim, ...(dtype && { dtype }) };
  if (ord !== undefined && (matrices || typeof ord === 'string')) {
    if (!dims && x.shape.length !== 2)
      throw new ShapeError(`linalg.norm: ord ${ord} is for matrices, got ${x.aval}: give their two dimensions as dim`);
    return matrixNorm(x, { ord, ...shared, ...(dims && { dim: dims }) });
  }
  if (ord !== undefined && !dims && x.shape.length > 2)
    throw new ShapeError(`linalg.norm: ${x.aval} with ord ${ord}: give one dimension for vectors, or two for matrices`);
  return vectorNorm(x, { ...shared, ...(dims && { dim: dims }), ...(ord !== undefined && { ord: ord as number }) });
}
/** The condition number: from singular values, or with p from the matrixNorm of the matrix and its inverse. */
export function cond(x: Expr, { p }: { readonly p?: MatrixOrder } = {}): Expr {
  if (p === undefined || p === 2 || p === -2) {
    const s = svdvals(x);
    const last = s.shape.length - 1;
    const [most, least] = [reduceMax(s, [last]), reduceMin(s, [last])];
    return p === -2 ? div(least, most) : div(most, least);
  }
  return mul(matrixNorm(x, { ord: p }), matrixNorm(inv(x), { ord: p }));
}

// ---- products and parts

/** The product of vectors along a dimension, after broadcasting. */
export function vecdot(x: Expr, y: Expr, { dim = -1 }: { readonly dim?: number } = {}): Expr {
  const dtype = resultType(x, y);
  const product = mul(convert(x, dtype), convert(y, dtype));
  if (!product.shape.length) throw new ShapeError(`linalg.vecdot: takes vectors, got ${typesOf([x, y])}`);
  return reduceSum(product, normalizeDims('linalg.vecdot', dim, product.shape.length));
}
/** The diagonals of matrices: of the last two dimensions. */
export const diagonal = (
  x: Expr,
  {
    offset = 0,
    dim1 = -2,
    dim2 = -1,
  }: { readonly offset?: number; readonly dim1?: number; readonly dim2?: number } = {},
): Expr => diagonalOf(x, { offset, dim1, dim2 });
/** The powers of each element, from 0 up to N - 1. */
export const vander = (x: Expr, { N }: { readonly N?: number } = {}): Expr =>
  vanderDown(x, { increasing: true, ...(N !== undefined && { N }) });
/** The matrix exponential, by scaling, Taylor's series, and squaring. */
export function matrixExp(x: Expr): Expr {
  if (x.shape.length < 2 || rowsOf(x) !== columnsOf(x))
    throw new ShapeError(`linalg.matrixExp: takes square matrices [..., n, n], got ${x.aval}`);
  if (!x.aval.size) return x;
  return inWide(floating(x), (y) => {
    const last = y.shape.length - 1;
    const size = reduceMax(reduceSum(abs(detach(y)), [last]), [last - 1]);
    const halvings = maximum(ceil(div(log(maximum(size, 1e-30)), Math.LN2)), 0); // down to a norm of 1
    const each = (v: Expr) => broadcastTo(reshape(v, [...v.shape, 1, 1]), y.shape);
    const small = mul(y, each(pow(0.5, minimum(halvings, MOST_HALVINGS))));
    let sum = eyeLike(y);
    for (let k = 18; k >= 1; k--) sum = add(eyeLike(y), div(matmul(small, sum), k));
    for (let k = 0; k < MOST_HALVINGS; k++) sum = where(each(gt(halvings, k)), matmul(sum, sum), sum);
    return sum;
  });
}
const MOST_HALVINGS = 12; // a norm of 4,096: its exponential overflows long before

/** The first columns of the product of reflections I - tau v v^T, whose vectors are below the diagonal of the columns of x. */
export function householderProduct(x: Expr, tau: Expr): Expr {
  const [m, n, k] = [rowsOf(x), columnsOf(x), tau.shape.at(-1)!];
  if (x.shape.length < 2 || m < n || k > n)
    throw new ShapeError(
      `linalg.householderProduct: takes [..., m, n] with m >= n, and [..., k] with k <= n, got ${typesOf([x, tau])}`,
    );
  if (!x.aval.size) return x;
  return reflected(x, tau, broadcastTo(columns(eyeLike(full([m, m], 0, x.dtype)), 0, n), x.shape));
}
/**
 * x = U diag(S) Vh, singular values in descending order; signs of the vectors are not determined. With `fullMatrices`
 * U and Vh are square.
 */
export const svd = (
  x: Expr,
  { fullMatrices = true }: { readonly fullMatrices?: boolean } = {},
): { readonly U: Expr; readonly S: Expr; readonly Vh: Expr } => singular('linalg.svd', x, fullMatrices);

// ---- LU

interface Pivoted {
  /** Only true: rows change places, so that the largest element of a column divides. */
  readonly pivot?: boolean;
}
/** x = P L U, with row pivots. */
export function lu(x: Expr, { pivot = true }: Pivoted = {}): { readonly P: Expr; readonly L: Expr; readonly U: Expr } {
  const { LU, order } = factored('linalg.lu', x, pivot);
  return { P: permutation(order, x), L: lowerOf(LU), U: upperOf(LU) };
}
/** x = P L U: L and U packed in one matrix, and the pivots of P. */
export function luFactor(x: Expr, { pivot = true }: Pivoted = {}): Packed {
  const { LU, pivots } = factored('linalg.luFactor', x, pivot);
  return { LU, pivots };
}
/** The same, and the place of the first pivot that is 0, counted from 1; or 0. */
export function luFactorEx(x: Expr, { pivot = true }: Pivoted = {}): Packed & { readonly info: Expr } {
  const { LU, pivots } = factored('linalg.luFactorEx', x, pivot);
  return { LU, pivots, info: infoOf({ LU, pivots }) };
}
/** The X with A X = B, or X A = B with `left: false`, given A packed by luFactor; with `adjoint` of A^T. */
export const luSolve = (
  LU: Expr,
  pivots: Expr,
  b: Expr,
  { left = true, adjoint = false }: { readonly left?: boolean; readonly adjoint?: boolean } = {},
): Expr => turnedSolve('linalg.luSolve', LU, pivots, b, left, adjoint);

// ---- with a flag instead of an error

const failed = (x: Expr): Expr =>
  convert(reduceOr(logicalNot(isfinite(detach(x))), [x.shape.length - 2, x.shape.length - 1]), 'i32');
/** The Cholesky factor, and whether it failed (1) or not (0). */
export function choleskyEx(
  x: Expr,
  { upper = false }: { readonly upper?: boolean } = {},
): { readonly L: Expr; readonly info: Expr } {
  const L = cholesky(x, { upper });
  return { L, info: failed(L) };
}
/** The inverse, and whether it failed (1) or not (0). */
export function invEx(x: Expr): { readonly inverse: Expr; readonly info: Expr } {
  const inverse = inv(x);
  return { inverse, info: failed(inverse) };
}
/** The solution of A X = B, and whether it failed (1) or not (0). */
export function solveEx(
  a: Expr,
  b: Expr,
  { left = true }: { readonly left?: boolean } = {},
): { readonly result: Expr; readonly info: Expr } {
  return { result: solve(a, b, { left }), info: failed(solve(a, eyeLike(a))) };
}

// ---- tensors as matrices

const sizeOf = (shape: Shape) => shape.reduce((a, b) => a * b, 1);
/** The inverse of x as a matrix whose rows are its first `ind` dimensions. */
export function tensorinv(x: Expr, { ind = 2 }: { readonly ind?: number } = {}): Expr {
  const [left, right] = [x.shape.slice(0, ind), x.shape.slice(ind)];
  if (ind < 1 || sizeOf(left) !== sizeOf(right))
    throw new ShapeError(
      `linalg.tensorinv: the first ${ind} dimensions of ${x.aval} have ${sizeOf(left)} elements, the others ${sizeOf(right)}: they must be equal`,
    );
  return reshape(inv(reshape(x, [sizeOf(left), sizeOf(right)])), [...right, ...left]);
}
/** The X with tensordot(A, X) = B; `dims` of A go to its end first. */
export function tensorsolve(a: Expr, b: Expr, { dims }: { readonly dims?: Shape } = {}): Expr {
  const moved = dims ? normalizeDims('linalg.tensorsolve', dims, a.shape.length) : [];
  const turned = permute(a, [...range(a.shape.length).filter((d) => !moved.includes(d)), ...moved]);
  const shape = turned.shape.slice(b.shape.length);
  if (sizeOf(shape) !== b.aval.size)
    throw new ShapeError(
      `linalg.tensorsolve: ${typesOf([a, b])}: ${sizeOf(shape)} unknowns for ${b.aval.size} equations`,
    );
  return reshape(solve(reshape(turned, [b.aval.size, b.aval.size]), reshape(b, [b.aval.size])), shape);
}
