// nonzero, maskedSelect, unique and others whose result size depends on values. With a `size` they are ordinary operations,
// also inside compiled functions: results are padded to that size. Without one they read the values and return a promise,
// outside of compiled functions only.
import { type HostArray, sizeOf, type TypedArray } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { decodeFloats } from '../base/float.js';
import { broadcastShapes, normalizeDim, range, type Shape } from '../base/shape.js';
import { insideBody } from '../ir/scope.js';
import { entry } from '../ir/source.js';
import { broadcastTo } from '../ops/prim/broadcast.js';
import { takeAt } from '../ops/prim/gather.js';
import { flat } from '../ops/prim/move.js';
import { detach } from '../ops/prim/variable.js';
import * as sized from '../ops/selection.js';
import { events } from '../runtime/events.js';
import { checked, named } from './arguments.js';
import { tensor } from './create.js';
import { hostArrayOf } from './offsets.js';
import { currentStep } from './scope.js';
import { Tensor } from './tensor.js';

/** The result if a size is given, otherwise a promise of it. */
type Sized<O, R> = O extends { readonly size: number } ? R : Promise<R>;

/** Checks that values can be read here: the error says what to write inside compiled functions. */
function reading(op: string, x: Tensor, most: string): Tensor {
  if (currentStep() || insideBody())
    throw new ArgumentError(
      `${op}: the size of the result depends on the values of ${x.aval}, which a compiled function does not have: pass ${most}`,
    );
  return new Tensor(detach(x.expr));
}
/** The elements as JavaScript values. */
const elements = async (x: Tensor): Promise<TypedArray> => decodeFloats(x.dtype, await x.data());
const made = (data: TypedArray, shape: Shape, dtype: HostArray['dtype'] = 'i64'): Tensor =>
  tensor(data, { dtype, shape });

// ---- places

export interface NonzeroOptions {
  /** The size of the result: the first elements in row-major order. Default: their number, which is read. */
  readonly size?: number;
  /** The padding value. Default: -1. */
  readonly fill?: number;
  /** Returns a vector for each dimension instead of rows of indices. Default: false. */
  readonly asTuple?: boolean;
}
type NonzeroResult<O> = O extends { readonly asTuple: true } ? Tensor[] : Tensor;

const columnsOf = (rows: Tensor): Tensor[] => range(rows.shape[1]!).map((d) => rows.select(1, d));

/** The flat indices of nonzero elements. NaN is nonzero. */
function placesOf(data: TypedArray): number[] {
  const places: number[] = [];
  for (let i = 0; i < data.length; i++) if (data[i] !== 0 && data[i] !== 0n) places.push(i);
  return places;
}
async function nonzeroOf(x: Tensor, asTuple: boolean): Promise<Tensor | Tensor[]> {
  const { shape } = x;
  const places = placesOf(await elements(x));
  const strides = shape.map((_, d) => sizeOf(shape.slice(d + 1)));
  const column = (d: number) => places.map((i) => BigInt(Math.floor(i / strides[d]!) % shape[d]!));
  if (asTuple)
    return (shape.length ? range(shape.length) : []).map((d) => made(BigInt64Array.from(column(d)), [places.length]));
  const columns = range(shape.length).map(column);
  return made(BigInt64Array.from(places.flatMap((_, k) => columns.map((c) => c[k]!))), [places.length, shape.length]);
}
const nonzeroBy =
  (op: string) =>
  <const O extends NonzeroOptions = object>(x: Tensor, options?: O): Sized<O, NonzeroResult<O>> => {
    const { size, fill, asTuple = false } = options ?? ({} as NonzeroOptions);
    events.op(op);
    if (size == null)
      return nonzeroOf(reading(op, x, `the largest possible size, ${op}(x, { size: n })`), asTuple) as never;
    const rows = new Tensor(sized.nonzero(op, x.expr, { size, fill }));
    return (asTuple ? columnsOf(rows) : rows) as never;
  };
/**
 * The indices of nonzero elements, [count, rank]. Unlike torch: a promise, as their number is read; with `size` a tensor
 * [size, rank] padded with `fill` (torch.nonzero_static), also inside compiled functions.
 */
export const nonzero = checked('nonzero', nonzeroBy('nonzero'));
/** The same as nonzero. Unlike torch: a promise, or a tensor of `size`, as nonzero. */
export const argwhere = checked('argwhere', nonzeroBy('argwhere'));

/** The first `size` indices of nonzero elements, padded with `fillValue`: nonzero with a size. */
export const nonzeroStatic = checked(
  'nonzeroStatic',
  (x: Tensor, { size, fillValue = -1 }: { readonly size: number; readonly fillValue?: number }): Tensor =>
    nonzero(x, { size, fill: fillValue }),
);

export interface MaskedSelectOptions {
  /** The size of the result. Default: the number of selected elements, which is read. */
  readonly size?: number;
  /** The padding value. Default: 0. */
  readonly fill?: number;
}
/**
 * The elements where the mask is true, as a vector; x and mask broadcast. To change them use maskedFill, maskedScatter or
 * indexPut([mask], values). Unlike torch: a promise, as the mask is read; with `size` a tensor, also inside compiled
 * functions.
 */
export const maskedSelect = checked(
  'maskedSelect',
  <const O extends MaskedSelectOptions = object>(x: Tensor, mask: Tensor, options?: O): Sized<O, Tensor> => {
    const { size, fill } = options ?? ({} as MaskedSelectOptions);
    events.op('maskedSelect');
    if (size != null) return new Tensor(sized.maskedSelect(x.expr, mask.expr, { size, fill })) as never;
    sized.checkMask('maskedSelect', mask.expr);
    const shape = broadcastShapes('maskedSelect', x.shape, mask.shape);
    const held = reading('maskedSelect', mask, 'the largest possible size, maskedSelect(x, mask, { size: n })');
    const { expr } = x;
    return (async () => {
      const places = placesOf(await elements(new Tensor(broadcastTo(held.expr, shape))));
      const index = made(BigInt64Array.from(places, BigInt), [places.length]);
      return new Tensor(takeAt(flat(broadcastTo(expr, shape)), [0], [index.expr], 'inRange'));
    })() as never;
  },
);

// ---- different values

export interface UniqueConsecutiveOptions {
  /** The size of the result. Default: the number of different values, which is read. */
  readonly size?: number;
  /** The padding value. Default: 0. */
  readonly fill?: number;
  /** Compares slices along this dimension. Default: all elements. */
  readonly dim?: number;
  /** Also returns, for each element, the index of its value. Default: false. */
  readonly returnInverse?: boolean;
  /** Also returns how often each value occurs. Default: false. */
  readonly returnCounts?: boolean;
}
export interface UniqueOptions extends UniqueConsecutiveOptions {
  /** Accepted as in torch: the result is always sorted. */
  readonly sorted?: boolean;
}
type UniqueResult<O> = O extends { readonly returnInverse: true }
  ? O extends { readonly returnCounts: true }
    ? [values: Tensor, inverse: Tensor, counts: Tensor]
    : [values: Tensor, inverse: Tensor]
  : O extends { readonly returnCounts: true }
    ? [values: Tensor, counts: Tensor]
    : Tensor;

const NAN_LAST = (a: number | bigint, b: number | bigint): number =>
  a < b ? -1 : a > b ? 1 : Number(Number.isNaN(a)) - Number(Number.isNaN(b));

/** Values, inverse indices and counts of an array on the host. */
function uniqueOf(op: string, { dtype, shape, data }: HostArray, dim: number | undefined, sorted: boolean): Tensor[] {
  const numbers = decodeFloats(dtype, data) as ArrayLike<number | bigint>;
  const d = dim === undefined ? 0 : normalizeDim(op, dim, shape.length);
  const [n, before, after] =
    dim === undefined ? [sizeOf(shape), 1, 1] : [shape[d] ?? 1, sizeOf(shape.slice(0, d)), sizeOf(shape.slice(d + 1))];
  const width = before * after;
  const place = (row: number, c: number) => (Math.floor(c / after) * n + row) * after + (c % after);
  const compare = (i: number, j: number): number => {
    for (let c = 0; c < width; c++) {
      const way = NAN_LAST(numbers[place(i, c)]!, numbers[place(j, c)]!);
      if (way) return way;
    }
    return 0;
  };
  /** As in torch, NaN differs from itself. */
  const differs = (i: number, j: number) => range(width).some((c) => numbers[place(i, c)] !== numbers[place(j, c)]);
  const order = range(n);
  if (sorted) order.sort((i, j) => compare(i, j) || i - j);
  const [firsts, counts, inverse]: [number[], number[], BigInt64Array] = [[], [], new BigInt64Array(n)];
  for (const [k, row] of order.entries()) {
    if (!k || differs(order[k - 1]!, row)) {
      firsts.push(row);
      counts.push(0);
    }
    counts[counts.length - 1]!++;
    inverse[row] = BigInt(firsts.length - 1);
  }
  const m = firsts.length;
  const values = data.slice(0, m * width) as Float32Array;
  for (let c = 0; c < width; c++)
    for (let k = 0; k < m; k++)
      values[(Math.floor(c / after) * m + k) * after + (c % after)] = (data as Float32Array)[place(firsts[k]!, c)]!;
  return [
    made(values, dim === undefined ? [m] : shape.with(d, m), dtype),
    made(inverse, dim === undefined ? shape : [n]),
    made(BigInt64Array.from(counts, BigInt), [m]),
  ];
}
const uniqueBy =
  (op: string, sorted: boolean) =>
  <const O extends UniqueOptions = object>(x: Tensor, options?: O): Sized<O, UniqueResult<O>> => {
    const { size, fill, dim, returnInverse = false, returnCounts = false } = options ?? ({} as UniqueOptions);
    if (dim != null) normalizeDim(op, dim, x.shape.length);
    const along = x.shape.length ? (dim ?? undefined) : undefined; // a scalar is one element
    const wanted = [true, returnInverse, returnCounts];
    const picked = (all: readonly Tensor[]) => {
      const some = all.filter((_, i) => wanted[i]);
      return some.length > 1 ? some : some[0]!;
    };
    events.op(op);
    if (size != null) {
      const { values, inverse, counts } = sized.unique(op, x.expr, { size, fill, dim: along }, sorted);
      return picked([values, inverse, counts].map((e) => new Tensor(e))) as never;
    }
    const now = reading(op, x, `the size of the result, ${op}(x, { size: 16, fill: 0 })`);
    return (async () => {
      const { dtype, shape } = now;
      return picked(uniqueOf(op, { dtype, shape, data: await now.data() }, along, sorted));
    })() as never;
  };
/**
 * The unique values, sorted, or the unique slices along `dim`. Unlike torch: a promise, as values are read; with `size`
 * tensors of that size, also inside compiled functions: padded with `fill`, and values beyond the size are dropped.
 */
export const unique = checked('unique', uniqueBy('unique', true));
/** One element of each run of equal neighbours. Unlike torch: a promise, or tensors of `size`, as for unique. */
export const uniqueConsecutive = checked(
  'uniqueConsecutive',
  uniqueBy('uniqueConsecutive', false) as <const O extends UniqueConsecutiveOptions = object>(
    x: Tensor,
    options?: O,
  ) => Sized<O, UniqueResult<O>>,
);

// ---- counts

export interface BincountOptions {
  /** The number of bins. Default: the largest value + 1, which is read. */
  readonly minlength?: number;
  readonly weights?: Tensor;
}
type Counted<O> = O extends { readonly minlength: 0 }
  ? Promise<Tensor>
  : O extends { readonly minlength: number }
    ? Tensor
    : Promise<Tensor>;
interface Bincount {
  (x: Tensor, weights: Tensor | null, minlength: number): Tensor;
  (x: Tensor, weights: Tensor): Promise<Tensor>;
  <const O extends BincountOptions = object>(x: Tensor, options?: O): Counted<O>;
}
/**
 * Counts each of 0, 1, 2, ..., or sums their weights. Unlike torch: without minlength (or with 0) a promise, as the largest
 * value is read. With minlength a tensor of that many bins, also inside compiled functions: a larger value is an error if
 * the host has the values, and is dropped if only the device has them.
 */
export const bincount: Bincount = checked('bincount', ((x: Tensor, ...given: unknown[]) => {
  const { minlength, weights } = named<BincountOptions>(['weights', 'minlength'], given);
  events.op('bincount');
  const { expr } = x;
  const each = weights?.expr;
  sized.checkCounts(expr, each);
  const binsOf = (data: TypedArray) => {
    let [least, most] = [0, (minlength ?? 0) - 1];
    for (const n of data) [least, most] = [Math.min(least, Number(n)), Math.max(most, Number(n))];
    if (least < 0)
      throw new ArgumentError(`bincount: ${expr.aval} has the value ${least}: values must not be negative`);
    return most + 1;
  };
  const seen = currentStep() || insideBody() ? undefined : hostArrayOf(expr);
  if (seen && minlength && binsOf(seen) > minlength)
    throw new ArgumentError(
      `bincount: ${expr.aval} has the value ${binsOf(seen) - 1}, but there are ${minlength} bins: pass { minlength: ${binsOf(seen)} }, or await bincount(x)`,
    );
  if (minlength) return new Tensor(sized.bincount(expr, minlength, each));
  const now = reading('bincount', x, 'the number of bins, bincount(x, { minlength: 10 })');
  return (async () => new Tensor(sized.bincount(expr, binsOf(await now.data()), each)))();
}) as Bincount);

// ---- as methods

declare module './tensor.js' {
  interface Tensor {
    nonzero<const O extends NonzeroOptions = object>(options?: O): Sized<O, NonzeroResult<O>>;
    argwhere<const O extends NonzeroOptions = object>(options?: O): Sized<O, NonzeroResult<O>>;
    nonzeroStatic(options: { readonly size: number; readonly fillValue?: number }): Tensor;
    maskedSelect<const O extends MaskedSelectOptions = object>(mask: Tensor, options?: O): Sized<O, Tensor>;
    unique<const O extends UniqueOptions = object>(options?: O): Sized<O, UniqueResult<O>>;
    uniqueConsecutive<const O extends UniqueConsecutiveOptions = object>(options?: O): Sized<O, UniqueResult<O>>;
    bincount(weights: Tensor | null, minlength: number): Tensor;
    bincount(weights: Tensor): Promise<Tensor>;
    bincount<const O extends BincountOptions = object>(options?: O): Counted<O>;
  }
}
for (const [name, f] of Object.entries({
  nonzero,
  argwhere,
  nonzeroStatic,
  maskedSelect,
  unique,
  uniqueConsecutive,
  bincount,
})) {
  const method = entry(function (this: Tensor, ...args: unknown[]) {
    return (f as (x: Tensor, ...args: unknown[]) => unknown)(this, ...args);
  });
  Object.defineProperty(Tensor.prototype, name, { value: method, writable: true, configurable: true });
}
