// Iterable datasets. Each item comes with the state after it, from which reading resumes, so that code that reads ahead
// (a loader, a worker) need not know the position of its consumer.
import { checkWhole } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import { ArrayDataset, type Dataset, isDataset } from './dataset.js';
import { randomFrom, shuffle } from './random.js';

/** A position in a dataset: plain data, for JSON. */
export type State = null | boolean | number | string | readonly State[] | { readonly [key: string]: State };

export interface Read<T> {
  readonly item: T;
  /** The state to resume from after this item. */
  readonly after: State;
}
type Awaitable<T> = T | Promise<T>;

export abstract class IterableDataset<T> implements AsyncIterable<T> {
  /** The number of items of an epoch, if known. */
  get length(): number | undefined {
    return undefined;
  }

  /** The items of an epoch: all of them, or those after a state that came with an item. */
  abstract read(epoch: number, from?: State): AsyncIterable<Read<T>>;

  async *[Symbol.asyncIterator](): AsyncIterator<T> {
    for await (const { item } of this.read(0)) yield item;
  }

  /**
   * A dataset from an array, another iterable, a map-style dataset, or a generator function (called with the epoch). Resuming
   * a generator reads the earlier items again.
   */
  static from<T>(source: Source<T>): IterableDataset<T> {
    if (source instanceof IterableDataset) return source;
    if (Array.isArray(source)) return new Indexed(new ArrayDataset(source));
    if (isDataset(source)) return new Indexed(source as Dataset<T>);
    if (typeof source === 'function') return new Generated(source);
    if (Symbol.asyncIterator in Object(source) || Symbol.iterator in Object(source))
      return new Generated(() => source as Iterable<T>);
    throw new ArgumentError(
      `IterableDataset.from: takes a dataset, an iterable or a generator function, got ${describe(source)}`,
    );
  }

  /** Applies fn to each item. */
  map<U>(fn: (item: T) => Awaitable<U>): IterableDataset<U> {
    return new Derived(this, async function* (reads) {
      for await (const { item, after } of reads) yield { item: await fn(item), after };
    });
  }
  /** The items for which fn returns true. */
  filter(fn: (item: T) => Awaitable<boolean>): IterableDataset<T> {
    return new Derived(this, async function* (reads) {
      for await (const read of reads) if (await fn(read.item)) yield read;
    });
  }
  /** The first n items. */
  take(n: number): IterableDataset<T> {
    return new Take(this, checkWhole('take: n', n));
  }
  /**
   * Shuffles within blocks of `bufferSize` items, in another order in each epoch and block. Resuming reads the current block
   * again.
   */
  shuffle(bufferSize: number, seed = 0): IterableDataset<T> {
    checkWhole('shuffle: bufferSize', bufferSize, 1);
    checkWhole('shuffle: seed', seed);
    return new Blocks(this, 'shuffle', { size: bufferSize, seed }, (items, epoch, block) =>
      shuffle(items, randomFrom(seed, epoch, block)),
    );
  }
  /** Groups items into lists of n; the last may be shorter, unless it is dropped. */
  batch(n: number, { dropLast = false }: { readonly dropLast?: boolean } = {}): IterableDataset<T[]> {
    checkWhole('batch: n', n, 1);
    return new Blocks(this, 'batch', { size: n }, (items) => (dropLast && items.length < n ? [] : [items]));
  }
}
export type Source<T> =
  | Dataset<T>
  | Iterable<T>
  | AsyncIterable<T>
  | ((epoch: number) => Iterable<T> | AsyncIterable<T>);

/** The items of a map-style dataset in order; the state is the number of the next. */
class Indexed<T> extends IterableDataset<T> {
  constructor(readonly dataset: Dataset<T>) {
    super();
  }
  override get length(): number {
    return this.dataset.length;
  }
  override async *read(_epoch: number, from: State = 0): AsyncIterable<Read<T>> {
    for (let i = from as number; i < this.length; i++) yield { item: await this.dataset.get(i), after: i + 1 };
  }
}

/** The items of a generator function; the state is the number of earlier items. */
class Generated<T> extends IterableDataset<T> {
  constructor(readonly generate: (epoch: number) => Iterable<T> | AsyncIterable<T>) {
    super();
  }
  override async *read(epoch: number, from: State = 0): AsyncIterable<Read<T>> {
    let n = 0;
    for await (const item of this.generate(epoch)) if (n++ >= (from as number)) yield { item, after: n };
  }
}

/** The base of transformations without a state of their own. */
class Derived<T, U> extends IterableDataset<U> {
  constructor(
    readonly source: IterableDataset<T>,
    readonly through: (reads: AsyncIterable<Read<T>>) => AsyncIterable<Read<U>>,
  ) {
    super();
  }
  override read(epoch: number, from?: State): AsyncIterable<Read<U>> {
    return this.through(this.source.read(epoch, from));
  }
}

class Take<T> extends IterableDataset<T> {
  constructor(
    readonly source: IterableDataset<T>,
    readonly n: number,
  ) {
    super();
  }
  override async *read(epoch: number, from?: State): AsyncIterable<Read<T>> {
    let { taken, source } = (from ?? { taken: 0 }) as { taken: number; source?: State };
    if (taken >= this.n) return;
    for await (const { item, after } of this.source.read(epoch, source)) {
      yield { item, after: { taken: ++taken, source: after } };
      if (taken >= this.n) return;
    }
  }
}

interface BlockState {
  /** How many blocks came before, and how much was given of this one. */
  readonly block: number;
  readonly given: number;
  /** The source's state where the block begins; none at its start. */
  readonly before?: State;
}

/**
 * Groups items into blocks and makes other items of each: batches, another order, packed rows. The result must depend only on
 * the arguments, as it is made again on resuming.
 */
export class Blocks<T, U> extends IterableDataset<U> {
  constructor(
    readonly source: IterableDataset<T>,
    readonly name: string,
    /** The parameters that determine the result: a state with others is rejected. `size`: of a block. */
    readonly options: { readonly [key: string]: State; readonly size: number },
    readonly make: (items: T[], epoch: number, block: number) => readonly U[],
  ) {
    super();
  }

  override async *read(epoch: number, from?: State): AsyncIterable<Read<U>> {
    if (from !== undefined) this.#check(from);
    let { block, given, before } = (from ?? { block: 0, given: 0 }) as unknown as BlockState;
    let items: T[] = [];
    const state = (block: number, given: number, source: State | undefined): State => ({
      ...this.options,
      block,
      given,
      ...(source !== undefined && { before: source }),
    });
    for await (const { item, after } of this.source.read(epoch, before)) {
      items.push(item);
      if (items.length < this.options.size) continue;
      const made = this.make(items, epoch, block);
      for (; given < made.length; given++) {
        const isLast = given === made.length - 1;
        yield { item: made[given]!, after: isLast ? state(block + 1, 0, after) : state(block, given + 1, before) };
      }
      items = [];
      given = 0;
      before = after;
      block++;
    }
    if (!items.length) return;
    const made = this.make(items, epoch, block);
    for (; given < made.length; given++) yield { item: made[given]!, after: state(block, given + 1, before) };
  }

  #check(from: State): void {
    for (const [key, value] of Object.entries(this.options)) {
      const theirs = (from as Record<string, State> | null)?.[key];
      if (theirs !== value)
        throw new ArgumentError(
          `${this.name}: the state is from another dataset: its ${key} is ${theirs}, but here it is ${value}`,
        );
    }
  }
}
