// The tensor language: the class, the operations as functions, and the functions that make tensors.
export { GradcheckError, type GradcheckOptions } from '../autograd/gradcheck.js';
export { type AccumulateOptions, accumulate } from './accumulate.js';
export * from './attention.js';
export { type AutocastOptions, autocast } from './autocast.js';
export * from './autograd.js';
export { afterStep } from './closures.js';
export * from './control.js';
export * from './create.js';
export * from './functions.js';
export { getStablehlo, graphText } from './graph.js';
export * from './indexing.js';
export { IN_PLACE } from './inplace.js';
export * from './norm.js';
export * from './random.js';
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
export { type Nested, Tensor } from './tensor.js';
export type { ProgramInput } from './trace.js';
export type * from './types.js';

import './methods.js';
