// `tsxla/train`: TorchTrainer, with the API of Ray Train's, and the functions that training loops call.
import '../tensor/index.js'; // side effect: installs the Tensor methods

export { Checkpoint } from './checkpoint.js';
export {
  CheckpointConfig,
  type CheckpointOptions,
  FailureConfig,
  type FailureOptions,
  type PlacementStrategy,
  RunConfig,
  type RunOptions,
  ScalingConfig,
  type ScalingOptions,
  TorchConfig,
  type TorchOptions,
  type XlaSpmdConfig,
} from './config.js';
export {
  barrier,
  getCheckpoint,
  getContext,
  getDatasetShard,
  getRunLog,
  type ReportOptions,
  report,
} from './context.js';
export type { DatasetSource, Datasets, Shard, ShardOptions } from './data.js';
export type { KeptCheckpoint, Result } from './engine.js';
export { TrainingFailedError, WorkerError } from './errors.js';
export type { TrainContext } from './loop.js';
export type { Metrics } from './protocol.js';
export type { RayOptions } from './ray/engine.js';
export { type IterBatchesOptions, RayDataset, type RayDatasetOptions, RayShard, rayDataset } from './ray-data.js';
export {
  anyWorker,
  averageGradients,
  averageMetrics,
  type PreparedOptimizer,
  /** @deprecated Use PreparedOptimizer. */
  type PreparedOptimizer as Prepared,
  type PrepareModelOptions,
  prepareDataLoader,
  prepareModel,
  prepareOptimizer,
  SeamlessTPUTrainer,
  toDevice,
} from './reduce.js';
export type { Reduce, Scale } from './scaling.js';
export { TorchTrainer, type TrainerOptions } from './trainer.js';
