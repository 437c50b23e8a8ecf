// The TPU backend of specs 002 and 004: their names, over what the rest of tsxla does. docs/backend.md is the guide.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them

export type { CacheStats } from './cache.js';
export { type CompilationStats, type CompiledModel, type CompileModelOptions, XLACompiler } from './compiler.js';
export {
  type ConfigOptions,
  FIELDS,
  KernelPyTorchConfig,
  type Mode,
  TorchBridgeConfig,
  TPUCompilationMode,
  TPUConfig,
  TPUVersion,
} from './config.js';
export * from './errors.js';
export { type DeviceStats, type ReduceOperation, XLADeviceManager, XLADistributedTraining } from './integration.js';
export type { LayoutOptions, TensorLayout } from './layout.js';
export { basicConfig, type LogFormat, type LogLevel, type LogOptions } from './log.js';
export {
  type AllocationOptions,
  type AllocationRecord,
  limitOf,
  type MemoryStatistics,
  type PoolStatistics,
  TPUMemoryManager,
} from './memory.js';
export type { MemoryMonitor, MemorySample, MonitorOptions } from './monitor.js';
export type { PoolDetails } from './pool.js';
