// The primitives that move elements without changing them. Strict: dimensions are counted from the front, none is implied.
import { checkDTypeName, type DType, sizeOf } from '../../base/dtype.js';
import { ShapeError } from '../../base/errors.js';
import { isComplex, isFloat, isInexact, partType } from '../../base/promote.js';
import { range, type Shape, sameShape, showShape } from '../../base/shape.js';
import type { Expr } from '../../ir/expr.js';
import { comparing, define, i64s, next, same, shifted } from './define.js';

// ---- dtype

const convertOp = define<[Expr], { dtype: DType }>({
  name: 'convert',
  infer: ([x], { dtype }) => x.withDType(checkDTypeName('to', dtype)),
  lower: (e, [x], _, out) => {
    const type = e.typeOf(x);
    if (isComplex(type.dtype) && out.dtype === 'bool') {
      const [zero] = e.op('constant', [], [type], { value: `dense<(0.0, 0.0)> : ${type.mlir}` });
      return e.op('compare', [x, zero!], [out], comparing('NE', type.dtype))[0]!;
    }
    if (isComplex(type.dtype) && !isComplex(out.dtype)) {
      const [part] = e.op('real', [x], [type.withDType(partType(type.dtype))]); // as in torch
      return out.dtype === partType(type.dtype) ? part! : e.op('convert', [part!], [out])[0]!;
    }
    if (isComplex(out.dtype) && !isComplex(type.dtype)) {
      const inner = out.withDType(partType(out.dtype));
      const part = type.dtype === inner.dtype ? x : e.op('convert', [x], [inner])[0]!;
      const [zero] = e.op('constant', [], [inner], { value: `dense<0.0> : ${inner.mlir}` });
      return e.op('complex', [part, zero!], [out])[0]!;
    }
    // By way of integers: XLA turns a product with a converted boolean into a choice, which loses the NaN of 0 * infinity.
    const truth = type.dtype === 'bool' && isFloat(out.dtype);
    return e.op('convert', truth ? e.op('convert', [x], [type.withDType('u8')]) : [x], [out])[0]!;
  },
  vjp: (g, [x], { dtype }) => [isInexact(x.dtype) && isInexact(dtype) ? convert(g, x.dtype) : null],
  batch: same,
});
/** Of complex numbers to real ones the real part, as in torch. */
export const convert = (x: Expr, dtype: DType): Expr => (x.dtype === dtype ? x : convertOp([x], { dtype }));

const bitcastOp = define<[Expr], { dtype: DType; shape: Shape }>({
  name: 'bitcast',
  infer: ([x], { dtype, shape }) => x.withDType(dtype).withShape(shape),
  lower: (e, xs, _, out) => e.op('bitcast_convert', xs, [out])[0]!,
  batch: shifted(({ dtype, shape }, n) => ({ dtype, shape: [n, ...shape] })),
});
/** The same bits as another dtype; where sizes differ, `shape` has one dimension more or less at the end. */
export const bitcast = (x: Expr, dtype: DType, shape: Shape = x.shape): Expr => bitcastOp([x], { dtype, shape });

// ---- shape

const reshapeOp = define<[Expr], { shape: Shape }>({
  name: 'reshape',
  infer: ([x], { shape }) => {
    if (sizeOf(shape) !== x.size) throw new ShapeError(`reshape: ${x} does not fit shape ${showShape(shape)}`);
    return x.withShape(shape);
  },
  lower: (e, xs, _, out) => e.op('reshape', xs, [out])[0]!,
  vjp: (g, [x]) => [reshape(g, x.shape)],
  batch: shifted(({ shape }, n) => ({ shape: [n, ...shape] })),
});
export const reshape = (x: Expr, shape: Shape): Expr => (sameShape(shape, x.shape) ? x : reshapeOp([x], { shape }));
/** All elements, in one dimension. */
export const flat = (x: Expr): Expr => reshape(x, [x.aval.size]);
/** A scalar as one element: functions along a dimension take it so. */
export const atLeast1 = (x: Expr): Expr => (x.shape.length ? x : flat(x));

// ---- order

const transposeOp = define<[Expr], { perm: readonly number[] }>({
  name: 'transpose',
  infer: ([x], { perm }) => x.withShape(perm.map((d) => x.shape[d]!)),
  lower: (e, xs, { perm }, out) => e.op('transpose', xs, [out], { permutation: i64s(perm) })[0]!,
  vjp: (g, _, { perm }) => [
    permute(
      g,
      range(perm.length).map((d) => perm.indexOf(d)),
    ),
  ],
  batch: shifted(({ perm }) => ({ perm: [0, ...next(perm)] })),
});
export const permute = (x: Expr, perm: readonly number[]): Expr =>
  perm.every((d, i) => d === i) ? x : transposeOp([x], { perm });

const reverseOp = define<[Expr], { dims: readonly number[] }>({
  name: 'reverse',
  infer: ([x]) => x,
  lower: (e, xs, { dims }, out) => e.op('reverse', xs, [out], { dimensions: i64s(dims) })[0]!,
  vjp: (g, _, { dims }) => [reverse(g, dims)],
  batch: shifted(({ dims }) => ({ dims: next(dims) })),
});
export const reverse = (x: Expr, dims: readonly number[]): Expr => (dims.length ? reverseOp([x], { dims }) : x);
