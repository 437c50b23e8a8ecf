// tx.masked: reductions and normalizations of the elements that a mask selects, with torch.masked's names. If no element of a
// row is selected, its sum is 0, its product 1, its mean NaN, and its maximum the least number of the dtype.
import type { DType } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { highest, lowest } from '../base/literal.js';
import { unknownOption } from '../base/options.js';
import { isFloat } from '../base/promote.js';
import { broadcastShapes, normalizeDims, range, type Shape, sameShape } from '../base/shape.js';
import { isPlain } from '../base/tree.js';
import { full } from './create.js';
import * as f from './functions.js';
import type { Tensor } from './tensor.js';

type Dims = number | Shape | null;
export interface MaskedOptions {
  readonly dtype?: DType | null;
  /** true selects an element. Broadcasts to the input. Default: all elements. */
  readonly mask?: Tensor | null;
}
export interface MaskedReduction extends MaskedOptions {
  readonly dim?: Dims;
  readonly keepdim?: boolean | null;
}
/** The dimensions, by position or by name. */
type Given<O> = [dim?: Dims | O, options?: O];

function optionsOf<O extends object>(op: string, given: Given<O>, keys: readonly string[]): O {
  const [first, second] = given;
  const options = (isPlain(first) ? first : { ...second, ...(first === undefined ? {} : { dim: first }) }) as O;
  const why = unknownOption(keys, options as Record<string, unknown>);
  if (why) throw new ArgumentError(`masked.${op}: ${why}`);
  return options;
}
const REDUCTION = ['dim', 'keepdim', 'dtype', 'mask'];

/** The dimensions to reduce. Default: all. */
const dimsOf = (op: string, x: Tensor, dim: Dims | undefined): number[] =>
  dim == null || (typeof dim === 'object' && !dim.length) ? range(x.ndim) : normalizeDims(`masked.${op}`, dim, x.ndim);

/** x with `value` where the mask is false. */
function filled(op: string, x: Tensor, mask: Tensor | null | undefined, value: number | bigint | boolean): Tensor {
  if (!mask) return x;
  if (mask.dtype !== 'bool') throw new DTypeError(`masked.${op}: the mask must be bool, got ${mask.aval}`);
  if (mask.ndim > x.ndim || !sameShape(broadcastShapes(op, mask.shape, x.shape), x.shape))
    throw new ShapeError(`masked.${op}: the mask ${mask.aval} does not broadcast to ${x.aval}`);
  return f.where(mask.expand(x.shape), x, full([], value, { dtype: x.dtype }));
}
const converted = (x: Tensor, dtype: DType | null | undefined): Tensor => (dtype ? x.to(dtype) : x);
/** Small integers are summed as i64, as in tx.sum. */
const wide = (x: Tensor): Tensor => (isFloat(x.dtype) ? x : x.long());
const least = (dtype: DType) => (isFloat(dtype) ? Number.NEGATIVE_INFINITY : lowest(dtype));
const most = (dtype: DType) => (isFloat(dtype) ? Number.POSITIVE_INFINITY : highest(dtype));

// ---- reductions

export function sum(x: Tensor, ...given: Given<MaskedReduction>): Tensor {
  const { dim, keepdim, dtype, mask } = optionsOf('sum', given, REDUCTION);
  const y = converted(filled('sum', x, mask, 0), dtype);
  const dims = dimsOf('sum', x, dim);
  return dims.length ? y.sum({ dim: dims, keepdim: keepdim ?? false }) : y.sum();
}
export function prod(x: Tensor, ...given: Given<MaskedReduction>): Tensor {
  const { dim, keepdim, dtype, mask } = optionsOf('prod', given, REDUCTION);
  const y = dtype ? x.to(dtype) : wide(x);
  return dimsOf('prod', x, dim)
    .sort((a, b) => b - a)
    .reduce((z, d) => z.prod({ dim: d, keepdim: keepdim ?? false }), filled('prod', y, mask, 1));
}
const extreme = (op: 'amax' | 'amin', fill: (dtype: DType) => number | bigint | boolean) => {
  return (x: Tensor, ...given: Given<MaskedReduction>): Tensor => {
    const { dim, keepdim, dtype, mask } = optionsOf(op, given, REDUCTION);
    const y = filled(op, converted(x, dtype), mask, fill(dtype ?? x.dtype));
    const dims = dimsOf(op, x, dim);
    return dims.length ? y[op]({ dim: dims, keepdim: keepdim ?? false }) : y;
  };
};
export const amax = extreme('amax', least);
export const amin = extreme('amin', most);
const place = (op: 'argmax' | 'argmin', fill: (dtype: DType) => number | bigint | boolean) => {
  return (x: Tensor, ...given: Given<MaskedReduction & { readonly dim?: number | null }>): Tensor => {
    const { dim, keepdim, dtype, mask } = optionsOf(op, given, REDUCTION);
    const y = filled(op, converted(x, dtype), mask, fill(dtype ?? x.dtype));
    return y[op]({ ...(typeof dim === 'number' && { dim }), keepdim: keepdim ?? false }).to(dtype ?? x.dtype); // as torch
  };
};
export const argmax = place('argmax', least);
export const argmin = place('argmin', most);

/** The number of selected elements. */
const countOf = (op: string, x: Tensor, dim: Dims | undefined, keepdim: boolean, mask?: Tensor | null): Tensor => {
  const ones = full(x.shape, 1, { dtype: 'i64' });
  const dims = dimsOf(op, x, dim);
  const counted = filled(op, ones, mask, 0);
  return dims.length ? counted.sum({ dim: dims, keepdim }) : counted;
};
export function mean(x: Tensor, ...given: Given<MaskedReduction>): Tensor {
  const { dim, keepdim, dtype, mask } = optionsOf('mean', given, REDUCTION);
  if (!isFloat(dtype ?? x.dtype))
    throw new DTypeError(`masked.mean: the mean of ${dtype ?? x.dtype} needs a float dtype: pass { dtype: 'f32' }`);
  const count = countOf('mean', x, dim, keepdim ?? false, mask);
  return sum(x, { dim: dim ?? null, keepdim: keepdim ?? false, dtype: dtype ?? null, mask: mask ?? null }).div(count);
}
/** Along one dimension. Default: the last. Unlike torch: for floats only. */
export function median(x: Tensor, ...given: Given<MaskedReduction & { readonly dim?: number | null }>): Tensor {
  const { dim, keepdim, mask } = optionsOf('median', given, REDUCTION);
  if (!isFloat(x.dtype)) throw new DTypeError(`masked.median: takes floats, got ${x.aval}: use float()`);
  const y = filled('median', x, mask, Number.NaN);
  return y.ndim ? y.nanmedian({ dim: (dim as number | null) ?? -1, keepdim: keepdim ?? false }).values : y;
}
export function logsumexp(x: Tensor, ...given: Given<MaskedReduction>): Tensor {
  const { dim, keepdim, dtype, mask } = optionsOf('logsumexp', given, REDUCTION);
  const y = filled('logsumexp', x, mask, least(x.dtype));
  const total = f.logsumexp(y, { dim: dimsOf('logsumexp', x, dim), keepdim: keepdim ?? false });
  return total.to(dtype ?? x.dtype);
}
export function norm(
  x: Tensor,
  ord: number | null = 2,
  ...given: Given<MaskedReduction & { readonly ord?: number }>
): Tensor {
  const { dim, keepdim, dtype, mask } = optionsOf('norm', given, REDUCTION);
  const y = converted(filled('norm', x, mask, ord === Number.NEGATIVE_INFINITY ? Number.POSITIVE_INFINITY : 0), dtype);
  return f.vectorNorm(y, { p: ord ?? 2, dim: dimsOf('norm', x, dim), keepdim: keepdim ?? false });
}

export interface MaskedVariance extends MaskedReduction {
  /** true: divides by the count - 1. */
  readonly unbiased?: boolean | null;
  /** Subtracted from the count. Default: 1. */
  readonly correction?: number | null;
}
const spread = (op: string, finish: (x: Tensor) => Tensor) => {
  return (
    x: Tensor,
    ...given: [dim?: Dims | MaskedVariance, unbiased?: boolean | MaskedVariance, o?: MaskedVariance]
  ) => {
    const [dimGiven, second, third] = given;
    const by = typeof second === 'boolean' ? { ...third, unbiased: second } : second;
    const all = [dimGiven, by] as Given<MaskedVariance>;
    const o = optionsOf(op, all, [...REDUCTION, 'unbiased', 'correction']);
    const { dim = null, keepdim, dtype, mask = null, unbiased, correction } = o;
    const off = correction ?? (unbiased === false ? 0 : 1);
    const type = dtype ?? (isFloat(x.dtype) ? x.dtype : 'f32');
    const count = countOf(op, x, dim, true, mask);
    const middle = sum(x, { dim, keepdim: true, dtype: type, mask }).div(count);
    const apart = f.sub(x, middle).square();
    const total = sum(apart, { dim, keepdim: keepdim ?? false, dtype: type, mask });
    const divisor = count.reshape(total.shape).to(type).sub(off).clampMin(0);
    return finish(total.div(off ? divisor : count.reshape(total.shape)).to(type));
  };
};
/** The variance. Default: divided by the count - 1. */
export const var_ = spread('var', (x) => x);
export { var_ as var };
export const std = spread('std', (x) => x.sqrt());

// ---- along a dimension

const along = (
  op: string,
  fill: (dtype: DType) => number | bigint | boolean,
  run: (x: Tensor, dim: number) => Tensor,
) => {
  return (x: Tensor, dim: number, options: MaskedOptions = {}): Tensor => {
    const { dtype, mask } = optionsOf(op, [options], ['dtype', 'mask']);
    const y = converted(x, dtype);
    return run(filled(op, y, mask, fill(y.dtype)), dim);
  };
};
export const cumsum = along(
  'cumsum',
  () => 0,
  (x, dim) => x.cumsum(dim),
);
export const cumprod = along(
  'cumprod',
  () => 1,
  (x, dim) => x.cumprod(dim),
);
export const softmax = along('softmax', least, (x, dim) => x.softmax(dim));
export const logSoftmax = along('logSoftmax', least, (x, dim) => x.logSoftmax(dim));
export const softmin = along('softmin', most, (x, dim) => x.softmin(dim));
/** Divides by the norm of the selected elements; zeros elsewhere. */
export function normalize(
  x: Tensor,
  ord: number,
  dim: number,
  options: MaskedOptions & { readonly eps?: number } = {},
): Tensor {
  const { eps = 1e-12, dtype, mask } = optionsOf('normalize', [options], ['dtype', 'mask', 'eps']);
  const length = norm(x, ord, dim, { keepdim: true, dtype: dtype ?? null, mask: mask ?? null });
  return filled('normalize', x, mask, 0).div(f.maximum(length, full([], eps, { dtype: length.dtype })));
}
/** Takes two inputs, each with its own mask. */
export function logaddexp(
  x: Tensor,
  other: Tensor,
  options: {
    readonly dtype?: DType | null;
    readonly inputMask?: Tensor | null;
    readonly otherMask?: Tensor | null;
  } = {},
): Tensor {
  const { dtype, inputMask, otherMask } = optionsOf('logaddexp', [options], ['dtype', 'inputMask', 'otherMask']);
  const [a, b] = [
    filled('logaddexp', x, inputMask, least(x.dtype)),
    filled('logaddexp', other, otherMask, least(other.dtype)),
  ];
  return f.logaddexp(a, b).to(dtype ?? x.dtype);
}
