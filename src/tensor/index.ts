// The tensor language: the class, the operations as functions, and the functions that make tensors.
export * from './create.js';
export * from './functions.js';
export * from './indexing.js';
export { Tensor } from './tensor.js';
