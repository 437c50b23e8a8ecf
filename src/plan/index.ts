// Planning: what a program needs on devices that are not here.
export { type AheadOfTime, type CompileAheadOptions, compileAhead, memoryShortage } from './aot.js';
export { CHIPS, type Chip, findChip } from './chips.js';
export type { BufferClass, LiveBuffer, Liveness } from './liveness.js';
export type { Collective, Cost, Estimate, Kernel, Unit } from './roofline.js';
export { parseTopology, type Slice } from './topology.js';
