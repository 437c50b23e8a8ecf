// Datasets that are read one item after another. Each item comes with the state after it: where reading goes on. So nothing
// that reads ahead (a loader, a worker) has to know how far its consumer is.
import { checkWhole } from '../base/check.js';
import { ArgumentError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import { ArrayDataset, type Dataset, isDataset } from './dataset.js';
import { randomFrom, shuffle } from './random.js';

/** A place in a dataset: plain data, for JSON. */
export type State = null | boolean | number | string | readonly State[] | { readonly [key: string]: State };

export interface Read<T> {
  readonly item: T;
  /** Reading from here gives the items after this one. */
  readonly after: State;
}
type Awaitable<T> = T | Promise<T>;

export abstract class IterableDataset<T> implements AsyncIterable<T> {
  /** How many items an epoch has, where that is known. */
  get length(): number | undefined {
    return undefined;
  }

  /** The items of an epoch: all of them, or those after a state that came with an item. */
  abstract read(epoch: number, from?: State): AsyncIterable<Read<T>>;

  async *[Symbol.asyncIterator](): AsyncIterator<T> {
    for await (const { item } of this.read(0)) yield item;
  }

  /**
   * A dataset of anything that can be gone through: an array, a map-style dataset, a generator function (called with the
   * epoch). Of a generator's items, resuming reads those before once more.
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

  /** fn of each item. */
  map<U>(fn: (item: T) => Awaitable<U>): IterableDataset<U> {
    return new Derived(this, async function* (reads) {
      for await (const { item, after } of reads) yield { item: await fn(item), after };
    });
  }
  /** The items that fn is true of. */
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
   * Items in random order within blocks of `bufferSize`, another order in each epoch and block. Resuming reads the block
   * under way once more.
   */
  shuffle(bufferSize: number, seed = 0): IterableDataset<T> {
    checkWhole('shuffle: bufferSize', bufferSize, 1);
    checkWhole('shuffle: seed', seed);
    return new Blocks(this, 'shuffle', { size: bufferSize, seed }, (items, epoch, block) =>
      shuffle(items, randomFrom(seed, epoch, block)),
    );
  }
  /** Lists of n items; the last may be shorter, unless it is dropped. */
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

/** What a function generates; the state is how many items came before. */
class Generated<T> extends IterableDataset<T> {
  constructor(readonly generate: (epoch: number) => Iterable<T> | AsyncIterable<T>) {
    super();
  }
  override async *read(epoch: number, from: State = 0): AsyncIterable<Read<T>> {
    let n = 0;
    for await (const item of this.generate(epoch)) if (n++ >= (from as number)) yield { item, after: n };
  }
}

/** What keeps no state of its own. */
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
 * Items taken together in blocks, of which something else is made: batches, another order, packed rows. What is made must
 * depend on nothing but the arguments: it is made again on resuming.
 */
export class Blocks<T, U> extends IterableDataset<U> {
  constructor(
    readonly source: IterableDataset<T>,
    readonly name: string,
    /** What decides what is made: a state of something else is refused. `size` is that of a block. */
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
          `${this.name}: the state is of another dataset: its ${key} is ${theirs}, here it is ${value}`,
        );
    }
  }
}
