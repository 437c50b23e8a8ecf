// Steps: functions that become one program, and what ends a step of a plain loop.
export { type AccumulateOptions, accumulate } from './accumulate.js';
export { afterStep } from './closures.js';
export {
  type Compiled,
  type CompileFunctionOptions,
  compile,
  type Lowered,
  type LowerOptions,
  type Prepared,
  type StepOptions,
  step,
} from './step.js';
export { type SyncOptions, sync } from './sync.js';
export type { ProgramInput } from './trace.js';
