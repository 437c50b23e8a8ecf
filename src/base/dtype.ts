// The table of dtypes, with their names in StableHLO, PJRT, HLO, safetensors and torch.
import { ArgumentError, DTypeError } from './errors.js';

export type TypedArray =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

type TypedArrayConstructor = { readonly BYTES_PER_ELEMENT: number; new (length: number): TypedArray } & (new (
  buffer: ArrayBufferLike,
  byteOffset?: number,
  length?: number,
) => TypedArray);

interface Row {
  readonly bytes: number;
  readonly mlir: string; // in StableHLO: tensor<2x3xbf16>
  readonly pjrt: number; // PJRT_Buffer_Type
  readonly hlo: number; // xla::PrimitiveType, in HLO protos
  readonly safetensors: string; // empty: the format has no such type
  /** The JavaScript array. Types JavaScript lacks (bool, f16, bf16, f8) are stored as raw bits; complex ones as two numbers. */
  readonly array: TypedArrayConstructor;
}

// biome-ignore format: a table
export const DTYPES = {
  bool:    { bytes: 1, mlir: 'i1',       pjrt: 1,  hlo: 1,  safetensors: 'BOOL',    array: Uint8Array },
  i8:      { bytes: 1, mlir: 'i8',       pjrt: 2,  hlo: 2,  safetensors: 'I8',      array: Int8Array },
  i16:     { bytes: 2, mlir: 'i16',      pjrt: 3,  hlo: 3,  safetensors: 'I16',     array: Int16Array },
  i32:     { bytes: 4, mlir: 'i32',      pjrt: 4,  hlo: 4,  safetensors: 'I32',     array: Int32Array },
  i64:     { bytes: 8, mlir: 'i64',      pjrt: 5,  hlo: 5,  safetensors: 'I64',     array: BigInt64Array },
  u8:      { bytes: 1, mlir: 'ui8',      pjrt: 6,  hlo: 6,  safetensors: 'U8',      array: Uint8Array },
  u16:     { bytes: 2, mlir: 'ui16',     pjrt: 7,  hlo: 7,  safetensors: 'U16',     array: Uint16Array },
  u32:     { bytes: 4, mlir: 'ui32',     pjrt: 8,  hlo: 8,  safetensors: 'U32',     array: Uint32Array },
  u64:     { bytes: 8, mlir: 'ui64',     pjrt: 9,  hlo: 9,  safetensors: 'U64',     array: BigUint64Array },
  f16:     { bytes: 2, mlir: 'f16',      pjrt: 10, hlo: 10, safetensors: 'F16',     array: Uint16Array },
  f32:     { bytes: 4, mlir: 'f32',      pjrt: 11, hlo: 11, safetensors: 'F32',     array: Float32Array },
  f64:     { bytes: 8, mlir: 'f64',      pjrt: 12, hlo: 12, safetensors: 'F64',     array: Float64Array },
  bf16:    { bytes: 2, mlir: 'bf16',     pjrt: 13, hlo: 16, safetensors: 'BF16',    array: Uint16Array },
  f8e5m2:  { bytes: 1, mlir: 'f8E5M2',   pjrt: 16, hlo: 19, safetensors: 'F8_E5M2', array: Uint8Array },
  f8e4m3fn:{ bytes: 1, mlir: 'f8E4M3FN', pjrt: 17, hlo: 20, safetensors: 'F8_E4M3', array: Uint8Array },
  c64:     { bytes: 8, mlir: 'complex<f32>', pjrt: 14, hlo: 15, safetensors: 'C64', array: Float32Array },
  c128:    { bytes: 16, mlir: 'complex<f64>', pjrt: 15, hlo: 18, safetensors: '',    array: Float64Array },
} as const satisfies Record<string, Row>;

export type DType = keyof typeof DTYPES;

/** What a platform cannot compute in. The plugin for Apple GPUs would take f32 for f64 without a word. */
const ABSENT: Readonly<Record<string, readonly DType[]>> = { mps: ['f64', 'c128', 'f8e5m2', 'f8e4m3fn'] };
/** Throws a DTypeError where a platform has no such elements. */
export function checkPlatform(platform: string, dtype: DType): void {
  if (ABSENT[platform]?.includes(dtype))
    throw new DTypeError(`${platform} has no ${dtype}: use another dtype (f32, f16, bf16, c64), or another device`);
}

/** torch's names. */
// biome-ignore format: a table
export const TORCH: Readonly<Record<string, DType>> = {
  float16: 'f16', half: 'f16', bfloat16: 'bf16', float32: 'f32', float: 'f32', float64: 'f64', double: 'f64',
  uint8: 'u8', byte: 'u8', uint16: 'u16', uint32: 'u32', uint64: 'u64',
  int8: 'i8', char: 'i8', int16: 'i16', short: 'i16', int32: 'i32', int: 'i32', int64: 'i64', long: 'i64',
  float8_e4m3fn: 'f8e4m3fn', float8_e5m2: 'f8e5m2', boolean: 'bool',
  complex64: 'c64', cfloat: 'c64', complex128: 'c128', cdouble: 'c128',
};
/** The error for a wrong name of a dtype (possible in plain JavaScript); undefined if it is right. */
export function dtypeMistake(name: string): string | undefined {
  if (Object.hasOwn(DTYPES, name)) return undefined;
  const ours = TORCH[name.replace(/^torch\./, '')];
  return ours
    ? `dtype '${name}' is written '${ours}'`
    : `${name} is not a dtype: use one of ${Object.keys(DTYPES).join(', ')}`;
}
/** Checks the name of a dtype. `op` starts the error: "zeros: ". */
export function checkDTypeName(op: string, dtype: DType): DType {
  const mistake = dtypeMistake(String(dtype));
  if (mistake) throw new ArgumentError(`${op}: ${mistake}`);
  return dtype;
}

const byColumn = (column: 'mlir' | 'pjrt' | 'hlo' | 'safetensors') =>
  new Map<string | number, DType>(
    Object.entries(DTYPES).flatMap(([name, row]) => (row[column] === '' ? [] : [[row[column], name as DType]])),
  );
const FROM = {
  mlir: byColumn('mlir'),
  pjrt: byColumn('pjrt'),
  hlo: byColumn('hlo'),
  safetensors: byColumn('safetensors'),
};

/** The dtype for a name in another vocabulary: dtypeFrom('mlir', 'ui8') is 'u8'. */
export function dtypeFrom(vocabulary: keyof typeof FROM, value: string | number): DType {
  const dtype = FROM[vocabulary].get(value);
  if (dtype) return dtype;
  throw new ArgumentError(
    `element type ${value} (${vocabulary}) is not supported: use one of ${Object.keys(DTYPES).join(', ')}`,
  );
}

/** A dtype and a shape: the type of an array. */
export interface ArrayType {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** An array in host memory: its elements in row-major order, in the array type of its dtype. */
export interface HostArray extends ArrayType {
  readonly data: TypedArray;
}

/** Whether a value is a HostArray. Does not check the number of elements against the shape. */
export const isHostArray = (x: unknown): x is HostArray => {
  const { dtype, shape, data } = (x ?? {}) as Partial<HostArray>;
  if (typeof dtype !== 'string' || !Object.hasOwn(DTYPES, dtype) || !Array.isArray(shape)) return false;
  return shape.every((n) => Number.isSafeInteger(n) && n >= 0) && data instanceof DTYPES[dtype].array;
};

/** The number of array entries per element: two for complex dtypes (real and imaginary part). */
export const numbersIn = (d: DType): 1 | 2 => (d === 'c64' || d === 'c128' ? 2 : 1);
export const sizeOf = (shape: readonly number[]): number => shape.reduce((n, d) => n * d, 1);
/** The length of the JavaScript array of a type. */
export const arrayLength = (t: ArrayType): number => sizeOf(t.shape) * numbersIn(t.dtype);
export const byteLength = (t: ArrayType): number => sizeOf(t.shape) * DTYPES[t.dtype].bytes;
export const sameType = (a: ArrayType, b: ArrayType): boolean =>
  a.dtype === b.dtype && a.shape.length === b.shape.length && a.shape.every((d, i) => d === b.shape[i]);
/** f32[2, 3] */
export const show = (t: ArrayType): string => `${t.dtype}[${t.shape.join(', ')}]`;

/** A zeroed JavaScript array for the elements of a type. */
export const hostArray = (t: ArrayType): TypedArray => new DTYPES[t.dtype].array(arrayLength(t));
