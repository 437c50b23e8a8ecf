// Pads sequences to a few bucket lengths, so that few programs are compiled.
import { checkWhole } from '../base/check.js';
import { DTYPES, type HostArray, numbersIn, sizeOf } from '../base/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../base/errors.js';
import { encodeNumbers } from '../base/float.js';
import { checkOptions as checkNames } from '../base/options.js';
import { isComplex, isFloat } from '../base/promote.js';
import { leafName } from '../base/tree.js';
import type { Tensor } from '../tensor/tensor.js';
import {
  type Collated,
  type CollateOptions,
  dtypeOfColumn,
  type Leaf,
  sameForm,
  stackArrays,
  toHostArray,
} from './collate.js';

export interface BucketOptions extends CollateOptions {
  /** Lengths are padded to multiples of this (default: 128), or to the next of `buckets`. */
  readonly multiple?: number;
  readonly buckets?: readonly number[];
  /** The maximum length, with `multiple`. */
  readonly maxLength?: number;
  /** Sequences longer than the last bucket or maxLength are an error or truncated. Default: 'error'. */
  readonly tooLong?: 'error' | 'truncate';
  /** The paths of the sequences. Default: every array of an item. */
  readonly sequences?: readonly string[];
  /** The padding value: a number for all, or by the leaf's path: { '.labels': -100 }. Default: 0. */
  readonly padValue?: number | Readonly<Record<string, number>>;
}

/** A batch of sequences, or of objects with sequences in them. */
export type Bucketed<T> = (T extends ArrayLike<number | bigint> | HostArray | Tensor
  ? { readonly values: HostArray }
  : Collated<T, HostArray>) & {
  /** bool [items, length]: true for elements of sequences, false for padding. */
  readonly mask: HostArray;
  /** i32 [items]. */
  readonly lengths: HostArray;
};

/** The length that a sequence of n is padded to. */
function bucketOf(
  n: number,
  { multiple = 128, buckets, maxLength = Number.POSITIVE_INFINITY }: BucketOptions,
): number | undefined {
  if (buckets) return buckets.find((b) => b >= n);
  return n <= maxLength ? Math.min(Math.max(1, Math.ceil(n / multiple)) * multiple, maxLength) : undefined;
}

const OPTIONS = ['multiple', 'buckets', 'maxLength', 'tooLong', 'sequences', 'padValue', 'dtype'] as const;
function checkOptions(o: BucketOptions): BucketOptions {
  checkNames('bucketCollate', OPTIONS, o);
  if (o.buckets && (o.multiple !== undefined || o.maxLength !== undefined))
    throw new ArgumentError('bucketCollate: buckets cannot be combined with multiple or maxLength: give one of them');
  if (o.buckets && !o.buckets.length) throw new ArgumentError('bucketCollate: buckets is empty');
  for (const b of o.buckets ?? []) checkWhole('bucketCollate: a bucket', b, 1);
  checkWhole('bucketCollate: multiple', o.multiple ?? 128, 1);
  if (o.maxLength !== undefined) checkWhole('bucketCollate: maxLength', o.maxLength, 1);
  return o.buckets ? { ...o, buckets: o.buckets.toSorted((a, b) => a - b) } : o;
}

/**
 * Pads the sequences of a batch (the first dimension of every array in an item) to the next bucket, and adds `mask` and
 * `lengths`. An item that is one sequence becomes { values, mask, lengths }; an object gets these as further fields. Numbers
 * and strings of an item are stacked.
 */
export function bucketCollate(options: BucketOptions = {}) {
  const o = checkOptions(options);
  return async <T>(items: readonly T[]): Promise<Bucketed<T>> => {
    const flats = sameForm(items);
    const { paths, rebuild } = flats[0]!;
    const taken = paths.find((path) => /^\.?(mask|lengths)$/.test(path));
    if (taken)
      throw new ArgumentError(
        `bucketCollate: the items have a field ${taken.replace('.', '')}, which bucketCollate adds: rename it`,
      );
    const columns = await Promise.all(
      paths.map((path, leaf) =>
        columnOf(
          flats.map((f) => f.leaves[leaf]!),
          path,
          o,
        ),
      ),
    );
    const sequences = columns.filter((c) => c.isSequence);
    if (!sequences.length) throw new ShapeError('bucketCollate: the items have no sequence (an array): use collate');
    const lengths = flats.map((_, item) => lengthOf(sequences, item, o));
    const length = bucketOf(Math.max(...lengths), o)!;
    const padded = columns.map(({ texts, arrays, isSequence, path }) => {
      if (texts) return texts;
      return stackArrays(isSequence ? arrays.map((x) => pad(x, length, padOf(o, path), path)) : arrays, path);
    });
    const tree = rebuild(padded);
    const mask = new Uint8Array(items.length * length);
    lengths.forEach((n, i) => mask.fill(1, i * length, i * length + n));
    return {
      ...(paths.length === 1 && !paths[0] ? { values: tree } : (tree as object)),
      mask: { dtype: 'bool', shape: [items.length, length], data: mask },
      lengths: { dtype: 'i32', shape: [items.length], data: Int32Array.from(lengths) },
    } as Bucketed<T>;
  };
}

/** The leaves of all items at one path: strings or arrays. */
interface Column {
  readonly path: string;
  readonly texts?: readonly string[];
  readonly arrays: readonly HostArray[];
  readonly isSequence: boolean;
}
async function columnOf(leaves: readonly Leaf[], path: string, { dtype, sequences }: BucketOptions): Promise<Column> {
  const texts = leaves.filter((x) => typeof x === 'string');
  if (texts.length === leaves.length) return { path, texts, arrays: [], isSequence: false };
  if (texts.length)
    throw new DTypeError(
      `bucketCollate: ${path} is a string in some items and a number in others: all must be the same`,
    );
  const numbers = leaves as Exclude<Leaf, string>[];
  const type = dtypeOfColumn(numbers, path, dtype);
  const arrays = await Promise.all(numbers.map((x) => toHostArray(x, type)));
  return { path, arrays, isSequence: sequences?.includes(path) ?? arrays.every((a) => a.shape.length > 0) };
}
const padOf = ({ padValue = 0 }: BucketOptions, path: string): number =>
  typeof padValue === 'number' ? padValue : (padValue[path] ?? 0);

/** The length of an item's sequences after truncation. */
function lengthOf(columns: readonly Column[], item: number, o: BucketOptions): number {
  const [n, ...others] = columns.map((c) => c.arrays[item]!.shape[0]!);
  const odd = others.findIndex((m) => m !== n);
  if (odd >= 0)
    throw new ShapeError(
      `bucketCollate: in item ${item} of the batch ${columns[0]!.path} has ${n} elements and ${columns[odd + 1]!.path} ${others[odd]}: ` +
        'they must be equal; { sequences: [...] } names those to be padded',
    );
  if (bucketOf(n!, o) !== undefined) return n!;
  const most = o.buckets?.at(-1) ?? o.maxLength!;
  if (o.tooLong === 'truncate') return most;
  throw new ShapeError(
    `bucketCollate: item ${item} of the batch has ${n} elements, more than ${most}: pass { tooLong: 'truncate' }, ` +
      'or a larger bucket',
  );
}

/** Pads a sequence with `value`, or truncates it. */
function pad({ dtype, shape: [n, ...rest], data }: HostArray, length: number, value: number, path: string): HostArray {
  const size = sizeOf(rest) * numbersIn(dtype);
  const out = new DTYPES[dtype].array(length * size);
  out.set(data.subarray(0, Math.min(n!, length) * size) as never);
  if (value !== 0 && n! < length) {
    if (isComplex(dtype))
      throw new ArgumentError(`bucketCollate: padValue of ${leafName('the item', path)}, which is ${dtype}, must be 0`);
    if (!isFloat(dtype) && dtype !== 'bool' && !Number.isInteger(value))
      throw new ArgumentError(
        `bucketCollate: padValue ${value} of ${leafName('the item', path)} cannot be stored as ${dtype}`,
      );
    const raw = encodeNumbers(dtype, [value])[0]!;
    out.fill(raw as never, n! * size);
  }
  return { dtype, shape: [length, ...rest], data: out };
}
