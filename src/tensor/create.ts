// Creating tensors: from JavaScript values, filled, and ranges.
import {
  arrayLength,
  DTYPES,
  type DType,
  type HostArray,
  hostArray,
  numbersIn,
  type TypedArray,
} from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { encodeNumbers } from '../base/float.js';
import { highest, lowest } from '../base/literal.js';
import { DEFAULT_FLOAT, isComplex, isFloat } from '../base/promote.js';
import { checkShape, range, type Shape, showShape } from '../base/shape.js';
import { describe, isPlain } from '../base/tree.js';
import { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { full as fill, iota } from '../ops/prim/constant.js';
import { convert } from '../ops/prim/move.js';
import { add, div, eq, lt, mul, sub, where } from '../ops/prim/pointwise.js';
import { pow } from '../ops/prim/power.js';
import { input } from '../ops/prim/variable.js';
import { setValue } from '../runtime/value.js';
import { checked, named } from './arguments.js';
import { type Sized, sized } from './sizes.js';
import { type Complex, made, type Nested, Tensor } from './tensor.js';

type Real = number | bigint | boolean;
type Scalar = Real | Complex;
export interface TensorOptions {
  readonly dtype?: DType;
  readonly requiresGrad?: boolean;
}

// ---- from values

const isComplexNumber = (x: unknown): x is Complex => isPlain(x) && 're' in x && 'im' in x;
const isArrayOfFile = (x: unknown): x is HostArray => isPlain(x) && !isComplexNumber(x);

/**
 * A tensor from nested arrays, a number, or a typed array with a shape. Default dtype: i64 for whole numbers, f32 for others, c64 for
 * { re, im }. A typed array of the kind that stores the dtype is copied as it is (raw bits for bool, f16, bf16 and f8; pairs of numbers
 * for c64 and c128), others are converted. An array of a file, { dtype, shape, data }, has its own dtype and shape. Unlike torch: 1.0 is
 * whole, as JavaScript cannot tell it from 1.
 */
export const tensor = checked(
  'tensor',
  (data: Nested | TypedArray | HostArray, options: TensorOptions & { readonly shape?: Shape } = {}): Tensor => {
    if (isArrayOfFile(data)) {
      const { dtype, shape, data: elements } = data;
      const t = fromTyped(elements, options.shape ?? shape, { dtype });
      return made(convert(t.expr, options.dtype ?? dtype), options);
    }
    if (data instanceof Tensor)
      throw new ArgumentError('tensor: the argument is already a tensor: use clone() or to(dtype)');
    if (ArrayBuffer.isView(data)) return fromTyped(data as TypedArray, options.shape, options);
    const found = shapeOf(data);
    const flat = (found.length ? (data as readonly Nested[]).flat(found.length as 1) : [data]) as Scalar[];
    const dtype = options.dtype ?? dtypeOf(flat);
    return upload(encode(dtype, flat), dtype, options.shape ?? found, options);
  },
);

export const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;
/** Returns a tensor unchanged, or converted if a dtype is given; for other values the same as tensor(). */
export const asTensor = (data: Tensor | Nested | TypedArray | HostArray, options: TensorOptions = {}): Tensor => {
  if (!isTensor(data)) return tensor(data, options);
  const t = options.dtype && options.dtype !== data.dtype ? data.to(options.dtype) : data;
  return options.requiresGrad ? t.requiresGrad_() : t;
};

/** A tensor from the bytes of its elements, row-major, in the machine's byte order. Default shape: one dimension. */
export const fromBuffer = checked(
  'fromBuffer',
  (
    buffer: ArrayBufferLike | ArrayBufferView,
    options: TensorOptions & { readonly dtype: DType; readonly shape?: Shape },
  ): Tensor => {
    const dtype = options.dtype;
    const bytes = ArrayBuffer.isView(buffer)
      ? new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)
      : new Uint8Array(buffer);
    const size = DTYPES[dtype].bytes;
    if (bytes.length % size)
      throw new ArgumentError(
        `fromBuffer: ${bytes.length} bytes are not a whole number of ${dtype} elements (${size} bytes each)`,
      );
    const data = new DTYPES[dtype].array(bytes.slice().buffer);
    return upload(data, dtype, options.shape ?? [data.length / numbersIn(dtype)], options);
  },
);

function fromTyped(data: TypedArray, given: Shape | undefined, options: TensorOptions): Tensor {
  const dtype = options.dtype ?? arrayType(data);
  const isPairs = isComplex(dtype) && data instanceof DTYPES[dtype].array;
  const shape = given ?? [data.length / (isPairs ? 2 : 1)];
  if (data instanceof DTYPES[dtype].array) return upload(data.slice(), dtype, shape, options); // the caller may change it
  return upload(encode(dtype, data), dtype, shape, options);
}

function upload(data: TypedArray, dtype: DType, shape: Shape, options: TensorOptions): Tensor {
  checkShape('tensor', shape);
  if (data.length !== arrayLength({ dtype, shape }))
    throw new ShapeError(`tensor: ${data.length / numbersIn(dtype)} elements do not fit shape ${showShape(shape)}`);
  const expr = input(Aval.of(dtype, shape));
  setValue(expr, data);
  return made(expr, options);
}

/** Encodes elements. A number that the dtype cannot hold is an error. */
function encode(dtype: DType, values: ArrayLike<Scalar>): TypedArray {
  if (isComplex(dtype)) {
    const out = hostArray({ dtype, shape: [values.length] });
    for (let i = 0; i < values.length; i++) {
      const x = values[i]!;
      out[2 * i] = isComplexNumber(x) ? x.re : Number(x);
      out[2 * i + 1] = isComplexNumber(x) ? x.im : 0;
    }
    return out;
  }
  const odd = Array.isArray(values) ? values.findIndex((x) => typeof x === 'object') : -1;
  if (odd >= 0)
    throw new ArgumentError(`tensor: element ${odd} is complex, but the dtype is ${dtype}: use c64 or c128`);
  if (isFloat(dtype) || dtype === 'bool') return encodeNumbers(dtype, Array.from(values, Number));
  const [least, most] = [lowest(dtype) as bigint, highest(dtype) as bigint];
  const out = hostArray({ dtype, shape: [values.length] });
  for (let i = 0; i < out.length; i++) {
    const x = values[i]!;
    if (typeof x === 'number' && !Number.isSafeInteger(Math.trunc(x)))
      throw new ArgumentError(`tensor: ${x} is not an exact ${dtype}: use a BigInt (123n) or a float dtype`);
    const whole = typeof x === 'bigint' ? x : BigInt(Math.trunc(Number(x)));
    if (whole < least || whole > most)
      throw new ArgumentError(`tensor: ${x} does not fit ${dtype} (${least} to ${most}): use a larger dtype`);
    out[i] = (out instanceof BigInt64Array || out instanceof BigUint64Array ? whole : Number(whole)) as never;
  }
  return out;
}

const arrayType = (data: TypedArray): DType => {
  const name = (Object.keys(DTYPES) as DType[]).find(
    (d) => data instanceof DTYPES[d].array && !['bool', 'f16', 'bf16', 'f8e5m2', 'f8e4m3fn', 'c64', 'c128'].includes(d),
  );
  if (name) return name;
  throw new ArgumentError(
    `tensor: no dtype matches a ${(data as object).constructor.name}: use fromBuffer(data, { dtype })`,
  );
};

const DEEPEST = 64; // dimensions, as in torch and numpy

function shapeOf(data: Nested, depth = 0): number[] {
  if (depth > DEEPEST)
    throw new ShapeError(`tensor: arrays are nested more than ${DEEPEST} deep, or one contains itself`);
  if (!Array.isArray(data)) {
    if (['number', 'bigint', 'boolean'].includes(typeof data) || isComplexNumber(data)) return [];
    const what =
      data instanceof Tensor
        ? 'a tensor: use stack'
        : `${data && typeof data === 'object' ? describe(data) : String(data)} (${typeof data})`;
    throw new ArgumentError(`tensor: takes numbers, booleans and nested arrays of them, got ${what}`);
  }
  const inner = data.map((x) => shapeOf(x, depth + 1));
  const odd = inner.find((s) => String(s) !== String(inner[0]) || s.length !== inner[0]!.length);
  if (odd)
    throw new ShapeError(
      `tensor: the nested arrays are uneven: shapes ${showShape(inner[0]!)} and ${showShape(odd)} side by side`,
    );
  return [data.length, ...(inner[0] ?? [])];
}

function dtypeOf(flat: readonly Scalar[]): DType {
  if (flat.some((x) => typeof x === 'object')) return 'c64';
  if (flat.length && flat.every((x) => typeof x === 'boolean')) return 'bool';
  return flat.length && flat.every((x) => typeof x !== 'number' || Number.isInteger(x)) ? 'i64' : DEFAULT_FLOAT;
}

// ---- filled

const filled = (op: string, value: Real) =>
  checked(op, (...given: Sized<TensorOptions>): Tensor => {
    const [shape, options] = sized(op, given);
    return made(fill(shape, value, options.dtype ?? DEFAULT_FLOAT), options);
  });
export const zeros = filled('zeros', 0);
export const ones = filled('ones', 1);
/** Unlike torch: zeros, as there is no uninitialized memory. */
export const empty = filled('empty', 0);
/**
 * A tensor filled with one value. Default dtype: i64 for whole numbers, bool for booleans, otherwise f32. Unlike torch:
 * 1.0 is whole.
 */
export const full = checked('full', (shape: Shape, value: Real, options: TensorOptions = {}): Tensor => {
  const dtype = options.dtype ?? dtypeOf([value]);
  encode(dtype, [value]); // checked
  return made(fill(checkShape('full', shape), value, dtype), options);
});

const filledLike = (op: string, value: Real) =>
  checked(
    op,
    (x: Tensor, options: TensorOptions = {}): Tensor => made(fill(x.shape, value, options.dtype ?? x.dtype), options),
  );
export const zerosLike = filledLike('zerosLike', 0);
export const onesLike = filledLike('onesLike', 1);
/** Unlike torch: zeros. */
export const emptyLike = filledLike('emptyLike', 0);
export const fullLike = checked(
  'fullLike',
  (x: Tensor, value: Real, options: TensorOptions = {}): Tensor =>
    full(x.shape, value, { ...options, dtype: options.dtype ?? x.dtype }),
);

/** Ones on the diagonal, zeros elsewhere. */
export const eye = checked(
  'eye',
  (n: number, ...given: [m?: number, options?: TensorOptions] | [options: TensorOptions]): Tensor => {
    const { dtype = DEFAULT_FLOAT, requiresGrad = false } = (given.find(isPlain) as TensorOptions | undefined) ?? {};
    const shape = checkShape('eye', [n, typeof given[0] === 'number' ? given[0] : n]);
    const hit = eq(iota(shape, 0, 'i32'), iota(shape, 1, 'i32'));
    return made(convert(hit, dtype), { requiresGrad });
  },
);

// ---- in order

/** The dtype in which a range is computed: small floats would lose precision, integers stay exact. */
const computeType = (dtype: DType): DType => (isFloat(dtype) ? (dtype === 'f64' ? 'f64' : 'f32') : 'i64');

/**
 * start, start + step, ... below end: arange(end), arange(start, end), arange(start, end, step), options last. Default
 * dtype: i64 for whole numbers. Unlike torch: 1.0 is whole, as JavaScript cannot tell it from 1; pass a dtype for floats.
 */
export const arange = checked('arange', ((...args: (number | boolean | TensorOptions | undefined)[]): Tensor => {
  const numbers = args.map((a) => (typeof a === 'boolean' ? Number(a) : a)).filter((a) => typeof a === 'number');
  const options = (args.find((a) => typeof a === 'object') ?? {}) as TensorOptions;
  const whole = options.dtype !== undefined && !isFloat(options.dtype);
  const given = whole ? numbers.map(Math.trunc) : numbers;
  const [start, end, step] = [...(given.length < 2 ? [0, ...given] : given), 1] as [number, number, number];
  if (!numbers.length || numbers.length > 3 || !numbers.every(Number.isFinite))
    throw new ArgumentError(`arange: takes one to three finite numbers (end; start, end; start, end, step)`);
  if (step === 0 || (end - start) / step < 0)
    throw new ArgumentError(`arange: a step of ${step} does not lead from ${start} to ${end}`);
  const dtype = options.dtype ?? (numbers.every(Number.isInteger) ? 'i64' : DEFAULT_FLOAT);
  const type = computeType(dtype);
  const count = Math.ceil((end - start) / step);
  const steps = mul(iota([count], 0, type), fill([], step, type));
  return made(convert(add(steps, fill([], start, type)), dtype), options);
}) as {
  (end: number | boolean, options?: TensorOptions): Tensor;
  (start: number | boolean, end: number | boolean, options?: TensorOptions): Tensor;
  (start: number | boolean, end: number | boolean, step: number | boolean, options?: TensorOptions): Tensor;
});

/** Equal steps from start to end, both included. Each is computed from the nearer end, so that both ends are exact. */
function spaced(op: string, start: number | Tensor, end: number | Tensor, steps: number, dtype: DType): Expr {
  if (!Number.isSafeInteger(steps) || steps < 0)
    throw new ArgumentError(`${op}: the number of steps must be whole and not negative, got ${steps}`);
  const type = isFloat(dtype) ? computeType(dtype) : 'f64';
  const one = (x: number | Tensor) => {
    if (typeof x === 'number') return fill([], isFloat(dtype) ? x : Math.trunc(x), type);
    if (x.ndim)
      throw new ShapeError(`${op}: start and end must be numbers or tensors without dimensions, got ${x.aval}`);
    return convert(convert(x.expr, isFloat(dtype) ? type : 'i64'), type);
  };
  const [first, last, i] = [one(start), one(end), iota([steps], 0, type)];
  const step = steps > 1 ? div(sub(last, first), fill([], steps - 1, type)) : fill([], 0, type);
  const forth = add(first, mul(step, i));
  const back = sub(last, mul(step, sub(fill([], steps - 1, type), i)));
  return steps === 1 ? forth : where(lt(i, fill([], Math.floor(steps / 2), type)), forth, back);
}
/** `steps` numbers from start to end, both included. */
export const linspace = checked(
  'linspace',
  (start: number | Tensor, end: number | Tensor, steps: number, options: TensorOptions = {}): Tensor => {
    const dtype = options.dtype ?? DEFAULT_FLOAT;
    return made(convert(spaced('linspace', start, end, steps, dtype), dtype), options);
  },
);
/** base to the powers start to end. */
export const logspace = checked(
  'logspace',
  (
    start: number | Tensor,
    end: number | Tensor,
    steps: number,
    ...given: [base?: number, options?: TensorOptions] | [options?: TensorOptions & { readonly base?: number }]
  ): Tensor => {
    const { base = 10, ...options } = named<TensorOptions & { base?: number }>(['base'], given);
    const dtype = options.dtype ?? DEFAULT_FLOAT;
    const powers = spaced('logspace', start, end, steps, dtype);
    return made(convert(pow(fill(powers.shape, base, powers.dtype), powers), dtype), options);
  },
);

/** [2, n]: the row and column indices of a triangle's elements. */
const triangle = (op: string, keep: (column: number, diagonal: number) => boolean) =>
  checked(
    op,
    (
      row: number,
      col: number,
      ...given:
        | [offset?: number, options?: { readonly dtype?: DType }]
        | [options?: { readonly offset?: number; readonly dtype?: DType }]
    ) => {
      const { offset = 0, dtype = 'i64' } = named<{ offset?: number; dtype?: DType }>(['offset'], given);
      checkShape(op, [row, col]);
      const places = range(row).flatMap((r) =>
        range(col).flatMap((c): [number, number][] => (keep(c, r + offset) ? [[r, c]] : [])),
      );
      const flat = [...places.map(([r]) => r), ...places.map(([, c]) => c)];
      return upload(encode(dtype, flat), dtype, [2, places.length], {});
    },
  );
export const trilIndices = triangle('trilIndices', (c, d) => c <= d);
export const triuIndices = triangle('triuIndices', (c, d) => c >= d);
