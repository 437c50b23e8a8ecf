// Values known when the graph is made: constants and iota.
import type { DType } from '../../base/dtype.js';
import { literal } from '../../base/literal.js';
import type { Shape } from '../../base/shape.js';
import { Aval } from '../../ir/aval.js';
import type { Expr } from '../../ir/expr.js';
import { define, i64 } from './define.js';

const constantOp = define<[], { value: string; aval: Aval }>({
  name: 'constant',
  infer: (_, { aval }) => aval,
  lower: (e, _, { value }, out) => e.op('constant', [], [out], { value: `dense<${value}> : ${out.mlir}` })[0]!,
  batch: null,
});

/** Every element the same number. A number of JavaScript's in user code ends here: another number is another program. */
export const full = (shape: Shape, value: number | bigint | boolean, dtype: DType): Expr =>
  constantOp([], { value: literal(value, dtype), aval: Aval.of(dtype, shape) });

/** A few numbers, as one dimension. They are part of the program: pass large or changing values as inputs instead. */
export const constants = (values: readonly (number | bigint | boolean)[], dtype: DType): Expr =>
  constantOp([], {
    value: values.length ? `[${values.map((x) => literal(x, dtype)).join(', ')}]` : '',
    aval: Aval.of(dtype, [values.length]),
  });

export const zerosLike = (x: Expr): Expr => full(x.shape, 0, x.dtype);
export const onesLike = (x: Expr): Expr => full(x.shape, 1, x.dtype);

const iotaOp = define<[], { dim: number; aval: Aval }>({
  name: 'iota',
  infer: (_, { aval }) => aval,
  lower: (e, _, { dim }, out) => e.op('iota', [], [out], { iota_dimension: i64(dim) })[0]!,
  batch: null,
});

/** 0, 1, 2, ... along one dimension. */
export const iota = (shape: Shape, dim: number, dtype: DType): Expr => iotaOp([], { dim, aval: Aval.of(dtype, shape) });
