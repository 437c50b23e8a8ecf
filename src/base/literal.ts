// Exact MLIR literals of numbers, and the limits of each dtype's range.
import { DTYPES, type DType } from './dtype.js';
import { ArgumentError } from './errors.js';
import { encodeNumbers } from './float.js';
import { isComplex, isFloat, isInteger, isSigned, partType } from './promote.js';

export function literal(value: number | bigint | boolean, dtype: DType): string {
  if (dtype === 'bool') return String(Boolean(value));
  if (isComplex(dtype)) return `(${literal(value, partType(dtype))}, 0.0)`;
  if (!isFloat(dtype)) {
    if (typeof value === 'number' && !Number.isFinite(value))
      throw new ArgumentError(`${value} is not a value of ${dtype}: integers have neither infinities nor NaN`);
    const whole = typeof value === 'bigint' ? value : BigInt(Math.trunc(Number(value)));
    return String((isSigned(dtype) ? BigInt.asIntN : BigInt.asUintN)(8 * DTYPES[dtype].bytes, whole)); // wraps, as in torch
  }
  const x = Number(value);
  if (!Number.isFinite(x)) return bits(dtype, x);
  const [mantissa, exponent] = (Object.is(x, -0) ? '-0' : String(x)).split('e') as [string, string?];
  return `${mantissa.includes('.') ? mantissa : `${mantissa}.0`}${exponent ? `e${exponent}` : ''}`;
}

/** The bits of a number in hexadecimal, most significant first: infinities and NaN have no decimal form. */
function bits(dtype: DType, x: number): string {
  const bytes = new Uint8Array(encodeNumbers(dtype, [x]).buffer).reverse();
  return `0x${Array.from(bytes, (b) => b.toString(16).padStart(2, '0'))
    .join('')
    .toUpperCase()}`;
}

/** Whether a dtype can represent a number: integers only those in their range, floats any, rounded. */
export const fits = (value: number | bigint | boolean, dtype: DType): boolean =>
  !isInteger(dtype) || (value >= lowest(dtype) && value <= highest(dtype));

/** The smallest value: -infinity for floats that have one. */
export function lowest(dtype: DType): number | bigint | boolean {
  if (dtype === 'bool') return false;
  if (isFloat(dtype)) return dtype === 'f8e4m3fn' ? -448 : Number.NEGATIVE_INFINITY;
  return isSigned(dtype) ? -(2n ** BigInt(8 * DTYPES[dtype].bytes - 1)) : 0n;
}
export function highest(dtype: DType): number | bigint | boolean {
  if (dtype === 'bool') return true;
  if (isFloat(dtype)) return dtype === 'f8e4m3fn' ? 448 : Number.POSITIVE_INFINITY;
  return 2n ** BigInt(8 * DTYPES[dtype].bytes - (isSigned(dtype) ? 1 : 0)) - 1n;
}
