// Modules: what networks are made of.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them

export * from './activation.js';
export * from './attention.js';
export * from './containers.js';
export * from './conv.js';
export * from './dropout.js';
export * from './embedding.js';
export * as functional from './functional.js';
export * as init from './init.js';
export * from './linear.js';
export * from './loss.js';
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
export * from './pooling.js';
export * from './reshaping.js';
export * from './rnn.js';
export { type Block, LayerStack, type ScanLayersOptions, scanLayers } from './stack.js';
export * from './transformer.js';
