// The tensor language: the class, the operations as functions, and the functions that make tensors.
export { GradcheckError, type GradcheckOptions } from '../autograd/gradcheck.js';
export * from './attention.js';
export { type AutocastOptions, autocast } from './autocast.js';
export * from './autograd.js';
export * as autograd from './autograd-space.js';
export * from './control.js';
export * from './create.js';
export * from './create-like.js';
export { fractionalMaxPool2d, fractionalMaxPool3d } from './fractional.js';
export * from './functions.js';
export { getStablehlo, graphText } from './graph.js';
export type { Handle, TensorHook } from './hooks.js';
export * from './indexing.js';
export { IN_PLACE } from './inplace.js';
export * as kernels from './kernels.js';
export { kernel } from './kernels.js';
export * as linalg from './linalg.js';
export * from './lowrank.js';
export * as masked from './masked.js';
export * from './norm.js';
export * from './precision.js';
export * from './random.js';
export { type ReadValues, read } from './read.js';
export { binomial, type GumbelSoftmaxOptions, gumbelSoftmax, poisson } from './samplers.js';
export * from './selection.js';
export * as signal from './signal.js';
export * as special from './special.js';
export { type IstftOptions, istft, type StftOptions, stft } from './stft.js';
export { type Complex, type Nested, Tensor } from './tensor.js';
export type * from './types.js';
export * from './window-functions.js';

import './hooks.js'; // side effect: installs registerHook
import './methods.js';
