// Making tensors: from JavaScript's values, and filled ones.
import { DTYPES, type DType, hostArray, sizeOf, type TypedArray } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { encodeNumbers } from '../base/float.js';
import { DEFAULT_FLOAT } from '../base/promote.js';
import { type Shape, showShape } from '../base/shape.js';
import { Aval } from '../ir/aval.js';
import { entry } from '../ir/source.js';
import * as constant from '../ops/constant.js';
import { input } from '../ops/variable.js';
import { setValue } from '../runtime/evaluate.js';
import { type Nested, Tensor } from './tensor.js';

type Scalar = number | bigint | boolean;
export interface TensorOptions {
  readonly dtype?: DType;
  readonly requiresGrad?: boolean;
}

/** From nested arrays, a number, or a typed array with a shape. Whole numbers are i64 and others f32, as in torch. */
export const tensor = entry(
  (data: Nested | TypedArray, options: TensorOptions & { readonly shape?: Shape } = {}): Tensor => {
    if (ArrayBuffer.isView(data)) return fromArray(data as TypedArray, options.shape ?? [data.length], options);
    const shape = shapeOf(data);
    const flat = (shape.length ? (data as readonly Nested[]).flat(shape.length as 1) : [data]) as Scalar[];
    const dtype = options.dtype ?? dtypeOf(flat);
    const array = hostArray({ dtype, shape });
    if (array instanceof BigInt64Array || array instanceof BigUint64Array)
      flat.forEach((x, i) => (array[i] = BigInt(x)));
    else array.set(encodeNumbers(dtype, flat.map(Number)) as never);
    return fromArray(array, shape, { ...options, dtype });
  },
);

function fromArray(
  data: TypedArray,
  shape: Shape,
  { dtype = arrayType(data), requiresGrad = false }: TensorOptions,
): Tensor {
  if (data.length !== sizeOf(shape))
    throw new ShapeError(`tensor: ${data.length} elements do not fit shape ${showShape(shape)}`);
  if (!(data instanceof DTYPES[dtype].array)) {
    throw new ArgumentError(`tensor: ${dtype} takes a ${DTYPES[dtype].array.name}, got a ${data.constructor.name}`);
  }
  const expr = input(Aval.of(dtype, shape));
  setValue(expr, data.slice()); // the caller may change the array afterwards
  const t = new Tensor(expr);
  return requiresGrad ? t.requiresGrad_() : t;
}

const arrayType = (data: TypedArray): DType => {
  const name = (Object.keys(DTYPES) as DType[]).find(
    (d) => data instanceof DTYPES[d].array && !['bool', 'f16', 'bf16'].includes(d),
  );
  return name === 'f8e5m2' || name === 'f8e4m3fn' ? 'u8' : name!;
};

function shapeOf(data: Nested): number[] {
  if (!Array.isArray(data)) return [];
  const inner = data.map(shapeOf);
  const odd = inner.find((s) => String(s) !== String(inner[0]));
  if (odd)
    throw new ShapeError(
      `tensor: the nested arrays are uneven: shapes ${showShape(inner[0]!)} and ${showShape(odd)} side by side`,
    );
  return [data.length, ...(inner[0] ?? [])];
}

function dtypeOf(flat: readonly Scalar[]): DType {
  if (flat.length && flat.every((x) => typeof x === 'boolean')) return 'bool';
  return flat.length && flat.every((x) => typeof x === 'bigint' || Number.isInteger(x)) ? 'i64' : DEFAULT_FLOAT;
}

const filled = (value: Scalar) =>
  entry((shape: Shape, { dtype = DEFAULT_FLOAT, requiresGrad = false }: TensorOptions = {}): Tensor => {
    const t = new Tensor(constant.full(shape, value, dtype));
    return requiresGrad ? t.requiresGrad_() : t;
  });
export const zeros = filled(0);
export const ones = filled(1);
