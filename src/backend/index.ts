// The TPU backend of specs 002 and 004: their names, over what the rest of tsxla does. docs/backend.md is the guide.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them

export { CHANGES, OPTIMIZATION_LEVELS, type OptimizationLevel, type Purpose } from './changes.js';
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
export { basicConfig, type LogFormat, type LogLevel, type LogOptions } from './log.js';
export type { Metrics } from './measure.js';
export {
  applyLevel,
  type ChangeReport,
  type Comparison,
  type MemoryUsage,
  type OptimizationStats,
  type OptimizeOptions,
  type PerformanceMetrics,
  TPUOptimizationResult,
  TPUOptimizer,
  undoOptimizations,
} from './optimizer.js';
