// Planning: what a program needs on devices that are not here.
export { type AheadOfTime, type CompileAheadOptions, compileAhead, memoryShortage } from './aot.js';
