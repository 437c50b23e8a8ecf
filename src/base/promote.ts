// torch's type promotion: the common dtype of two operands.
import { DTYPES, type DType } from './dtype.js';
import { DTypeError } from './errors.js';

const SIGNED = ['i8', 'i16', 'i32', 'i64'] as const;
const isIn = (list: readonly string[], d: DType) => list.includes(d);
export const isFloat = (d: DType): boolean => d.startsWith('f') || d === 'bf16';
export const isComplex = (d: DType): boolean => d === 'c64' || d === 'c128';
/** Floats and complex numbers, the dtypes that can have gradients. */
export const isInexact = (d: DType): boolean => isFloat(d) || isComplex(d);
export const isSigned = (d: DType): boolean => isIn(SIGNED, d);
export const isInteger = (d: DType): boolean => d !== 'bool' && !isInexact(d);
export const isUnsigned = (d: DType): boolean => isInteger(d) && !isSigned(d);

/** The dtype of floating point results of integers, as in torch. */
export const DEFAULT_FLOAT: DType = 'f32';

/** The dtype to compute small floats in: sums, products and differences would lose most of their digits otherwise. */
export const wideType = (d: DType): DType => (isFloat(d) && DTYPES[d].bytes < 4 ? 'f32' : d);

/** bool < integers < floats < complex: a scalar of a higher kind raises the kind of the result; one of the same kind does not. */
export const kindOf = (d: DType): 0 | 1 | 2 | 3 => (d === 'bool' ? 0 : isFloat(d) ? 2 : isComplex(d) ? 3 : 1);

/** The dtype of the parts and absolute values of a complex dtype; other dtypes are returned unchanged. */
export const partType = (d: DType): DType => (d === 'c64' ? 'f32' : d === 'c128' ? 'f64' : d);
/** The complex dtype with parts of a float dtype. */
export const complexType = (d: DType): DType => (isComplex(d) ? d : d === 'f64' ? 'c128' : 'c64');

/**
 * The smallest dtype for both operands: torch's table, plus two rows it lacks. torch has no rule for u16, u32 and u64 with
 * other integers: here they widen like u8. An f8 combines only with itself and scalars, since the intended dtype is unclear.
 */
export function promote(a: DType, b: DType): DType {
  if (a === b) return a;
  if (DTYPES[a].bytes === 1 && isFloat(a)) throw noCommon(a, b);
  if (DTYPES[b].bytes === 1 && isFloat(b)) throw noCommon(a, b);
  if (isComplex(a) || isComplex(b)) return a === 'c128' || b === 'c128' || a === 'f64' || b === 'f64' ? 'c128' : 'c64';
  if (kindOf(a) !== kindOf(b)) return kindOf(a) > kindOf(b) ? a : b;
  const large = DTYPES[a].bytes >= DTYPES[b].bytes ? a : b;
  if (isFloat(a)) return DTYPES[a].bytes === DTYPES[b].bytes ? 'f32' : large; // f16 with bf16
  if (isSigned(a) === isSigned(b)) return large;
  const unsigned = isSigned(a) ? b : a;
  const signed = isSigned(a) ? a : b;
  // A signed type must be wider to represent an unsigned one.
  if (DTYPES[signed].bytes > DTYPES[unsigned].bytes) return signed;
  const wider = SIGNED.find((d) => DTYPES[d].bytes > DTYPES[unsigned].bytes);
  if (!wider) throw noCommon(a, b);
  return wider;
}

const noCommon = (a: DType, b: DType) =>
  new DTypeError(`${a} and ${b} have no common dtype: convert one of them first`);
