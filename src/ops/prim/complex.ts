// Complex numbers: made of two parts, and taken apart. Gradients are torch's: of a real loss with respect to z = x + iy,
// dL/dx + i dL/dy, so that z - lr * grad goes downhill.
import { DTypeError } from '../../base/errors.js';
import { complexType, isComplex, isFloat, partType } from '../../base/promote.js';
import type { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import { zerosLike } from './constant.js';
import { checkDType, checkSame, define, same } from './define.js';

const complexes = (op: string, x: Aval): void => checkDType(op, [x], isComplex, 'complex numbers');
const parts = (x: Aval): Aval => x.withDType(partType(x.dtype));

const complexOp = define<[re: Expr, im: Expr]>({
  name: 'complex',
  infer: (xs) => {
    const type = checkSame('complex', xs);
    if (type.dtype !== 'f32' && type.dtype !== 'f64')
      throw new DTypeError(`complex: parts are f32 or f64, got ${type}: convert them first`);
    return type.withDType(complexType(type.dtype));
  },
  lower: (e, xs, _, out) => e.op('complex', xs, [out])[0]!,
  vjp: (g) => [realPart(g), imagPart(g)],
  batch: same,
});
/** Of two arrays of one type. */
export const makeComplex = (re: Expr, im: Expr): Expr => complexOp([re, im], null);

const realOp = define<[Expr]>({
  name: 'real',
  infer: ([x]) => {
    complexes('real', x);
    return parts(x);
  },
  lower: (e, xs, _, out) => e.op('real', xs, [out])[0]!,
  vjp: (g) => [makeComplex(g, zerosLike(g))],
  batch: same,
});
/** The real part; of real numbers themselves. */
export const realPart = (x: Expr): Expr => (isComplex(x.dtype) ? realOp([x], null) : x);

const imagOp = define<[Expr]>({
  name: 'imag',
  infer: ([x]) => {
    complexes('imag', x);
    return parts(x);
  },
  lower: (e, xs, _, out) => e.op('imag', xs, [out])[0]!,
  vjp: (g) => [makeComplex(zerosLike(g), g)],
  batch: same,
});
export const imagPart = (x: Expr): Expr => imagOp([x], null);

const conjOp = define<[Expr]>({
  name: 'conj',
  infer: ([x]) => {
    complexes('conj', x);
    return x;
  },
  lower: (e, [x], _, out) => {
    const type = parts(out);
    const [re] = e.op('real', [x], [type]);
    const [im] = e.op('negate', e.op('imag', [x], [type]), [type]);
    return e.op('complex', [re!, im!], [out])[0]!;
  },
  vjp: (g) => [conjugate(g)],
  batch: same,
});
/** With the imaginary part's sign turned; real numbers themselves. */
export const conjugate = (x: Expr): Expr => (isComplex(x.dtype) ? conjOp([x], null) : x);

/** Floats as complex numbers without an imaginary part. */
export const toComplex = (x: Expr): Expr => (isFloat(x.dtype) ? makeComplex(x, zerosLike(x)) : x);
