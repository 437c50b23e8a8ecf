// Converts numbers to and from the floating point formats JavaScript has no arrays for: f16, bf16, f8e4m3fn, f8e5m2.
import { DTYPES, type DType, type TypedArray } from './dtype.js';

interface Format {
  readonly exponent: number; // bits
  readonly mantissa: number; // bits
  /** 'fn' formats have no infinities: only the all-ones code is NaN, and overflow gives NaN. */
  readonly finite?: true;
}

const FORMATS: Partial<Record<DType, Format>> = {
  f16: { exponent: 5, mantissa: 10 },
  bf16: { exponent: 8, mantissa: 7 },
  f8e5m2: { exponent: 5, mantissa: 2 },
  f8e4m3fn: { exponent: 4, mantissa: 3, finite: true },
};

function decode(bits: number, { exponent, mantissa, finite }: Format): number {
  const bias = 2 ** (exponent - 1) - 1;
  const sign = bits >> (exponent + mantissa) ? -1 : 1;
  const e = (bits >> mantissa) & (2 ** exponent - 1);
  const m = bits & (2 ** mantissa - 1);
  if (e === 2 ** exponent - 1) {
    if (finite ? m === 2 ** mantissa - 1 : m !== 0) return Number.NaN;
    if (!finite) return sign * Number.POSITIVE_INFINITY;
  }
  return sign * (e ? (1 + m / 2 ** mantissa) * 2 ** (e - bias) : (m / 2 ** mantissa) * 2 ** (1 - bias));
}

/** Rounds to nearest, ties to even, straight from the double. */
function encode(x: number, { exponent, mantissa, finite }: Format): number {
  const bias = 2 ** (exponent - 1) - 1;
  const top = 2 ** exponent - 1;
  const sign = x < 0 || Object.is(x, -0) ? 1 << (exponent + mantissa) : 0;
  const nan = sign | (top << mantissa) | (finite ? 2 ** mantissa - 1 : 2 ** (mantissa - 1));
  if (Number.isNaN(x)) return nan & ~(1 << (exponent + mantissa));
  const a = Math.abs(x);
  const overflow = finite ? nan : sign | (top << mantissa);
  if (a === Number.POSITIVE_INFINITY) return overflow;
  if (a === 0) return sign;
  // The exponent of a's last kept bit; below the smallest normal number it stays put (subnormals).
  const e = Math.max(exponentOf(a), 1 - bias);
  const units = roundToEven(a / 2 ** (e - mantissa)); // exact: a power of two, and no double is that small here
  const code = units + ((e + bias - 1) << mantissa); // units carries the implicit bit, and any carry into the exponent
  const limit = (top << mantissa) | (finite ? 2 ** mantissa - 1 : 0);
  return code >= limit ? overflow : sign | code;
}

const view = new DataView(new ArrayBuffer(8));
function exponentOf(a: number): number {
  view.setFloat64(0, a);
  return ((view.getUint32(0) >> 20) & 0x7ff) - 1023; // a double subnormal gives -1023, below every format here
}

function roundToEven(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}

const tables = new Map<DType, Float32Array>(); // the value of every code, computed when first needed

/** The numbers behind the raw bits of a small float format; other arrays are returned as they are. */
export function decodeFloats(dtype: DType, bits: TypedArray): TypedArray {
  const format = FORMATS[dtype];
  if (!format) return bits;
  let table = tables.get(dtype);
  if (!table) {
    table = Float32Array.from({ length: 2 ** (8 * DTYPES[dtype].bytes) }, (_, code) => decode(code, format));
    tables.set(dtype, table);
  }
  const out = new Float32Array(bits.length);
  for (let i = 0; i < out.length; i++) out[i] = table[Number(bits[i])]!;
  return out;
}

/** The index of the first NaN or inf in the raw elements of a float array; -1 if all are finite. */
export function indexOfNonfinite(dtype: DType, data: TypedArray): number {
  const format = FORMATS[dtype];
  // All exponent bits are 1; in formats without infinities, all bits except the sign.
  if (format)
    return indexOfBits(
      data as Uint16Array,
      (2 ** format.exponent - 1) * 2 ** format.mantissa + (format.finite ? 2 ** format.mantissa - 1 : 0),
    );
  if (data instanceof Float32Array)
    return indexOfBits(new Int32Array(data.buffer, data.byteOffset, data.length), 0x7f800000);
  return data instanceof Float64Array ? data.findIndex((x) => !Number.isFinite(x)) : -1;
}
/** A loop instead of findIndex: it takes a fifth of the time. */
function indexOfBits(words: ArrayLike<number>, bits: number): number {
  for (let i = 0; i < words.length; i++) if ((words[i]! & bits) === bits) return i;
  return -1;
}

/** The elements of `dtype` for plain numbers: rounded for floats, wrapped as typed arrays do for integers. */
export function encodeNumbers(dtype: DType, values: ArrayLike<number>): TypedArray {
  const format = FORMATS[dtype];
  const out = new DTYPES[dtype].array(values.length);
  if (out instanceof BigInt64Array || out instanceof BigUint64Array) {
    for (let i = 0; i < out.length; i++) out[i] = BigInt(Math.trunc(values[i]!));
  } else if (dtype === 'bool') {
    for (let i = 0; i < out.length; i++) out[i] = values[i] ? 1 : 0;
  } else {
    for (let i = 0; i < out.length; i++) out[i] = format ? encode(values[i]!, format) : values[i]!;
  }
  return out;
}
