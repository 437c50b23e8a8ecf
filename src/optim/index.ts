// Optimizers, learning rate schedules, gradient clipping, averages of parameters, and the scaler for f16.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them

export * from './clip.js';
export * from './ema.js';
export { type Group, type GroupOptions, Optimizer, type Params, type StepOptions } from './optimizer.js';
export * from './rules.js';
export * from './scaler.js';
export * from './schedule.js';
export type { GivenState, OptimizerState } from './state-dict.js';
