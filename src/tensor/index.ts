// The tensor language: the class, the operations as functions, and the functions that make tensors.
export { GradcheckError, type GradcheckOptions } from '../autograd/gradcheck.js';
export * from './attention.js';
export { type AutocastOptions, autocast } from './autocast.js';
export * from './autograd.js';
export * from './control.js';
export * from './create.js';
export * from './functions.js';
export { getStablehlo, graphText } from './graph.js';
export * from './indexing.js';
export { IN_PLACE } from './inplace.js';
export * from './norm.js';
export * from './random.js';
export { type Nested, Tensor } from './tensor.js';
export type * from './types.js';

import './methods.js';
