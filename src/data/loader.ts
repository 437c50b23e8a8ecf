// DataLoader: batches of a dataset as trees of tensors, sent to the device ahead of their use.
import { checkWhole } from '../base/check.js';
import { type DType, type HostArray, isHostArray, type TypedArray } from '../base/dtype.js';
import { ArgumentError, DataError, DTypeError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { noticeOnce } from '../base/log.js';
import { checkOptions as checkNames } from '../base/options.js';
import { messageOf } from '../base/thrown.js';
import { describe, flatten, isPlain, leafName } from '../base/tree.js';
import { Aval } from '../ir/aval.js';
import { input } from '../ops/prim/variable.js';
import { events } from '../runtime/events.js';
import { setValue, startUploads } from '../runtime/value.js';
import { Tensor } from '../tensor/tensor.js';
import { type Collated, dtypeOf, type Placed, stackCollate } from './collate.js';
import { ArrayDataset, type Dataset, isDataset } from './dataset.js';
import { IterableDataset, type State } from './iterable.js';
import { ReadAhead } from './read-ahead.js';
import { type BatchOrder, BatchSampler, RandomSampler, type Sampler, SequentialSampler } from './sampler.js';
import { type LoaderSharding, type Split, splitRows } from './sharding.js';
import { checkWorkers, WORKERS_EXAMPLE, type WorkerOptions, Workers } from './workers.js';

export interface DataLoaderOptions<T, R> {
  readonly batchSize?: number;
  /** Whether to use another order in each epoch, derived from the seed. Default: false. */
  readonly shuffle?: boolean;
  readonly seed?: number;
  /** Whether to drop a last batch that is not full: a shorter one would compile another program. Default: true. */
  readonly dropLast?: boolean;
  /**
   * Makes one tree of a batch's items; typed arrays and { dtype, shape, data } in it become tensors. Default: stacks the
   * items.
   */
  readonly collate?: (items: T[]) => R | Promise<R>;
  /** Threads for expensive transforms. */
  readonly workers?: WorkerOptions;
  /** The number of batches sent to the device ahead of their use. Default: 2. */
  readonly prefetch?: number;
  readonly sampler?: Sampler;
  readonly batchSampler?: BatchOrder;
  /** 'xla:0', or 'host' to keep arrays on the host until they are used. Default: 'xla:0'. */
  readonly device?: 'xla:0' | 'host' | { toString(): string };
  /** The mesh over which batches are split: each device gets its own rows. With several processes, each loads its share. */
  readonly sharding?: LoaderSharding;
}

/** The position of a loader: plain data, for JSON. `batch`: the number of batches taken in this epoch. */
export interface LoaderState {
  readonly epoch: number;
  readonly batch: number;
  /** Settings of the loader: a state with others is rejected. */
  readonly length: number | null;
  readonly batchSize: number | null;
  readonly seed: number | null;
  readonly order: string;
  readonly dropLast: boolean;
  /** The number of batches of an epoch, if known. It detects differences that batchSize does not. Missing in older states. */
  readonly batches?: number | null;
  /** The position in an iterable dataset. */
  readonly source?: State;
}
type Position = Pick<LoaderState, 'epoch' | 'batch' | 'source'>;

/** The indices of a batch before it is fetched, and the loader's position after it. */
interface Job {
  readonly items: () => Promise<unknown[]>;
  readonly indices: readonly number[];
  readonly after: Position;
}
/** A batch that was fetched and collated. */
interface Ready {
  readonly tree: unknown;
  readonly after: Position;
}
/** The batch as tensors, those created by the loader, and the loader's position after it. */
interface Batch<B> {
  readonly tree: B;
  readonly made: readonly Tensor[];
  readonly after: Position;
}

/** An iterable that can be iterated once per epoch and resumed anywhere. */
export interface Loader<B> extends AsyncIterable<B> {
  readonly length: number | undefined;
  readonly epoch: number;
  state(): LoaderState;
  load(state: LoaderState): void;
}

/** Iterates over batches of items of type T, collated to R. */
export class DataLoader<T, R = Collated<T>> implements Loader<Placed<R>> {
  readonly #order: BatchOrder | undefined;
  readonly #stream: IterableDataset<T> | undefined;
  readonly #dataset: Dataset<T> | undefined;
  readonly #collate: (items: T[]) => unknown;
  readonly #workers: Required<WorkerOptions> | undefined;
  readonly #batchSize: number;
  readonly #dropLast: boolean;
  readonly #dropIsAsked: boolean;
  readonly #prefetch: number;
  readonly #onHost: boolean;
  /** How batches are split over devices; MpDeviceLoader sets it too. */
  split: Split | undefined;
  #kind: Required<Pick<LoaderState, 'length' | 'batchSize' | 'seed' | 'order' | 'dropLast' | 'batches'>>;
  #shares = 1;
  #position: Position = { epoch: 0, batch: 0 };
  /** Whether the next loop resumes from the position instead of starting an epoch. */
  #resumes = true;
  /** The loop that advances the position: the last one started. */
  #loop: object | undefined;
  /** Idle threads between epochs. */
  #idle: Workers | undefined;
  #dtypes: Map<string, DType> | undefined;
  /** The constructor's arguments, to create another loader like it. */
  readonly origin: { readonly dataset: unknown; readonly options: DataLoaderOptions<never, unknown> };

  constructor(
    dataset: Dataset<T> | readonly T[] | IterableDataset<T> | AsyncIterable<T>,
    options: DataLoaderOptions<T, R> = {},
  ) {
    checkOptions(options);
    this.origin = { dataset, options };
    const { batchSize = 1, shuffle = false, seed = 0, dropLast = true, sampler, batchSampler, prefetch = 2 } = options;
    this.#batchSize = checkWhole('DataLoader: batchSize', batchSize, 1);
    this.#prefetch = checkWhole('DataLoader: prefetch', prefetch);
    this.#dropLast = dropLast;
    this.#dropIsAsked = options.dropLast !== undefined;
    this.#collate = options.collate ?? stackCollate();
    this.#workers = checkWorkers(options.workers);
    this.#onHost = isHost(options.device);
    this.split = options.sharding && splitRows(options.sharding);
    checkWhole('DataLoader: seed', seed);
    if (Array.isArray(dataset)) dataset = new ArrayDataset(dataset as readonly T[]);
    if (dataset instanceof IterableDataset || !isDataset(dataset)) {
      this.#stream = streamOf(dataset as AsyncIterable<T>, options);
    } else {
      this.#dataset = dataset as Dataset<T>;
      if (!dataset.length) throw new DataError('DataLoader: the dataset is empty: it has 0 items');
      const order =
        sampler ?? (shuffle ? new RandomSampler(dataset.length, { seed }) : new SequentialSampler(dataset.length));
      this.#order = batchSampler ?? new BatchSampler(order, batchSize, dropLast);
      if (!batchSampler) this.#checkDropped(order.length);
    }
    this.#kind = {
      length: wholeLength(this.#dataset ?? this.#stream!) ?? null,
      batchSize: batchSampler ? null : batchSize,
      seed: this.#order?.seed ?? null,
      order:
        (batchSampler ?? sampler)?.constructor.name ?? (this.#stream ? 'stream' : shuffle ? 'shuffled' : 'sequential'),
      dropLast,
      batches: this.#order?.length ?? null,
    };
  }

  /** The number of batches of an epoch; undefined if an iterable dataset does not know it. */
  get length(): number | undefined {
    const items = this.#stream?.length;
    if (this.#order) return this.#order.length;
    return items === undefined ? undefined : Math[this.#dropLast ? 'floor' : 'ceil'](items / this.#batchSize);
  }

  /** The current epoch; between loops the next one. */
  get epoch(): number {
    return this.#position.epoch;
  }

  /** The position after the last batch that was taken, not counting batches fetched ahead. */
  state(): LoaderState {
    return { ...this.#kind, ...this.#position };
  }

  /**
   * Makes this loader one of `count` shares of the loader `whole`, whose batch is `count` times as large. All shares have the
   * same state, which works for any number of shares.
   */
  asShareOf(whole: DataLoader<T, R>, count: number): this {
    const { batchSize } = whole.#kind;
    this.#kind = { ...whole.#kind, batchSize: batchSize && batchSize * count, batches: this.#kind.batches };
    this.#shares = count;
    return this;
  }

  /** Makes the next loop resume at this state. */
  load(state: LoaderState): void {
    for (const [key, value] of Object.entries(this.#kind)) {
      const theirs = state?.[key as keyof LoaderState];
      if (theirs !== value && !(key === 'batches' && theirs === undefined))
        throw new ArgumentError(
          `DataLoader: the state is from another loader: its ${NAMES[key as keyof typeof NAMES]} is ${theirs}, but here it is ${value}${key === 'batchSize' ? this.#ofWorkers(theirs) : ''}`,
        );
    }
    const { epoch, batch, source } = state;
    checkWhole("DataLoader: the state's epoch", epoch);
    checkWhole("DataLoader: the state's batch", batch);
    if (this.#stream && batch > 0 && source === undefined)
      throw new ArgumentError('DataLoader: the state is from a map-style dataset, but this dataset is iterable');
    this.#position = { epoch, batch, ...(source !== undefined && { source }) };
    this.#resumes = true;
    this.#loop = undefined;
  }

  #ofWorkers(wanted: unknown): string {
    const n = this.#shares;
    const [each, whole] = [Number(this.#kind.batchSize) / n, Number(wanted) / n];
    if (n === 1) return '';
    return `, ${n} workers with ${each} each: use ${Number.isSafeInteger(whole) ? whole : `a number of workers that divides ${wanted}`}`;
  }

  [Symbol.iterator](): never {
    throw new ArgumentError('a DataLoader is read with for await: for await (const batch of loader) { ... }');
  }
  /** The batches of one epoch: a new one, or the rest of one after load(). */
  async *[Symbol.asyncIterator](): AsyncGenerator<Placed<R>, void, undefined> {
    const loop = (this.#loop = {});
    if (!this.#resumes) this.#position = { epoch: this.#position.epoch + 1, batch: 0 };
    this.#resumes = false;
    const { epoch } = this.#position;
    const jobs = (this.#order ? this.#plan(this.#position) : this.#group(this.#position))[Symbol.asyncIterator]();
    const workers = this.#workers && this.#takeWorkers(this.#workers);
    const ahead = new ReadAhead<Job, Ready, Batch<Placed<R>>>(jobs, {
      depth: this.#prefetch * (this.#workers?.count ?? 1),
      near: this.#prefetch,
      prepare: (job) => this.#prepare(job, workers),
      place: (ready) => this.#place(ready),
      drop: ({ made }) => made.forEach((t) => t.dispose()),
    });
    let ended = false;
    try {
      for (let taken = this.#position.batch; ; taken++) {
        const asked = performance.now();
        const batch = await ahead.next();
        events.span('loaderWait', asked, performance.now());
        if (!batch && !taken) throw new DataError('DataLoader: the dataset is empty: it gave no batch');
        if (!batch) break;
        if (this.#loop === loop) this.#position = batch.after;
        yield batch.tree;
      }
      ended = true;
    } finally {
      ahead.stop();
      if (!ended) workers?.close();
    }
    this.#idle = workers?.rest();
    if (this.#loop !== loop) return;
    this.#position = { epoch: epoch + 1, batch: 0 };
    this.#resumes = true;
  }

  /** The threads of the epoch before, or new ones. */
  #takeWorkers(options: Required<WorkerOptions>): Workers {
    const workers = this.#idle?.wake() ?? new Workers(options);
    if (!this.#idle) forgotten.register(this, workers);
    this.#idle = undefined;
    return workers;
  }

  /** Fetches, transforms and collates the items of a batch. */
  async #prepare({ items, indices, after }: Job, workers: Workers | undefined): Promise<Ready> {
    const given = await items();
    const transformed = workers ? await workers.transform(given, indices) : given;
    try {
      return { tree: await this.#collate(transformed as T[]), after };
    } catch (e) {
      if (e instanceof Error)
        e.message += `\n    in the batch of items ${indices.slice(0, 8).join(', ')}${indices.length > 8 ? ', ...' : ''}`;
      throw e;
    }
  }

  /** The batches of a map-style dataset. */
  async *#plan({ epoch, batch: skip }: Position): AsyncIterable<Job> {
    let batch = 0;
    for (const indices of this.#order!.batches(epoch)) {
      if (batch++ < skip) continue;
      const items = () => Promise.all(indices.map((i) => this.#get(i)));
      yield { items, indices, after: { epoch, batch } };
    }
  }
  async #get(index: number): Promise<T> {
    let item: T;
    try {
      item = await this.#dataset!.get(index);
    } catch (e) {
      throw new DataError(`item ${index} of the dataset: ${messageOf(e)}`, { cause: e });
    }
    if (item !== undefined) return item;
    throw new DataError(`item ${index} of the dataset is undefined: its get(${index}) returns nothing`);
  }

  /** The batches of an iterable one. */
  async *#group({ epoch, batch, source }: Position): AsyncIterable<Job> {
    let items: T[] = [];
    let index = batch * this.#batchSize;
    const job = (after: State): Job => {
      const taken = items;
      items = [];
      const indices = taken.map((_, i) => index - taken.length + i);
      return { items: async () => taken, indices, after: { epoch, batch: ++batch, source: after } };
    };
    let last: State = null;
    try {
      for await (const { item, after } of this.#stream!.read(epoch, source)) {
        items.push(item);
        index++;
        last = after;
        if (items.length === this.#batchSize) yield job(after);
      }
    } catch (e) {
      throw e instanceof DataError ? e : new DataError(`item ${index} of the dataset: ${messageOf(e)}`, { cause: e });
    }
    if (items.length && !this.#dropLast) yield job(last);
    else if (items.length) this.#checkDropped(index);
    else if (!index) throw new DataError('DataLoader: the dataset is empty: it gave no item');
  }

  /** Prints a notice once if items are dropped by default. Throws if no batch would be left. */
  #checkDropped(items: number): void {
    const rest = items % this.#batchSize;
    if (!rest || !this.#dropLast) return;
    const what = `${rest === items ? 'all' : 'the last'} ${rest} of ${plural(items, 'item')} do not fill a batch of ${this.#batchSize}`;
    if (rest === items) throw new DataError(`DataLoader: ${what}: use a smaller batchSize, or { dropLast: false }`);
    if (this.#dropIsAsked) return;
    noticeOnce(
      `${what} and are dropped: a shorter batch would compile another program. To keep them pass { dropLast: false }`,
    );
  }

  /** Sends the batch to the device as tensors. */
  async #place({ tree, after }: Ready): Promise<Batch<Placed<R>>> {
    const isLeaf = (x: unknown): x is unknown => isHostArray(x) || !(Array.isArray(x) || isPlain(x));
    const flat = flatten('the batch', tree, isLeaf, '');
    const tensors = flat.leaves.map((leaf) => {
      const array = ArrayBuffer.isView(leaf) ? hostArrayOf(leaf as TypedArray) : leaf;
      return isHostArray(array) ? toTensor(array) : leaf;
    });
    this.#checkDTypes(tensors, flat.paths);
    const leaves = this.split ? await this.split(tensors, flat.paths) : tensors;
    const made = leaves.filter((x, i): x is Tensor => x instanceof Tensor && x !== flat.leaves[i]);
    if (!this.#onHost) await startUploads(leaves.flatMap((x) => (x instanceof Tensor ? (x.peek() ?? []) : [])));
    return { tree: flat.rebuild(leaves) as Placed<R>, made, after };
  }

  /** A leaf whose dtype changes would compile another program. With JavaScript numbers it is usually an accident: 1.0 is 1. */
  #checkDTypes(leaves: readonly unknown[], paths: readonly string[]): void {
    const seen = (this.#dtypes ??= new Map());
    leaves.forEach((x, i) => {
      if (!(x instanceof Tensor)) return;
      const path = paths[i]!;
      const before = seen.get(path) ?? x.dtype;
      seen.set(path, before);
      if (before !== x.dtype)
        throw new DTypeError(
          `DataLoader: ${leafName('the batch', path)} was ${before} and is now ${x.dtype}: use typed arrays, or pass a dtype ` +
            `(collate: stackCollate({ dtype: { '${path}': 'f32' } }))`,
        );
    });
  }
}

/** Stops the threads of loaders that were garbage collected. */
const forgotten = new FinalizationRegistry<Workers>((workers) => workers.close());

const NAMES = {
  length: 'number of items',
  batchSize: 'batchSize',
  seed: 'seed',
  order: 'order',
  dropLast: 'dropLast',
  batches: 'number of batches',
};

const hostArrayOf = (data: TypedArray): HostArray => ({ dtype: dtypeOf(data), shape: [data.length], data });
function toTensor({ dtype, shape, data }: HostArray): Tensor {
  const expr = input(Aval.of(dtype, shape));
  setValue(expr, data);
  return new Tensor(expr);
}

const OPTIONS = [
  'batchSize',
  'shuffle',
  'seed',
  'dropLast',
  'collate',
  'workers',
  'prefetch',
  'sampler',
  'batchSampler',
  'device',
  'sharding',
] as const;
function checkOptions(o: DataLoaderOptions<never, unknown>): void {
  if (isPlain(o) && 'numWorkers' in o)
    throw new ArgumentError(
      `DataLoader: use workers instead of numWorkers: { workers: { module, count } }: ${WORKERS_EXAMPLE}`,
    );
  checkNames('DataLoader', OPTIONS, o);
  if (o.collate !== undefined && typeof o.collate !== 'function')
    throw new ArgumentError(`DataLoader: collate is ${describe(o.collate)}: it must be a function`);
  if (o.shuffle && (o.sampler || o.batchSampler))
    throw new ArgumentError(
      'DataLoader: shuffle cannot be combined with a sampler, which determines the order: give one of them',
    );
  if (o.batchSampler && (o.batchSize !== undefined || o.sampler || o.dropLast !== undefined))
    throw new ArgumentError(
      'DataLoader: batchSize, sampler and dropLast cannot be combined with a batchSampler: leave them out',
    );
}

function streamOf<T>(
  dataset: AsyncIterable<T>,
  o: DataLoaderOptions<T, never> | DataLoaderOptions<T, unknown>,
): IterableDataset<T> {
  if (!dataset || !(Symbol.asyncIterator in Object(dataset)))
    throw new ArgumentError(
      `DataLoader: takes a dataset (length and get(i)), an array, or an IterableDataset, got ${describe(dataset)}`,
    );
  if (o.shuffle || o.sampler || o.batchSampler)
    throw new ArgumentError(
      'DataLoader: an iterable dataset does not support shuffle, sampler or batchSampler: use dataset.shuffle(bufferSize, seed)',
    );
  return IterableDataset.from(dataset);
}

/** Of a part, that of the whole: parts of different lengths are at the same place. */
const wholeLength = (dataset: { readonly whole?: number | undefined; readonly length: number | undefined }) =>
  dataset.whole ?? dataset.length;

function isHost(device: { toString(): string } = 'xla:0'): boolean {
  if (String(device) === 'host') return true;
  if (/^xla(:0)?$/.test(String(device))) return false;
  throw new ArgumentError(
    `DataLoader: no device ${device}: a process computes on one, 'xla:0'; 'host' keeps batches on the host`,
  );
}
