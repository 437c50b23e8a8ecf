// `tsxla/plan`: the memory and time that a program needs on TPUs that are not attached.

export { CHIPS, type Chip, findChip } from '../base/chips.js';
export { parseTopology, type Slice } from '../base/slices.js';
export {
  type AheadOfTime,
  askTopologies,
  type CompileAheadOptions,
  compileAhead,
  type KnownTopology,
  memoryShortage,
} from './aot.js';
export { type Answer, type AskOptions, ask, plansDir } from './compile.js';
export { type Collective, type Cost, costOf, type Kernel } from './hlo/cost.js';
export type { Flops, Unit } from './hlo/flops.js';
export { type BufferClass, type LiveBuffer, type Liveness, livenessOf } from './hlo/liveness.js';
export { PARTS, type Parts, type Plan, type PlanOptions, plan, planLowered } from './plan.js';
export { type Estimate, estimate, type HeavyKernel } from './roofline.js';
