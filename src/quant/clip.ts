// Chooses the clipping point of a matrix, as a fraction of its largest weight: few weights are clipped, and steps are small.

import { compute } from '../step/sync.js';
import { slice } from '../tensor/indexing.js';
import type { Tensor } from '../tensor/tensor.js';

/** The range of codes; levels are half a step below them. */
export interface CodeRange {
  readonly least: number;
  readonly most: number;
}
export type ClipMethod = 'newton' | 'percentile' | 'grid';

const SAMPLES = 65536; // approximate number of weights that are sampled, every n-th
const START = 99.5; // percentile
const GRID = [99, 99.3, 99.5, 99.7, 99.9, 100];
const ITERATIONS = 4;

interface Sample {
  readonly weights: Float32Array;
  /** Their absolute values, sorted. */
  readonly sizes: Float32Array;
  /** The largest of all weights. */
  readonly largest: number;
}
async function sample(weights: Tensor): Promise<Sample> {
  const some = weights.index(slice(null, null, Math.max(1, Math.floor(weights.numel() / SAMPLES))));
  const most = weights.abs().max();
  await compute('quantize', some, most);
  const largest = Math.max(await most.item(), 1e-8);
  const read = (await some.data()) as Float32Array;
  return { weights: read, sizes: read.map(Math.abs).sort(), largest };
}
const percentile = (sizes: Float32Array, percent: number): number =>
  sizes[Math.min(Math.max(1, Math.floor((percent / 100) * sizes.length)), sizes.length) - 1]!;

/** The mean squared error of weights that are clipped at `clip`. */
function errorAt(clip: number, { weights }: Sample, { least, most }: CodeRange): number {
  const step = clip / most;
  let sum = 0;
  for (const w of weights) {
    const code = Math.min(Math.max(Math.round(w / step + 0.5), least), most);
    sum += (w - (code - 0.5) * step) ** 2;
  }
  return sum / weights.length;
}

/** Newton's method on the error, starting at the 99.5th percentile. Returns the best point found. */
function newton(of: Sample, range: CodeRange): number {
  const within = (c: number) => Math.min(Math.max(c, 1e-6), of.largest);
  const error = (c: number) => errorAt(within(c), of, range);
  let c = within(percentile(of.sizes, START));
  let best = { c, error: error(c) };
  for (let i = 0; i < ITERATIONS; i++) {
    const eps = Math.max(1e-6, 0.01 * c);
    const [below, here, above] = [error(c - eps), error(c), error(c + eps)];
    const [slope, bend] = [(above - below) / (2 * eps), (above - 2 * here + below) / eps ** 2];
    const step = bend > 0 ? slope / bend : Math.sign(slope) * c; // with negative curvature Newton's step would climb
    c = within(c - Math.min(Math.max(step, -c / 4), c / 4));
    const now = error(c);
    if (now < best.error) best = { c, error: now };
  }
  return best.c;
}

const clips: Readonly<Record<ClipMethod, (of: Sample, range: CodeRange) => number>> = {
  newton,
  percentile: ({ sizes }) => Math.max(percentile(sizes, START), 1e-6),
  grid: (of, range) =>
    GRID.map((percent) => Math.max(percentile(of.sizes, percent), 1e-6))
      .map((c) => ({ c, error: errorAt(c, of, range) }))
      .reduce((best, next) => (next.error < best.error ? next : best)).c,
};
export const CLIP_METHODS = Object.keys(clips) as ClipMethod[];

/** The clipping point of weights [n], as a fraction of the largest. */
export async function clipShare(method: ClipMethod, weights: Tensor, range: CodeRange): Promise<number> {
  const of = await sample(weights);
  return Math.max(clips[method](of, range) / of.largest, 1e-4);
}
