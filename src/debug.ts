// tx.debug: finding out what goes wrong. docs/debugging.md is the guide.
export { type NansOptions, nans } from './observe/nonfinite.js';
