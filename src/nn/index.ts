// Modules: what networks are made of.
import '../tensor/index.js'; // its methods: whoever imports this alone needs them
import { entry } from '../ir/source.js';
import * as layers from './layers.js';
import type { Module } from './module.js';

export type { LoadedKeys, StateDict, StateEntry, StateValue } from '../tensor/state.js';
export * from './containers.js';
export * as functional from './functional.js';
export * as init from './init.js';
export * from './layers.js';
export { Buffer, Module, Parameter, type Pattern } from './module.js';
export { type Block, LayerStack, type ScanLayersOptions, scanLayers } from './stack.js';

// Nodes made and errors thrown in a layer belong to the line that calls it, however deep inside they are. Not so containers:
// what is in them may be the user's.
const done = new Set<object>();
for (const { prototype } of Object.values(layers)) {
  let owner: Module = prototype;
  while (!Object.hasOwn(owner, 'forward')) owner = Object.getPrototypeOf(owner);
  if (done.has(owner)) continue; // one for several, as for Conv1d to Conv3d
  done.add(owner);
  Object.defineProperty(owner, 'forward', { value: entry(owner.forward), writable: true, configurable: true });
}
