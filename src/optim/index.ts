// Optimizers, learning rate schedules, gradient clipping, averages of parameters, and the scaler for f16.
import '../tensor/index.js'; // side effect: installs the Tensor methods

export * from '../nn/clip.js';
export * from './ema.js';
export { LBFGS, type LBFGSOptions } from './lbfgs.js';
export * as lrScheduler from './lr-scheduler.js';
export { type Given, type Group, type GroupOptions, Optimizer, type Params, type StepOptions } from './optimizer.js';
export * from './rules.js';
export * from './rules-adaptive.js';
export * from './rules-other.js';
export * from './scaler.js';
export {
  type ChainRule,
  type Rates,
  Schedule,
  type ScheduleForm,
  type ScheduleRule,
  type ScheduleState,
  type Setting,
} from './schedule.js';
export * from './schedules.js';
export * from './schedules-composed.js';
export type { GivenState, OptimizerState } from './state-dict.js';
export * from './swa-utils.js';
export * as swaUtils from './swa-utils.js';
