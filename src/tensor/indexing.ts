// Index items, as between the brackets of torch's x[...]: t.index(0, slice(1, 5), null, '...', ids).
import type { Slice } from '../ops/spec.js';

export type { Slice } from '../ops/spec.js';

/** Python's start:stop:step. null or undefined: from the first, to the last. slice() takes all elements. */
export const slice = (start?: number | null, stop?: number | null, step?: number | null): Slice => ({
  start,
  stop,
  step,
});
