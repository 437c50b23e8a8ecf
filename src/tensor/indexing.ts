// What goes between the brackets of torch's x[...]: t.index(0, slice(1, 5), null, '...', ids).
import type { Slice } from '../ops/spec.js';

export type { Slice } from '../ops/spec.js';

/** Elements start to stop, step apart; null or nothing means from the first, to the last. slice() takes all. */
export const slice = (start?: number | null, stop?: number | null, step?: number | null): Slice => ({
  start,
  stop,
  step,
});
