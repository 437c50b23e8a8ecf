// Histograms as those of torch.utils.tensorboard: numpy's counts between edges, without empty bins at the ends.
import { ArgumentError } from '../base/errors.js';

/** The bins: TensorBoard's own edges, a number of bins of equal width, or given edges. */
export type Bins = 'tensorflow' | number | readonly number[];

/** TensorBoard's edges, around 0, each 1.1 times the previous one. */
let standard: readonly number[] | undefined;
function standardEdges(): readonly number[] {
  if (standard) return standard;
  const edges: number[] = [];
  for (let edge = 1e-12; edge < 1e20; edge *= 1.1) edges.push(edge);
  standard = [...edges.map((x) => -x).reverse(), 0, ...edges];
  return standard;
}

function edgesOf(bins: Bins, min: number, max: number): readonly number[] {
  if (bins === 'tensorflow') return standardEdges();
  if (typeof bins === 'number') {
    if (!Number.isSafeInteger(bins) || bins < 1)
      throw new ArgumentError(`addHistogram: bins is ${bins}: it must be a whole number, 1 or more`);
    const [from, to] = min === max ? [min - 0.5, max + 0.5] : [min, max];
    const width = (to - from) / bins;
    return Array.from({ length: bins + 1 }, (_, i) => (i === bins ? to : i * width + from));
  }
  const isRising = Array.isArray(bins) && bins.length > 1 && bins.every((x, i) => i === 0 || x >= bins[i - 1]!);
  if (!isRising)
    throw new ArgumentError(
      `addHistogram: bins is ${JSON.stringify(bins)}: it must be 'tensorflow', a number of bins, or two or more ascending edges`,
    );
  return bins;
}

/** Counts values in [edges[i], edges[i + 1]); the last bin includes its end. */
function countsBetween(values: Float64Array, edges: readonly number[]): number[] {
  const counts = new Array<number>(edges.length - 1).fill(0);
  for (const value of values) {
    if (value < edges[0]! || value > edges.at(-1)!) continue;
    let [low, high] = [0, edges.length - 1]; // edges[low] <= value < edges[high], or value is the last edge
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (edges[middle]! <= value) low = middle;
      else high = middle;
    }
    counts[low]!++;
  }
  return counts;
}

/** The histogram of one or more finite values. */
export function histogramOf(values: Float64Array, bins: Bins = 'tensorflow', maxBins?: number) {
  let [min, max, sum, sumSquares] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 0];
  for (const x of values) {
    min = Math.min(min, x);
    max = Math.max(max, x);
    sum += x;
    sumSquares += x * x;
  }
  let edges = edgesOf(bins, min, max);
  let counts = countsBetween(values, edges);
  if (maxBins !== undefined && counts.length > maxBins) {
    const each = Math.floor(counts.length / maxBins);
    const joined = Math.ceil(counts.length / each);
    const all = counts;
    counts = Array.from({ length: joined }, (_, i) => all.slice(i * each, (i + 1) * each).reduce((a, b) => a + b, 0));
    edges = [...Array.from({ length: joined }, (_, i) => edges[i * each]!), edges.at(-1)!];
  }
  const first = counts.findIndex((n) => n > 0);
  const last = counts.findLastIndex((n) => n > 0);
  if (first < 0) throw new ArgumentError(`addHistogram: no value is between the edges ${edges[0]} and ${edges.at(-1)}`);
  // A limit is the right end of its bucket: an empty bucket in front has the left end of the first.
  const bucket = [first > 0 ? counts[first - 1]! : 0, ...counts.slice(first, last + 1)];
  return { min, max, num: values.length, sum, sumSquares, bucketLimit: edges.slice(first, last + 2), bucket };
}
