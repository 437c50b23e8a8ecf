// Collating: stacks the items of a batch into one tree of arrays whose first dimension is the batch.
import { DTYPES, type DType, type HostArray, isHostArray, sameType, show, type TypedArray } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { type Flat, flatten, leafName, showPaths } from '../base/tree.js';
import { tensor } from '../tensor/create.js';
import { type Nested, Tensor } from '../tensor/tensor.js';

type Scalar = number | bigint | boolean;
/** The type of a batch of such items: arrays for numbers and arrays, lists for strings. */
export type Collated<T, A = Tensor> = T extends string
  ? string[]
  : T extends readonly [unknown, ...unknown[]]
    ? { -readonly [K in keyof T]: Collated<T[K], A> }
    : T extends Scalar | TypedArray | HostArray | Tensor | readonly (Scalar | readonly unknown[])[]
      ? A
      : T extends object
        ? { -readonly [K in keyof T]: Collated<T[K], A> }
        : T;

/** The type of a loader's batch, given the result of a collate function: arrays become tensors. */
export type Placed<R> = R extends TypedArray | HostArray
  ? Tensor
  : R extends Tensor
    ? R
    : R extends object
      ? { [K in keyof R]: Placed<R[K]> }
      : R;

/** One dtype for all numbers, or by the leaf's path as in errors: { '.label': 'i32' }. */
export type DTypes = DType | Readonly<Record<string, DType>>;

export interface CollateOptions {
  /** The dtype of numbers. Default: i64 for whole ones, f32 for others. Typed arrays and tensors keep theirs. */
  readonly dtype?: DTypes;
}

export type Leaf = Scalar | string | TypedArray | HostArray | Tensor | Nested;
/** An array of numbers, of any depth, is one leaf; an array with anything else in it is a tuple of leaves. */
const isNumeric = (x: unknown, depth = 0): boolean =>
  Array.isArray(x)
    ? depth < 64 && x.every((e) => isNumeric(e, depth + 1))
    : ['number', 'bigint', 'boolean'].includes(typeof x);
const isLeaf = (x: unknown): x is Leaf =>
  typeof x === 'string' || ArrayBuffer.isView(x) || x instanceof Tensor || isNumeric(x) || isHostArray(x);

export const leavesOf = (item: unknown, i: number): Flat<Leaf> =>
  flatten(
    `item ${i} of the batch`,
    item,
    isLeaf,
    'numbers, typed arrays, tensors or strings, or nested arrays and objects of them',
  );

/** The items' trees, all of the same form. */
export function sameForm(items: readonly unknown[]): Flat<Leaf>[] {
  if (!items.length) throw new ArgumentError('collate: the batch has no items');
  const flats = items.map(leavesOf);
  const odd = flats.findIndex((flat) => flat.form !== flats[0]!.form);
  if (odd > 0)
    throw new ArgumentError(
      `collate: item 0 of the batch has ${showPaths(flats[0]!.paths)}, item ${odd} ${showPaths(flats[odd]!.paths)}: ` +
        'all must have the same',
    );
  return flats;
}

/** A leaf as a host array, with numbers in this dtype. */
export async function toHostArray(leaf: Exclude<Leaf, string>, dtype: DType | undefined): Promise<HostArray> {
  if (leaf instanceof Tensor) return { dtype: leaf.dtype, shape: leaf.shape, data: await leaf.data() };
  if (isHostArray(leaf)) return leaf;
  if (ArrayBuffer.isView(leaf)) {
    const own = dtypeOf(leaf as TypedArray);
    if (!dtype || dtype === own) return { dtype: own, shape: [leaf.length], data: leaf as TypedArray };
  }
  return toHostArray(tensor(leaf as Nested | TypedArray, dtype ? { dtype } : {}), dtype);
}

const OF_ARRAYS = ['f32', 'f64', 'i8', 'i16', 'i32', 'i64', 'u8', 'u16', 'u32', 'u64'] as const;
/** The default dtype of a typed array. */
export function dtypeOf(array: TypedArray): DType {
  const dtype = OF_ARRAYS.find((d) => array instanceof DTYPES[d].array);
  if (dtype) return dtype;
  throw new DTypeError(`collate: no dtype matches a ${(array as object).constructor.name}: use { dtype, shape, data }`);
}

/** The dtype of JavaScript's numbers: of all of a batch together, as one that is not whole makes all of them floats. */
function dtypeOfNumbers(numbers: Nested): DType {
  const flat = [numbers].flat(Number.POSITIVE_INFINITY as 1) as Scalar[];
  if (flat.length && flat.every((x) => typeof x === 'boolean')) return 'bool';
  return flat.every((x) => typeof x !== 'number' || Number.isInteger(x)) ? 'i64' : 'f32';
}

/** The dtype that numbers in one place of the items are to have; undefined for arrays that have their own. */
export const dtypeOfColumn = (leaves: readonly Leaf[], path: string, dtypes: DTypes | undefined): DType | undefined =>
  (typeof dtypes === 'string' ? dtypes : dtypes?.[path]) ??
  (leaves.every((x) => isNumeric(x)) ? dtypeOfNumbers(leaves as Nested) : undefined);

/** Stacks the leaves of all items at one path. */
async function stackLeaves(
  leaves: readonly Leaf[],
  path: string,
  dtypes: DTypes | undefined,
): Promise<HostArray | string[]> {
  const texts = leaves.filter((x) => typeof x === 'string');
  if (texts.length === leaves.length) return texts;
  if (texts.length)
    throw new DTypeError(
      `collate: ${leafName('the item', path)} is a string in some items of the batch and a number in others`,
    );
  const numbers = leaves as Exclude<Leaf, string>[];
  const dtype = dtypeOfColumn(numbers, path, dtypes);
  if (dtype && numbers.every((x) => typeof x !== 'object'))
    return toHostArray(tensor(numbers as Nested, { dtype }), dtype);
  return stackArrays(await Promise.all(numbers.map((x) => toHostArray(x, dtype))), path);
}

export function stackArrays(arrays: readonly HostArray[], path: string): HostArray {
  const [first] = arrays as [HostArray];
  const odd = arrays.findIndex((a) => !sameType(a, first));
  if (odd >= 0)
    throw new ShapeError(
      `collate: ${leafName('the item', path)} is ${show(first)} in item 0 of the batch and ${show(arrays[odd]!)} in item ${odd}: ` +
        'make them equal, or pad them with bucketCollate',
    );
  const size = first.data.length;
  const data = new DTYPES[first.dtype].array(size * arrays.length);
  arrays.forEach((a, i) => data.set(a.data as never, i * size));
  return { dtype: first.dtype, shape: [arrays.length, ...first.shape], data };
}

/**
 * Stacks the items of a batch: numbers become a vector, arrays get a leading dimension; trees keep their structure. An array
 * of numbers is one leaf: use an object for a pair of values.
 */
export function stackCollate(options: CollateOptions = {}) {
  checkOptions('stackCollate', ['dtype'], options);
  const { dtype } = options;
  return async <T>(items: readonly T[]): Promise<Collated<T, HostArray>> => {
    const flats = sameForm(items);
    const { paths, rebuild } = flats[0]!;
    const column = (leaf: number) => flats.map((f) => f.leaves[leaf]!);
    const stacked = await Promise.all(paths.map((path, leaf) => stackLeaves(column(leaf), path, dtype)));
    return rebuild(stacked) as Collated<T, HostArray>;
  };
}
