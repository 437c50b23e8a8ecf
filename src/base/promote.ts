// torch's type promotion: which dtype two operands meet in.
import { DTYPES, type DType } from './dtype.js';
import { DTypeError } from './errors.js';

const SIGNED = ['i8', 'i16', 'i32', 'i64'] as const;
const isIn = (list: readonly string[], d: DType) => list.includes(d);
export const isFloat = (d: DType): boolean => d.startsWith('f') || d === 'bf16';
export const isSigned = (d: DType): boolean => isIn(SIGNED, d);
export const isInteger = (d: DType): boolean => d !== 'bool' && !isFloat(d);
export const isUnsigned = (d: DType): boolean => isInteger(d) && !isSigned(d);

/** The dtype of floating point results of integers, as in torch. */
export const DEFAULT_FLOAT: DType = 'f32';

/** The type that floats of fewer bits are computed in: sums, products and differences would lose all but their first digits. */
export const wideType = (d: DType): DType => (isFloat(d) && DTYPES[d].bytes < 4 ? 'f32' : d);

/** bool < integers < floats: a scalar of a higher kind raises the kind of the result, one of the same kind does not. */
export const kindOf = (d: DType): 0 | 1 | 2 => (d === 'bool' ? 0 : isFloat(d) ? 2 : 1);

/**
 * The smallest dtype that both fit in: torch's table, and two rows it lacks. torch has no answer for u16, u32 and u64 with
 * other integers: here they widen as u8 does. An f8 meets only itself and scalars: nothing but the user knows which is meant.
 */
export function promote(a: DType, b: DType): DType {
  if (a === b) return a;
  if (DTYPES[a].bytes === 1 && isFloat(a)) throw noCommon(a, b);
  if (DTYPES[b].bytes === 1 && isFloat(b)) throw noCommon(a, b);
  if (kindOf(a) !== kindOf(b)) return kindOf(a) > kindOf(b) ? a : b;
  const large = DTYPES[a].bytes >= DTYPES[b].bytes ? a : b;
  if (isFloat(a)) return DTYPES[a].bytes === DTYPES[b].bytes ? 'f32' : large; // f16 with bf16
  if (isSigned(a) === isSigned(b)) return large;
  const unsigned = isSigned(a) ? b : a;
  const signed = isSigned(a) ? a : b;
  // A signed type must be wider to hold an unsigned one.
  if (DTYPES[signed].bytes > DTYPES[unsigned].bytes) return signed;
  const wider = SIGNED.find((d) => DTYPES[d].bytes > DTYPES[unsigned].bytes);
  if (!wider) throw noCommon(a, b);
  return wider;
}

const noCommon = (a: DType, b: DType) =>
  new DTypeError(`${a} and ${b} have no common dtype: convert one of them first`);
