// Results for n examples, all at once or in chunks of them.
import { scan } from '../autograd/scan.js';
import type { Expr } from '../ir/expr.js';
import type { Lane } from '../ir/op.js';
import { batched, stackLane } from '../ops/prim/batch.js';
import { reshape } from '../ops/prim/move.js';
import { concat, sliceDim } from '../ops/prim/slice.js';

/**
 * The results for n examples; `given` has the stacked values and others. With chunks, a loop computes that many examples at a
 * time, so that only their values are in memory.
 */
export function inLanes(
  roots: readonly Expr[],
  given: ReadonlyMap<Expr, Lane>,
  n: number,
  chunkSize?: number | null,
): Lane[] {
  const whole = batched(roots, given, n);
  if (!chunkSize || chunkSize >= n) return whole;
  // What is the same for all examples needs no loop; nothing of the others here is computed.
  const varying = roots.filter((_, i) => whole[i]!.stacked);
  const chunked = inChunks(varying, given, n, chunkSize);
  return whole.map((lane) => (lane.stacked ? { x: chunked.shift()!, stacked: true } : lane));
}

function inChunks(roots: readonly Expr[], given: ReadonlyMap<Expr, Lane>, n: number, chunkSize: number): Expr[] {
  if (!roots.length) return [];
  const nodes = [...given.keys()].filter((e) => given.get(e)!.stacked);
  const values = nodes.map((e) => given.get(e)!.x);
  const run = (parts: readonly Expr[], count: number): Expr[] => {
    const lanes = new Map(given);
    nodes.forEach((e, i) => void lanes.set(e, { x: parts[i]!, stacked: true }));
    return batched(roots, lanes, count).map((l) => stackLane(l, count));
  };
  const turns = Math.floor(n / chunkSize);
  const even = turns * chunkSize;
  const rows = values.map((x) => reshape(sliceDim(x, 0, 0, even), [turns, chunkSize, ...x.shape.slice(1)]));
  const { ys } = scan([], rows, turns, (_, parts) => ({ carry: [], ys: run(parts, chunkSize) }));
  const first = ys.map((y) => reshape(y, [even, ...y.shape.slice(2)]));
  const rest =
    even < n
      ? run(
          values.map((x) => sliceDim(x, 0, even, n)),
          n - even,
        )
      : undefined;
  return first.map((y, i) => (rest ? concat([y, rest[i]!], 0) : y));
}
