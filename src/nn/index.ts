// Modules: what networks are made of.
export * from './containers.js';
export * from './dropout.js';
export * as functional from './functional.js';
export * as init from './init.js';
export { Embedding, type EmbeddingOptions, Linear } from './linear.js';
export {
  Buffer,
  type LoadedKeys,
  Module,
  Parameter,
  type Pattern,
  type StateDict,
  type StateEntry,
  type StateValue,
} from './module.js';
export * from './norm.js';
export { type Block, LayerStack, type ScanLayersOptions, scanLayers } from './stack.js';
