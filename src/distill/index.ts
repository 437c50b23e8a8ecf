// `tsxla/distill`: caches of a teacher's logits, and distillation losses.
import '../tensor/index.js'; // side effect: installs the Tensor methods

export { type ConvertOptions, exportKDCache, importKDCache } from './cache-convert.js';
export {
  KDCacheDataset,
  type KDCacheInfo,
  type KDCacheOpenOptions,
  type KDSequence,
} from './cache-dataset.js';
export type { CacheSettings, CacheSizes, LogitsDType, Manifest } from './cache-format.js';
export type { DocumentOptions } from './cache-rows.js';
export { type Candidates, type Teacher, teacherCandidates } from './cache-teacher.js';
export { type KDCacheOptions, type KDCacheProgress, type KDCacheResult, writeKDCache } from './cache-write.js';
export {
  anchorLoss,
  annealed,
  type ChunkOptions,
  type Expecting,
  type KdCandidates,
  type KdLoss,
  type KdOptions,
  kdLoss,
  kdSoftCe,
  type LiveLoss,
  type LiveOptions,
  liveKdLoss,
  nextTokenLoss,
} from './losses.js';
