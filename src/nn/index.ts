// tx.nn: modules, layers, losses and initial values.
import '../tensor/index.js'; // side effect: installs the Tensor methods
import { entry } from '../ir/source.js';
import * as layers from './layers.js';
import type { Module } from './module.js';

export type { LoadedKeys, StateDict, StateEntry, StateValue } from '../tensor/state.js';
export * from './containers.js';
export * as functional from './functional.js';
export type { BackwardHook, BackwardPreHook, ForwardHook, ForwardPreHook, HookOptions } from './hooks.js';
export * as init from './init.js';
export * from './layers.js';
export { Buffer, Module, Parameter, type Pattern } from './module.js';
export type { Parametrization } from './parametrize.js';
export { forwardEach, type Projection } from './projection.js';
export { type Block, LayerStack, type ScanLayersOptions, scanLayers } from './stack.js';
export * as utils from './utils.js';

// Nodes and errors made in a layer are attributed to the line that calls it, at any depth. Not for containers, which may have
// modules of the user.
const done = new Set<object>();
for (const { prototype } of Object.values(layers)) {
  let owner: Module = prototype;
  while (!Object.hasOwn(owner, 'forward')) owner = Object.getPrototypeOf(owner);
  if (done.has(owner)) continue; // one for several, as for Conv1d to Conv3d
  done.add(owner);
  Object.defineProperty(owner, 'forward', { value: entry(owner.forward), writable: true, configurable: true });
}
