// tsxla: torch's way of working, in TypeScript, on XLA's compiler and devices.
export * as amp from './amp.js';
export * from './base/errors.js';
export * as data from './data/index.js';
export * as distill from './distill/index.js';
export * as io from './io/index.js';
export * as lora from './lora/index.js';
export * as metrics from './metrics.js';
export * as models from './models/index.js';
export * as nn from './nn/index.js';
export * as optim from './optim/index.js';
export type { DeviceType } from './plugins/index.js';
export * as quant from './quant/index.js';
export * as recovery from './recovery/index.js';
export * from './rules.js';
export { type Choice, chooseDevice, device, type OpenOptions, openClient } from './runtime/device.js';
export { type CompileRecord, type Difference, explain } from './runtime/explain.js';
export * as spmd from './spmd/index.js';
export * from './tensor/index.js';
