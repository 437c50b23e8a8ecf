// Recovery: a quantized student gets its quality back.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them

export * from './merge.js';
export type { EvalMetrics, Metrics } from './metrics.js';
export { FLAGS, type RecoveryOptions } from './options.js';
export * from './perplexity.js';
export * from './student.js';
export { type RecoveryEvent, type RecoveryResult, trainRecoveryLora } from './train.js';
