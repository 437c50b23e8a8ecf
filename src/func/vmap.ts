// vmap: turns a function of one example into a function of many. It is traced once, for one example, and its graph is rewritten
// for all (ops/prim/batch.ts).

import { checkWhole } from '../base/check.js';
import { ArgumentError, ShapeError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import type { Lane } from '../ir/op.js';
import type { CellLike } from '../ir/scope.js';
import { entry } from '../ir/source.js';
import { frontTo, stackLane, toFront } from '../ops/prim/batch.js';
import { type Changed, trace } from '../ops/prim/body.js';
import { full } from '../ops/prim/constant.js';
import { reshape } from '../ops/prim/move.js';
import { concat, sliceDim } from '../ops/prim/slice.js';
import { advance, words } from '../ops/prim/threefry.js';
import { Tensor } from '../tensor/tensor.js';
import { callUser } from '../tensor/trees.js';
import { type Dims, type Placed, type PlacedTree, placeDims } from './dims.js';
import { inLanes } from './lanes.js';

export interface VmapOptions {
  /**
   * The dimension of each argument along which its examples lie: one number for all arguments (default: 0), or an array with
   * one for each. null: the argument is the same for all examples. An argument that is a tree may have a tree of dimensions.
   */
  readonly inDims?: Dims;
  /** The position of that dimension in the results, or a tree of positions; null: the result is the same for all examples. Default: 0. */
  readonly outDims?: Dims;
  /** 'different' or 'same' random numbers for each example; 'error': drawing is an error. Default: 'error'. */
  readonly randomness?: 'error' | 'different' | 'same';
  /** The number of examples computed at a time. Default: all. */
  readonly chunkSize?: number | null;
}

const RANDOMNESS = ['error', 'different', 'same'] as const;

/**
 * Maps f, written for one example, over stacked arguments; returns stacked results. Tensors that f captures are the same for
 * all examples, and cannot be changed in place.
 */
export const vmap = entry(<F extends (...args: never[]) => unknown>(f: F, options: VmapOptions = {}): F => {
  if (typeof f !== 'function') throw new ArgumentError(`vmap: takes a function, got ${describe(f)}`);
  checkOptions('vmap', ['inDims', 'outDims', 'randomness', 'chunkSize'], options);
  const { inDims = 0, randomness = 'error', chunkSize = null } = options;
  if (!RANDOMNESS.includes(randomness))
    throw new ArgumentError(`vmap: randomness is ${String(randomness)}: it must be ${RANDOMNESS.join(', ')}`);
  if (chunkSize !== null) checkWhole('vmap: chunkSize', chunkSize, 1);
  return entry((...args: unknown[]) => mapped(f, args, { ...options, inDims })) as unknown as F;
});

function mapped(
  f: (...args: never[]) => unknown,
  args: readonly unknown[],
  { inDims = 0, outDims = 0, randomness = 'error', chunkSize }: VmapOptions,
): unknown {
  if (Array.isArray(inDims) && inDims.length !== args.length)
    throw new ArgumentError(
      `vmap: inDims has ${inDims.length} entries, but the function was called with ${args.length} arguments: give one for each`,
    );
  const trees = args.map((arg, i) =>
    placeDims('vmap', arg, Array.isArray(inDims) ? inDims[i] : inDims, {
      option: 'inDims',
      what: `argument ${i}`,
      more: 0,
      others: true,
    }),
  );
  const leaves = trees.flatMap((t) => t.leaves);
  const n = countOf(leaves);
  const values = leaves.map(({ tensor, dim }) => toFront(tensor.expr, dim!));
  let out: PlacedTree | undefined;
  const traced = trace(
    values.map(({ aval }) => aval.withShape(aval.shape.slice(1))),
    (params) => {
      let at = 0;
      const passed = trees.map((t) => t.rebuild(params.slice(at, (at += t.leaves.length)).map((p) => new Tensor(p))));
      const result = callUser('vmap', f, ...(passed as never[]));
      out = placeDims('vmap', result, outDims, { option: 'outDims', what: 'the result', more: 1, others: false });
      return out.leaves.map((l) => l.tensor.expr);
    },
    'vmap traces the function once for all examples: return the new value, and change the tensor after vmap',
    { wants: values.map((x) => x.differentiable), ownInPlace: true },
  );
  const given = new Map<Expr, Lane>(traced.params.map((p, i) => [p, { x: values[i]!, stacked: true }]));
  // A generator that was made inside is the function's own affair.
  const isOwn = (cell: CellLike) => cell.born >= traced.born;
  const cells = [...traced.cells].filter(([cell]) => !isOwn(cell));
  for (const [cell, { before, inside }] of traced.cells)
    if (isOwn(cell)) given.set(inside, { x: before, stacked: false });
  if (cells.length && randomness === 'error')
    throw new ArgumentError(
      "vmap: the function draws random numbers: pass randomness: 'different' for different numbers in each example, or 'same'",
    );
  for (const [, { before, inside }] of cells)
    given.set(inside, randomness === 'same' ? { x: before, stacked: false } : { x: states(before, n), stacked: true });
  const lanes = inLanes([...traced.results, ...cells.map(([, c]) => c.after)], given, n, chunkSize);
  const after = lanes.slice(traced.results.length);
  cells.forEach(([cell, changed], i) => (cell.expr = stateAfter(changed, after[i]!, randomness, n)));
  return out!.rebuild(out!.leaves.map((leaf, i) => new Tensor(placed(leaf, lanes[i]!, n))));
}

/** How many examples there are. */
function countOf(leaves: readonly Placed[]): number {
  const [first] = leaves;
  if (!first)
    throw new ArgumentError('vmap: inDims is null for all arguments: it must be a number for at least one tensor');
  const sizeOf = ({ tensor, dim }: Placed) => tensor.shape[dim!]!;
  const other = leaves.find((l) => sizeOf(l) !== sizeOf(first));
  if (other)
    throw new ShapeError(
      `vmap: ${first.name}, ${first.tensor.aval}, has ${sizeOf(first)} examples along dimension ${first.dim}, but ${other.name}, ${other.tensor.aval}, has ${sizeOf(other)} along ${other.dim}: they must be equal`,
    );
  return sizeOf(first);
}

/** A result as it was asked for. */
function placed({ dim, name, tensor }: Placed, lane: Lane, n: number): Expr {
  if (dim !== null) return frontTo(stackLane(lane, n), dim);
  if (!lane.stacked) return lane.x;
  throw new ArgumentError(
    `vmap: outDims is null for ${name}, ${tensor.aval}, which differs between examples: give a dimension`,
  );
}

// ---- random numbers. A generator's state is u32[4]: two words of key, two of counter.

/** A state for each example: its key is drawn, and its counter begins anew. */
function states(before: Expr, n: number): Expr {
  const keys = words(before, [n]).map((w) => reshape(w, [n, 1]));
  return concat([...keys, full([n, 2], 0, 'u32')], 1);
}
function stateAfter({ before }: Changed, after: Lane, randomness: 'different' | 'same' | 'error', n: number): Expr {
  if (randomness === 'different') return advance(before, n); // as many as there are keys
  // Where examples took different ways they drew different counts: the first one's is as good as any.
  return after.stacked ? reshape(sliceDim(after.x, 0, 0, 1), after.x.shape.slice(1)) : after.x;
}
