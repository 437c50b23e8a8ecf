// tsxla/pjrt: XLA's devices and compiler through the PJRT C API, the lowest layer of tsxla.
export { type ArrayType, DTYPES, type DType, type TypedArray } from '../base/dtype.js';
export * from '../base/errors.js';
export { decodeFloats, encodeNumbers } from '../base/float.js';
export { Api } from './api.js';
export { Buffer } from './buffer.js';
export { Client } from './client.js';
export { Device, DeviceDescription, type DeviceMemory } from './device.js';
export {
  Executable,
  type ExecuteOptions,
  type Execution,
  LoadedExecutable,
  type MemoryStats,
  type Rows,
} from './executable.js';
export { type HloFormat, type Module, readModule } from './hlo.js';
export { type KeyValueCallbacks, KeyValueStore, type Member } from './key-value.js';
export { checkLibrary, keepFreedMemory, preload } from './library.js';
export { type CompileOptions, encodeCompileOptions } from './options.js';
export { devicesOf, type Program } from './program.js';
export { Topology } from './topology.js';
export type { Attributes, Option, Options } from './values.js';
