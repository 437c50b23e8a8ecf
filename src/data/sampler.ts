// Samplers determine the order of items. An order is a pure function of the epoch (and the sampler's seed), so that a position
// in it is a number.
import { checkWhole } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { permutation, randomFrom } from './random.js';

export interface Sampler {
  /** The number of items of an epoch. */
  readonly length: number;
  /** The seed of the orders, to be compared when a state is loaded. */
  readonly seed?: number;
  /** The indices of the items in the order of this epoch: the same for each call. */
  order(epoch: number): Iterable<number>;
}

/** 0, 1, 2, ... */
export class SequentialSampler implements Sampler {
  constructor(readonly length: number) {
    checkWhole('SequentialSampler: length', length);
  }
  *order(): Iterable<number> {
    for (let i = 0; i < this.length; i++) yield i;
  }
}

export interface RandomSamplerOptions {
  readonly seed?: number;
  /** Whether each item is drawn independently of earlier ones. Default: false. */
  readonly replacement?: boolean;
  /** The number of items of an epoch. Default: all. */
  readonly numSamples?: number;
}

/** A random order that changes with each epoch. */
export class RandomSampler implements Sampler {
  readonly seed: number;
  readonly length: number;
  readonly #replacement: boolean;

  constructor(
    readonly size: number,
    options: RandomSamplerOptions = {},
  ) {
    checkOptions('RandomSampler', ['seed', 'replacement', 'numSamples'], options);
    const { seed = 0, replacement = false, numSamples = size } = options;
    checkWhole('RandomSampler: size', size);
    this.seed = checkWhole('RandomSampler: seed', seed);
    this.length = checkWhole('RandomSampler: numSamples', numSamples);
    this.#replacement = replacement;
    if (!replacement && numSamples > size)
      throw new ArgumentError(
        `RandomSampler: cannot draw ${numSamples} samples of ${size} items: pass { replacement: true }, or fewer samples`,
      );
  }
  order(epoch: number): Iterable<number> {
    if (!this.#replacement) return permutation(this.size, this.seed, epoch).subarray(0, this.length);
    const random = randomFrom(this.seed, epoch);
    return Uint32Array.from({ length: this.length }, () => Math.floor(random() * this.size));
  }
}

/** Items drawn with these weights. */
export class WeightedRandomSampler implements Sampler {
  readonly seed: number;
  readonly #replacement: boolean;

  constructor(
    readonly weights: ArrayLike<number>,
    readonly length: number,
    options: { readonly seed?: number; readonly replacement?: boolean } = {},
  ) {
    checkOptions('WeightedRandomSampler', ['seed', 'replacement'], options);
    const { seed = 0, replacement = true } = options;
    const all = Array.from(weights);
    const wrong = all.findIndex((w) => !(w >= 0 && w < Number.POSITIVE_INFINITY));
    if (wrong >= 0)
      throw new ArgumentError(`WeightedRandomSampler: weight ${wrong} is ${all[wrong]}: it must be a number from 0`);
    this.seed = checkWhole('WeightedRandomSampler: seed', seed);
    this.#replacement = replacement;
    checkWhole('WeightedRandomSampler: length', length);
    const positive = all.filter((w) => w > 0).length;
    if (positive < (replacement ? Math.min(1, length) : length))
      throw new ArgumentError(
        `WeightedRandomSampler: ${length} samples ${replacement ? '' : 'without replacement '}of ${positive} items whose weight is not 0`,
      );
  }

  order(epoch: number): Iterable<number> {
    const random = randomFrom(this.seed, epoch);
    const weights = Array.from(this.weights);
    if (!this.#replacement) {
      // The largest of u^(1/w) are a draw without replacement (Efraimidis and Spirakis); as logarithms, or they underflow.
      const keys = weights.map((w) => (w > 0 ? Math.log(1 - random()) / w : Number.NEGATIVE_INFINITY));
      return [...keys.keys()].sort((i, j) => keys[j]! - keys[i]!).slice(0, this.length);
    }
    let sum = 0;
    const ends = Float64Array.from(weights, (w) => (sum += w));
    const last = weights.findLastIndex((w) => w > 0);
    return Uint32Array.from({ length: this.length }, () => Math.min(last, firstAbove(ends, random() * sum)));
  }
}

/** The first place in a rising list whose number is above x. */
function firstAbove(ends: Float64Array, x: number): number {
  let [low, high] = [0, ends.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle]! > x) high = middle;
    else low = middle + 1;
  }
  return low;
}

export interface DistributedSamplerOptions {
  /** The index of this process, from 0, and the number of processes. */
  readonly rank: number;
  readonly world: number;
  readonly shuffle?: boolean;
  readonly seed?: number;
  /** Whether to drop the last items if they cannot be shared evenly; otherwise some are repeated, as in torch. */
  readonly dropLast?: boolean;
}

/** The share of one of several processes; all have the same number of items. */
export class DistributedSampler implements Sampler {
  readonly length: number;
  readonly seed: number;
  constructor(
    readonly size: number,
    readonly options: DistributedSamplerOptions,
  ) {
    checkOptions('DistributedSampler', ['rank', 'world', 'shuffle', 'seed', 'dropLast'], options);
    const { rank, world, dropLast = false, seed = 0 } = options;
    checkWhole('DistributedSampler: world', world, 1);
    checkWhole('DistributedSampler: rank', rank);
    if (rank >= world)
      throw new ArgumentError(
        `DistributedSampler: rank is ${rank}: for ${world} processes it must be 0 to ${world - 1}`,
      );
    this.seed = checkWhole('DistributedSampler: seed', seed);
    const share = checkWhole('DistributedSampler: size', size) / world;
    this.length = dropLast ? Math.floor(share) : Math.ceil(share);
  }
  *order(epoch: number): Iterable<number> {
    const { rank, world, shuffle = true } = this.options;
    const all = shuffle ? permutation(this.size, this.seed, epoch) : undefined;
    for (let i = 0; i < this.length; i++) {
      const place = (rank + i * world) % this.size; // the first ones again, where they do not suffice
      yield all ? all[place]! : place;
    }
  }
}

/** Determines the items of each batch. */
export interface BatchOrder {
  /** The number of batches of an epoch. */
  readonly length: number;
  readonly seed?: number | undefined;
  batches(epoch: number): Iterable<readonly number[]>;
}

/** Groups the items of a sampler into batches. */
export class BatchSampler implements BatchOrder {
  readonly length: number;
  constructor(
    readonly sampler: Sampler,
    readonly batchSize: number,
    readonly dropLast = true,
  ) {
    checkWhole('BatchSampler: batchSize', batchSize, 1);
    this.length = Math[dropLast ? 'floor' : 'ceil'](sampler.length / batchSize);
  }
  get seed(): number | undefined {
    return this.sampler.seed;
  }
  *batches(epoch: number): Iterable<readonly number[]> {
    let batch: number[] = [];
    for (const index of this.sampler.order(epoch)) {
      batch.push(index);
      if (batch.length < this.batchSize) continue;
      yield batch;
      batch = [];
    }
    if (batch.length && !this.dropLast) yield batch;
  }
}
