// tsxla/backend: compatibility API for TorchBridge / KernelPyTorch on top of tsxla. docs/backend.md is the guide.
import '../tensor/index.js'; // side effect: installs the Tensor methods

export {
  type BackendMemoryStats,
  BaseBackend,
  type DeviceInfo,
  type LoadModelOptions,
  type SaveOptions,
  TPUBackend,
} from './backend.js';
export type { CacheStats } from './cache.js';
export { CHANGES, OPTIMIZATION_LEVELS, type OptimizationLevel, type Purpose } from './changes.js';
export { type CompilationStats, type CompiledModel, type CompileModelOptions, XLACompiler } from './compiler.js';
export {
  type ConfigOptions,
  FIELDS,
  KernelPyTorchConfig,
  limitOf,
  type Mode,
  TorchBridgeConfig,
  TPUCompilationMode,
  TPUConfig,
  TPUVersion,
} from './config.js';
export {
  CompilationError,
  DeviceNotAvailableError,
  OutOfMemoryError,
  TPUBackendError,
  TPUCacheError,
  TPUCheckpointError,
  TPUConfigurationError,
  TPUDeviceError,
  TPUDistributedError,
  TPUMemoryError,
  TPUMemoryPoolError,
  TPUModelPreparationError,
  TPUNotAvailableError,
  TPUOptimizationError,
  TPUOutOfMemoryError,
  TPUValidationError,
  XLACompilationError,
  XLACompilationTimeoutError,
} from './errors.js';
export {
  createXlaIntegration,
  type DeviceStats,
  type ReduceOperation,
  XLADeviceManager,
  XLADistributedTraining,
  XLAOptimizations,
} from './integration.js';
export type { LayoutOptions, TensorLayout } from './layout.js';
export { basicConfig, type LogFormat, type LogLevel, type LogOptions } from './log.js';
export type { Metrics } from './measure.js';
export {
  type AllocationOptions,
  type AllocationRecord,
  type MemoryStatistics,
  type PoolStatistics,
  TPUMemoryManager,
} from './memory.js';
export type { MemoryMonitor, MemorySample, MonitorOptions } from './monitor.js';
export {
  type Comparison,
  type MemoryUsage,
  type OptimizationStats,
  type OptimizeOptions,
  type PerformanceMetrics,
  TPUOptimizationResult,
  TPUOptimizer,
} from './optimizer.js';
export type { PoolDetails } from './pool.js';
export { type ChangeReport, undoOptimizations } from './standing.js';
