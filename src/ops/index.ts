// The public operations: each function exported from these files becomes one of tsxla's and a method of Tensor
// (tensor/lift.ts). What is not public (strict primitives, helpers) lives in files not listed here.
export * from './activation.js';
export * from './alias.js';
export * from './conv.js';
export * from './indexing.js';
export * from './linalg.js';
export * from './loss.js';
export * from './math.js';
export * from './matmul.js';
export * from './norm.js';
export * from './parts.js';
export * from './pool.js';
export * from './prim/pointwise.js';
export * from './prim/power.js';
export * from './reduction.js';
export * from './resize.js';
export * from './shape.js';
export * from './sorting.js';
