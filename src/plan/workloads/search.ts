// The largest batch that fits. Each look is a compile, so the memory of those that were looked at says where to look next.

/** What is known of a batch. */
export interface Look {
  readonly fits: boolean;
  /** Bytes: taken, or needed where it does not fit. */
  readonly peak: number;
  readonly available: number;
}

/** 0 where not even a batch of 1 fits. */
export async function largestBatch(look: (batch: number) => Promise<Look>, most = 1024): Promise<number> {
  const seen = new Map<number, Look>();
  let [low, high] = [0, most + 1]; // what fits, and what does not
  let stride = 1; // doubles while more fits than was predicted
  let refusals = 0; // in a row: after two, the middle is looked at
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

/** Memory grows with the batch in a line, nearly: the last batch before that line crosses what there is. */
function predicted(seen: ReadonlyMap<number, Look>, low: number, high: number): number {
  const last = seen.get(low);
  if (!last) return 1;
  const below = [...seen.keys()].filter((batch) => batch < low).sort((a, b) => b - a)[0];
  const other = seen.has(high) ? high : below;
  if (other === undefined) return 2 * low;
  const slope = (seen.get(other)!.peak - last.peak) / (other - low);
  return slope > 0 ? low + Math.floor((last.available - last.peak) / slope) : 2 * low;
}
