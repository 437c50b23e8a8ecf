// Map-style datasets: datasets with a length whose items are read by index.
import { checkWhole } from '../base/check.js';
import { type HostArray, isHostArray, sizeOf, type TypedArray } from '../base/dtype.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe } from '../base/tree.js';
import { Tensor } from '../tensor/tensor.js';
import { permutation } from './random.js';

/** Any object with a length and get(i) is a dataset. */
export interface Dataset<T> {
  readonly length: number;
  /** The number of items of the whole dataset, if this is a worker's part of it. */
  readonly whole?: number | undefined;
  get(index: number): T | Promise<T>;
}

export const isDataset = <T>(x: Dataset<T> | readonly T[] | unknown): x is Dataset<T> =>
  typeof (x as Dataset<unknown>)?.get === 'function' && typeof (x as Dataset<unknown>).length === 'number';

/** Checks an index and returns the item. */
function checkIndex(index: number, length: number): number {
  if (Number.isSafeInteger(index) && index >= 0 && index < length) return index;
  throw new ArgumentError(`item ${index} is out of range: the dataset has items 0 to ${length - 1}`);
}

/** The elements of an array. */
export class ArrayDataset<T> implements Dataset<T> {
  readonly length: number;
  constructor(readonly items: ArrayLike<T>) {
    if (typeof items?.length !== 'number')
      throw new ArgumentError(`ArrayDataset: takes an array, got ${describe(items)}`);
    this.length = items.length;
  }
  get(index: number): T {
    return this.items[checkIndex(index, this.length)]!;
  }
}

/** An array for each tensor. */
type RowOf<Ts extends readonly Tensor[]> = { -readonly [K in keyof Ts]: HostArray };
/** A dataset of the rows of tensors: get(i) is a list with row i of each. The tensors are read once and kept on the host. */
export class TensorDataset<const Ts extends readonly Tensor[] = readonly Tensor[]> implements Dataset<RowOf<Ts>> {
  readonly length: number;
  readonly #tensors: readonly Tensor[];
  #arrays: Promise<readonly TypedArray[]> | undefined;

  constructor(...tensors: Ts) {
    const wrong = tensors.findIndex((t) => !(t instanceof Tensor) || !t.shape.length);
    if (wrong >= 0 || !tensors.length)
      throw new ArgumentError(
        isHostArray(tensors[wrong])
          ? `TensorDataset: argument ${wrong + 1} is a host array { dtype, shape, data }: pass tx.tensor(array)`
          : `TensorDataset: takes tensors of one dimension or more, got ${tensors.length ? describe(tensors[wrong]) : 'none'}`,
      );
    this.length = tensors[0]!.shape[0]!;
    const odd = tensors.find((t) => t.shape[0] !== this.length);
    if (odd) throw new ShapeError(`TensorDataset: the tensors differ in length: ${tensors[0]!.aval} and ${odd.aval}`);
    this.#tensors = tensors;
  }

  async get(index: number): Promise<RowOf<Ts>> {
    checkIndex(index, this.length);
    const arrays = await (this.#arrays ??= Promise.all(this.#tensors.map((t) => t.data())));
    return this.#tensors.map(({ dtype, shape: [, ...shape] }, i) => {
      const size = sizeOf(shape);
      return { dtype, shape, data: arrays[i]!.subarray(index * size, (index + 1) * size) };
    }) as RowOf<Ts>;
  }
}

/** Concatenates datasets. */
export class ConcatDataset<T> implements Dataset<T> {
  /** The end of each dataset. */
  readonly #ends: number[] = [];
  readonly length: number;

  constructor(readonly datasets: readonly Dataset<T>[]) {
    let end = 0;
    for (const d of datasets) this.#ends.push((end += d.length));
    this.length = end;
  }
  get(index: number): T | Promise<T> {
    checkIndex(index, this.length);
    const which = this.#ends.findIndex((end) => index < end);
    return this.datasets[which]!.get(index - (this.#ends[which - 1] ?? 0));
  }
}

/** The items of a dataset with these indices, in this order. */
export class Subset<T> implements Dataset<T> {
  readonly length: number;
  constructor(
    readonly dataset: Dataset<T>,
    readonly indices: ArrayLike<number>,
  ) {
    this.length = indices.length;
    for (let i = 0; i < indices.length; i++) checkIndex(indices[i]!, dataset.length);
  }
  get(index: number): T | Promise<T> {
    return this.dataset.get(this.indices[checkIndex(index, this.length)]!);
  }
}

/** Splits a dataset at random into parts of these lengths, or of fractions that add up to 1. */
export function randomSplit<T, const P extends readonly number[]>(
  given: Dataset<T> | readonly T[],
  parts: P,
  options: { readonly seed?: number } = {},
): { -readonly [K in keyof P]: Subset<T> } {
  checkOptions('randomSplit', ['seed'], options);
  const { seed = 0 } = options;
  const dataset = isDataset(given) ? given : new ArrayDataset<T>(given);
  const n = dataset.length;
  const sum = parts.reduce((a, b) => a + b, 0);
  const areFractions = n !== 1 && Math.abs(sum - 1) < 1e-9;
  const lengths: readonly number[] = areFractions ? parts.map((f) => Math.floor(f * n + 1e-9)) : parts;
  if (areFractions)
    for (let i = 0, rest = n - total(lengths); rest > 0; rest--, i++) (lengths as number[])[i % parts.length]!++;
  for (const length of lengths) checkWhole('randomSplit: a length', length);
  if (total(lengths) !== n)
    throw new ArgumentError(
      `randomSplit: the lengths add up to ${sum}: they must add up to the ${n} items of the dataset, or to 1`,
    );
  const order = permutation(n, checkWhole('randomSplit: seed', seed));
  let start = 0;
  const subsets = lengths.map((length) => new Subset(dataset, order.subarray(start, (start += length))));
  return subsets as { -readonly [K in keyof P]: Subset<T> };
}
const total = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
