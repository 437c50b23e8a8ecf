// Shards datasets over workers: of every n items in order, worker r gets the r-th. Shards are disjoint, together they are the whole
// dataset, and n workers' batches of size b have the items of one worker's batches of size n * b.
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
import { findFiles, isHubFile, isHubFolder } from '../io/hub-files.js';
import type { Mesh } from '../ir/mesh.js';
import { batchShare, type Share } from '../spmd/index.js';
import type { Link } from './link.js';
import type { TrainContext } from './loop.js';
import type { WorkerSpec } from './protocol.js';
import { RayDataset, RayShard } from './ray-data.js';

/** Items, a dataset, or a path: of a JSONL or Parquet file, or the folder of a KD cache. */
export type DatasetSource = readonly unknown[] | Dataset<unknown> | IterableDataset<unknown> | RayDataset | string;
export type Datasets = Readonly<Record<string, DatasetSource>>;
/** A worker's part of a dataset. A dataset with random access keeps it. */
export type Shard<T> = Dataset<T> | IterableDataset<T>;
export interface ShardOptions {
  /** All shards have the same number of items; with n workers, up to n - 1 of the last items are dropped. Default: false. */
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
  static async open(datasets: Datasets, index: number, count: number, link?: Link): Promise<Shards> {
    const opened = new Map<string, Shard<unknown>>();
    for (const [name, source] of Object.entries(datasets))
      opened.set(name, source instanceof RayDataset ? new RayShard(name, link) : await openDataset(name, source));
    return new Shards(opened, index, count);
  }

  readonly shard = <T = unknown>(name = 'train', { even = false }: ShardOptions = {}): Shard<T> => {
    const found = this.#open.get(name) as Shard<T> | undefined;
    if (!found) {
      const known = [...this.#open.keys()].join(', ') || 'none';
      throw new ArgumentError(`getDatasetShard: there is no dataset '${name}': TorchTrainer has ${known}`);
    }
    return shardOf(found, this.index, this.count, even);
  };
}

/** Shard `index` of `count`. */
export function shardOf<T>(dataset: Shard<T>, index: number, count: number, even = false): Shard<T> {
  if (count === 1 || dataset instanceof RayShard) return dataset; // Ray splits a RayDataset
  if (dataset instanceof IterableDataset) return new Every(dataset, index, count, even);
  const { length } = dataset as Dataset<T>;
  const size = partOf(length, index, count, even);
  if (!size)
    throw new DataError(`getDatasetShard: ${length} items for ${count} workers: worker ${index} would have none`);
  if (even && length % count)
    noticeOnce(
      `the last ${length % count} of ${length} items are dropped: ${count} workers have the same number of items`,
    );
  return new Part(
    dataset as Dataset<T>,
    Uint32Array.from({ length: size }, (_, i) => index + i * count),
  );
}
/** A worker's items of a dataset with random access. */
class Part<T> extends Subset<T> {
  readonly whole = this.dataset.length;
}

const partOf = (length: number, index: number, count: number, even: boolean): number =>
  even ? Math.floor(length / count) : Math.ceil((length - index) / count);

/** One of every `count` items. It is yielded once all of them were read, so that the state after it is the same in all workers. */
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

/** The part of every batch that a worker loads. Workers whose devices split one copy of the model load the same part. */
export const shareOf = async (
  { reduce }: Pick<WorkerSpec, 'reduce'>,
  { rank, worldSize }: Pick<TrainContext, 'rank' | 'worldSize'>,
  mesh: Mesh | undefined,
): Promise<Share> => (reduce === 'xla' && mesh ? batchShare(mesh) : { index: rank, count: worldSize });

/** The loader of worker `index` of `count`: all workers have the same number of batches, each split over the worker's mesh. */
export function shareLoader<T, R>(
  loader: DataLoader<T, R>,
  index: number,
  count: number,
  mesh: Mesh | undefined,
): DataLoader<T, R> {
  if (!(loader instanceof DataLoader))
    throw new ArgumentError(`prepareDataLoader: expected a DataLoader, got ${describe(loader)}`);
  const { dataset, options } = loader.origin as { dataset: Shard<T> | readonly T[]; options: DataLoaderOptions<T, R> };
  const sharding = mesh && !options.sharding ? { sharding: mesh } : {};
  if (count === 1) return mesh ? new DataLoader<T, R>(dataset as Dataset<T>, { ...options, ...sharding }) : loader;
  if (dataset instanceof Part || dataset instanceof Every)
    throw new ArgumentError(
      `prepareDataLoader: the loader's dataset is already this worker's shard (getDatasetShard) and would be split by ${count} again: ` +
        'use the loader as it is, or give it the whole dataset',
    );
  if (options.sampler instanceof DistributedSampler)
    throw new ArgumentError(
      `prepareDataLoader: the loader's sampler is a DistributedSampler, and its part would be split by ${count} workers again: leave the sampler out, or use the loader as it is`,
    );
  if (options.dropLast === false)
    throw new ArgumentError(
      `prepareDataLoader: dropLast is false, but a shorter last batch cannot be split evenly over ${count} workers: remove dropLast: false`,
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
      `prepareDataLoader: ${items.length} items are too few for one batch of ${batchSize} on each of ${count} workers: use a smaller batchSize`,
    );
  const own = new DataLoader<T, R>(dataset as Dataset<T>, { ...rest, ...sharding, batchSampler: order });
  return own.asShareOf(loader, count);
}

/** One of every `count` items of a sampler; all workers get the same number. */
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
/** One of every `count` batches of a batch sampler. */
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

async function openDataset(name: string, source: Exclude<DatasetSource, RayDataset>): Promise<Shard<unknown>> {
  const what = `TorchTrainer: the dataset '${name}'`;
  if (Array.isArray(source)) return new ArrayDataset(source);
  if (source instanceof IterableDataset || isDataset<unknown>(source)) return source as Shard<unknown>;
  if (typeof source !== 'string')
    throw new ArgumentError(`${what} is ${describe(source)}: give items, a dataset, or the path of one`);
  const found = isHubFile(source) ? undefined : fs.statSync(source, { throwIfNoEntry: false });
  if (isHubFolder(source)) return KDCacheDataset.open(source);
  if (isHubFile(source)) await findFiles([source]);
  else if (!found) throw new DataError(`${what}: there is no ${source}`);
  if (found?.isDirectory()) return KDCacheDataset.open(source);
  if (/\.jsonl(\.gz)?$/.test(source)) return new JsonlDataset(source);
  if (source.endsWith('.parquet')) return new ParquetDataset(source);
  throw new ArgumentError(`${what}: ${source} is neither .jsonl, .jsonl.gz nor .parquet, nor the folder of a KD cache`);
}
