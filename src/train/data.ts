// Datasets among workers: of every n items in order, worker r has the r-th. So parts have no item in common, together they are
// everything, and n workers' batches of size b are those of one worker with batches of n * b.
import fs from 'node:fs';
import { ArgumentError, DataError } from '../base/errors.js';
import { noticeOnce } from '../base/log.js';
import { describe } from '../base/tree.js';
import { isDataset } from '../data/dataset.js';
import {
  ArrayDataset,
  type BatchOrder,
  BatchSampler,
  DataLoader,
  type DataLoaderOptions,
  type Dataset,
  DistributedSampler,
  IterableDataset,
  JsonlDataset,
  ParquetDataset,
  RandomSampler,
  type Read,
  type Sampler,
  SequentialSampler,
  type State,
  Subset,
} from '../data/index.js';
import { KDCacheDataset } from '../distill/index.js';
import type { Mesh } from '../ir/mesh.js';
import { batchShare, type Share } from '../spmd/index.js';
import type { TrainContext } from './loop.js';
import type { WorkerSpec } from './protocol.js';

/** Items, a dataset, or where it is: files of JSONL or Parquet, the folder of a KD cache. */
export type DatasetSource = readonly unknown[] | Dataset<unknown> | IterableDataset<unknown> | string;
export type Datasets = Readonly<Record<string, DatasetSource>>;
/** What a part is: random access stays random access. */
export type Shard<T> = Dataset<T> | IterableDataset<T>;
export interface ShardOptions {
  /** All parts have the same number of items: up to n - 1 of the last are left out. */
  readonly even?: boolean;
}

export class Shards {
  readonly #open: ReadonlyMap<string, Shard<unknown>>;
  private constructor(
    open: ReadonlyMap<string, Shard<unknown>>,
    readonly index: number,
    readonly count: number,
  ) {
    this.#open = open;
  }
  static async open(datasets: Datasets, index: number, count: number): Promise<Shards> {
    const opened = new Map<string, Shard<unknown>>();
    for (const [name, source] of Object.entries(datasets)) opened.set(name, await openDataset(name, source));
    return new Shards(opened, index, count);
  }

  readonly shard = <T = unknown>(name = 'train', { even = false }: ShardOptions = {}): Shard<T> => {
    const found = this.#open.get(name) as Shard<T> | undefined;
    if (!found) {
      const known = [...this.#open.keys()].join(', ') || 'none';
      throw new ArgumentError(`getDatasetShard: there is no dataset '${name}': TorchTrainer was given ${known}`);
    }
    return shardOf(found, this.index, this.count, even);
  };
}

/** Part `index` of `count`. */
export function shardOf<T>(dataset: Shard<T>, index: number, count: number, even = false): Shard<T> {
  if (count === 1) return dataset;
  if (dataset instanceof IterableDataset) return new Every(dataset, index, count, even);
  const { length } = dataset as Dataset<T>;
  const size = partOf(length, index, count, even);
  if (!size)
    throw new DataError(`getDatasetShard: ${length} items among ${count} workers: worker ${index} has none of them`);
  if (even && length % count)
    noticeOnce(`the last ${length % count} of ${length} items are left out: ${count} workers have equally many`);
  return new Part(
    dataset as Dataset<T>,
    Uint32Array.from({ length: size }, (_, i) => index + i * count),
  );
}
/** A worker's items. */
class Part<T> extends Subset<T> {
  readonly whole = this.dataset.length;
}

const partOf = (length: number, index: number, count: number, even: boolean): number =>
  even ? Math.floor(length / count) : Math.ceil((length - index) / count);

/** One of every `count` items. It is given when all of them were read: so the place behind it is the same for all workers. */
class Every<T> extends IterableDataset<T> {
  constructor(
    readonly source: IterableDataset<T>,
    readonly index: number,
    readonly count: number,
    readonly even: boolean,
  ) {
    super();
  }
  get whole(): number | undefined {
    return this.source.length;
  }
  override get length(): number | undefined {
    const { length } = this.source;
    return length === undefined ? undefined : partOf(length, this.index, this.count, this.even);
  }
  override async *read(epoch: number, from?: State): AsyncIterable<Read<T>> {
    let items: T[] = [];
    let last: State = null;
    for await (const { item, after } of this.source.read(epoch, from)) {
      items.push(item);
      last = after;
      if (items.length < this.count) continue;
      yield { item: items[this.index]!, after };
      items = [];
    }
    if (!this.even && this.index < items.length) yield { item: items[this.index]!, after: last };
  }
}

/** Which part of every batch a worker loads: where XLA joins them, those whose devices split the model between them load the same. */
export const shareOf = async (
  { reduce }: Pick<WorkerSpec, 'reduce'>,
  { rank, worldSize }: Pick<TrainContext, 'rank' | 'worldSize'>,
  mesh: Mesh | undefined,
): Promise<Share> => (reduce === 'xla' && mesh ? batchShare(mesh) : { index: rank, count: worldSize });

/** The loader that worker `index` of `count` has in its place: as many batches as all others have, split over its mesh. */
export function shareLoader<T, R>(
  loader: DataLoader<T, R>,
  index: number,
  count: number,
  mesh: Mesh | undefined,
): DataLoader<T, R> {
  if (!(loader instanceof DataLoader))
    throw new ArgumentError(`prepareDataLoader: takes a DataLoader, got ${describe(loader)}`);
  const { dataset, options } = loader.origin as { dataset: Shard<T> | readonly T[]; options: DataLoaderOptions<T, R> };
  const sharding = mesh && !options.sharding ? { sharding: mesh } : {};
  if (count === 1) return mesh ? new DataLoader<T, R>(dataset as Dataset<T>, { ...options, ...sharding }) : loader;
  if (dataset instanceof Part || dataset instanceof Every)
    throw new ArgumentError(
      `prepareDataLoader: its dataset is this worker's part already, of getDatasetShard, and it would load one item of ${count} of that: ` +
        'use the loader as it is, or give it the whole dataset',
    );
  if (options.sampler instanceof DistributedSampler)
    throw new ArgumentError(
      `prepareDataLoader: its sampler is a DistributedSampler, whose part would be shared by ${count} workers again: leave the sampler out, or use the loader as it is`,
    );
  if (options.dropLast === false)
    throw new ArgumentError(
      `prepareDataLoader: dropLast is false, and a last batch that is shorter cannot be shared evenly by ${count} workers: remove dropLast: false`,
    );
  if (!Array.isArray(dataset) && !isDataset(dataset)) {
    const every = new Every(dataset as IterableDataset<T>, index, count, true);
    return new DataLoader<T, R>(every, { ...options, ...sharding }).asShareOf(loader, count);
  }
  const { shuffle = false, seed = 0, sampler, batchSampler, batchSize = 1, dropLast: _, ...rest } = options;
  const { length } = dataset;
  const items = sampler ?? (shuffle ? new RandomSampler(length, { seed }) : new SequentialSampler(length));
  const order = batchSampler
    ? new EveryBatch(batchSampler, index, count)
    : new BatchSampler(new EveryItem(items, index, count), batchSize, true);
  if (!order.length)
    throw new DataError(
      `prepareDataLoader: ${items.length} items are no batch of ${batchSize} for each of ${count} workers: use a smaller batchSize`,
    );
  const own = new DataLoader<T, R>(dataset as Dataset<T>, { ...rest, ...sharding, batchSampler: order });
  return own.asShareOf(loader, count);
}

/** Of what a sampler gives, one of every `count` items; all workers have equally many. */
class EveryItem implements Sampler {
  readonly length: number;
  constructor(
    readonly whole: Sampler,
    readonly index: number,
    readonly count: number,
  ) {
    this.length = Math.floor(whole.length / count);
  }
  get seed(): number {
    return this.whole.seed ?? 0;
  }
  order(epoch: number): Iterable<number> {
    return every(this.whole.order(epoch), this.index, this.count);
  }
}
/** The same of batches that are already put together. */
class EveryBatch implements BatchOrder {
  readonly length: number;
  constructor(
    readonly whole: BatchOrder,
    readonly index: number,
    readonly count: number,
  ) {
    this.length = Math.floor(whole.length / count);
  }
  get seed(): number | undefined {
    return this.whole.seed;
  }
  batches(epoch: number): Iterable<readonly number[]> {
    return every(this.whole.batches(epoch), this.index, this.count);
  }
}
function* every<T>(items: Iterable<T>, index: number, count: number): Iterable<T> {
  let group: T[] = [];
  for (const item of items) {
    if (group.push(item) < count) continue;
    yield group[index]!;
    group = [];
  }
}

async function openDataset(name: string, source: DatasetSource): Promise<Shard<unknown>> {
  const what = `TorchTrainer: the dataset '${name}'`;
  if (Array.isArray(source)) return new ArrayDataset(source);
  if (source instanceof IterableDataset || isDataset<unknown>(source)) return source as Shard<unknown>;
  if (typeof source !== 'string')
    throw new ArgumentError(`${what} is ${describe(source)}: give items, a dataset, or the path of one`);
  const found = fs.statSync(source, { throwIfNoEntry: false });
  if (!found) throw new DataError(`${what}: there is no ${source}`);
  if (found.isDirectory()) return KDCacheDataset.open(source);
  if (/\.jsonl(\.gz)?$/.test(source)) return new JsonlDataset(source);
  if (source.endsWith('.parquet')) return new ParquetDataset(source);
  throw new ArgumentError(`${what}: ${source} is neither .jsonl, .jsonl.gz nor .parquet, nor the folder of a KD cache`);
}
