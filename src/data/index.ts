// tx.data: datasets, samplers, and DataLoader, which brings batches to the device.
import '../tensor/index.js'; // side effect: installs the Tensor methods

export { type Bucketed, type BucketOptions, bucketCollate } from './bucket.js';
export { type Collated, type CollateOptions, type DTypes, type Placed, stackCollate } from './collate.js';
export { ArrayDataset, ConcatDataset, type Dataset, randomSplit, Subset, TensorDataset } from './dataset.js';
export { type FilesOptions, JsonlDataset, TextDataset, type TextOptions } from './files.js';
export { IterableDataset, type Read, type Source, type State } from './iterable.js';
export { DataLoader, type DataLoaderOptions, type Loader, type LoaderState } from './loader.js';
export { MpDeviceLoader, type MpDeviceLoaderOptions } from './mp-device-loader.js';
export {
  type ChunkOptions,
  chunkTokens,
  type Document,
  type PackedRow,
  type PackOptions,
  packSequences,
  type Row,
  type Tokens,
} from './pack.js';
export { ParquetDataset, type ParquetOptions } from './parquet.js';
export * from './sampler.js';
export type { InputSharding, LoaderSharding, ShardingSpec } from './sharding.js';
export type { WorkerOptions } from './workers.js';
