// Searches for the largest batch that fits. Each trial is a compile, so the memory of earlier trials predicts the next.

/** The result of a trial. */
export interface Look {
  readonly fits: boolean;
  /** Peak memory in bytes, also if it does not fit. */
  readonly peak: number;
  readonly available: number;
}

/** The largest batch that fits; 0 if not even a batch of 1 does. */
export async function largestBatch(look: (batch: number) => Promise<Look>, most = 1024): Promise<number> {
  const seen = new Map<number, Look>();
  let [low, high] = [0, most + 1]; // `low` fits, `high` does not
  let stride = 1; // doubles while more fits than predicted
  let refusals = 0; // consecutive failures: after two, bisect
  while (high - low > 1) {
    const expected = predicted(seen, low, high);
    const wanted = refusals > 1 ? Math.floor((low + high) / 2) : Math.max(expected, low + stride);
    const next = Math.min(wanted, high - 1);
    const found = await look(next);
    seen.set(next, found);
    stride = found.fits && next > expected ? 2 * stride : 1;
    refusals = found.fits ? 0 : refusals + 1;
    if (found.fits) low = next;
    else high = next;
  }
  return low;
}

/** Memory is nearly linear in the batch: predicts the last batch below the available memory. */
function predicted(seen: ReadonlyMap<number, Look>, low: number, high: number): number {
  const last = seen.get(low);
  if (!last) return 1;
  const below = [...seen.keys()].filter((batch) => batch < low).sort((a, b) => b - a)[0];
  const other = seen.has(high) ? high : below;
  if (other === undefined) return 2 * low;
  const slope = (seen.get(other)!.peak - last.peak) / (other - low);
  return slope > 0 ? low + Math.floor((last.available - last.peak) / slope) : 2 * low;
}
