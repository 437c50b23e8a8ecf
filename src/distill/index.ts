// Distillation: what a teacher says, kept in files, and what a student learns from it.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them

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
