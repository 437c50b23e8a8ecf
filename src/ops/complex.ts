// Complex numbers: c64 and c128. Gradients follow torch: dL/dx + i dL/dy for a real loss L and z = x + iy.
import { DTypeError, ShapeError } from '../base/errors.js';
import { isComplex } from '../base/promote.js';
import { range } from '../base/shape.js';
import type { Expr } from '../ir/expr.js';
import { align, floating, isExpr, type Operand } from './prim/align.js';
import { conjugate, imagPart, makeComplex, realPart } from './prim/complex.js';
import { full, zerosLike } from './prim/constant.js';
import { typesOf } from './prim/define.js';
import { convert, reshape } from './prim/move.js';
import { atan2, cos, eq, isnan, lt, mul, sin, where } from './prim/pointwise.js';
import { concat, sliceDim } from './prim/slice.js';

/** re + i im, of two f32 or two f64 tensors that broadcast; either may be a number. */
export const complex = (re: Operand, im: Operand): Expr => {
  const parts = [re, im].filter(isExpr);
  if (parts.some((p) => (p.dtype !== 'f32' && p.dtype !== 'f64') || p.dtype !== parts[0]!.dtype))
    throw new DTypeError(
      `complex: takes f32 or f64, the same dtype for both parts, got ${typesOf(parts)}: convert them first`,
    );
  const [x, y] = align('complex', [re, im]) as [Expr, Expr];
  return makeComplex(floating(x), floating(y));
};
/** abs * exp(i angle). */
export const polar = (abs: Expr, angle: Expr): Expr => complex(mul(abs, cos(angle)), mul(abs, sin(angle)));

/** The real part; a real tensor is returned unchanged. */
export const real = (x: Expr): Expr => realPart(x);
export function imag(x: Expr): Expr {
  if (isComplex(x.dtype)) return imagPart(x);
  throw new DTypeError(`imag: takes complex numbers, got ${x.aval}: a real tensor has no imaginary part`);
}
/** The complex conjugate; a real tensor is returned unchanged. */
export const conj = (x: Expr): Expr => conjugate(x);
/** The same as conj, which is never lazy here. */
export const conjPhysical = (x: Expr): Expr => conjugate(x);
/** Returns x: there are no lazy conjugations or negations. */
export const resolveConj = (x: Expr): Expr => x;
export const resolveNeg = (x: Expr): Expr => x;
/** The angle of complex numbers, from -pi to pi; 0 or pi for real ones. */
export function angle(x: Expr): Expr {
  if (isComplex(x.dtype)) return atan2(imagPart(x), realPart(x));
  const y = floating(x);
  return where(isnan(y), y, where(lt(y, 0), full(y.shape, Math.PI, y.dtype), zerosLike(y)));
}
/** Whether elements have no imaginary part. */
export const isreal = (x: Expr): Expr => (isComplex(x.dtype) ? eq(imagPart(x), 0) : full(x.shape, true, 'bool'));

/** Real and imaginary part along a new last dimension of size 2. Unlike torch: a copy. */
export function viewAsReal(x: Expr): Expr {
  if (!isComplex(x.dtype)) throw new DTypeError(`viewAsReal: takes complex numbers, got ${x.aval}`);
  const rank = x.shape.length;
  return concat(
    [realPart(x), imagPart(x)].map((part) => reshape(part, [...x.shape, 1])),
    rank,
  );
}
/** From a last dimension of size 2. Unlike torch: a copy. */
export function viewAsComplex(x: Expr): Expr {
  const last = x.shape.length - 1;
  if (x.shape[last] !== 2 || (x.dtype !== 'f32' && x.dtype !== 'f64'))
    throw new ShapeError(`viewAsComplex: takes f32 or f64 with a last dimension of size 2, got ${x.aval}`);
  const [re, im] = range(2).map((i) => reshape(sliceDim(x, last, i, i + 1), x.shape.slice(0, -1))) as [Expr, Expr];
  return makeComplex(re, im);
}
/** Conversions to complex dtypes: c64 and c128. */
export const cfloat = (x: Expr): Expr => convert(x, 'c64');
export const cdouble = (x: Expr): Expr => convert(x, 'c128');
