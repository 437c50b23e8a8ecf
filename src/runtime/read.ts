// Batches reads: reads of the same tick are computed together, so `Promise.all([a.item(), b.item()])` is one program.
import { NonfiniteError, RuleError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import { type Cell, type Change, takeChanges } from './cell.js';
import type { Request } from './program.js';
import { inTurn, lastTurn, throwReported } from './turn.js';

/** Computes a batch for a caller that has the turn, and starts copying its nodes to the host. */
type Compute<T> = (batch: Batch) => Promise<readonly T[]>;

/** Nodes that are read in the same tick. They share the turn of the first one. */
export interface Batch {
  readonly nodes: Expr[];
  /** Other nodes computed with them. */
  readonly others: Set<Expr>;
  /** Changes up to the last read. */
  readonly changes: Map<Cell, Change>;
  readonly request: Request;
}
interface OpenBatch extends Batch {
  readonly results: Promise<readonly (() => unknown)[]>;
  readonly turn: unknown;
}
let open: OpenBatch | undefined;

/**
 * The result of `compute` for a node. Nodes read in the same tick, with no program requested in between, are computed by one
 * program, with the request of the first. `others` are computed with it, but not read.
 */
export async function readInBatch<T>(
  e: Expr,
  others: readonly Expr[],
  request: Request,
  compute: Compute<T>,
): Promise<T> {
  if (open?.turn !== lastTurn()) open = undefined; // a program requested since may change what the batch reads
  open ??= begin(request, compute);
  const batch = open;
  for (const other of others) batch.others.add(other);
  for (const change of takeChanges()) {
    const { before } = batch.changes.get(change.cell) ?? change; // two changes of a cell are undone as one
    batch.changes.set(change.cell, { ...change, before });
  }
  const place = batch.nodes.push(e) - 1;
  return (await batch.results)[place]!() as T;
}

function begin<T>(request: Request, compute: Compute<T>): OpenBatch {
  const batch: Batch = { nodes: [], others: new Set(), changes: new Map(), request };
  // One microtask later, not at the end of the previous turn: which reads share a program must not depend on timing.
  const closed = Promise.resolve().then(() => {
    if (open?.nodes === batch.nodes) open = undefined;
  });
  const results = inTurn(async () => {
    await closed;
    try {
      throwReported(); // otherwise the failed computation would run again
    } catch (error) {
      for (const change of batch.changes.values()) change.cell.giveBack(change);
      throw error;
    }
    return computeAll(batch, compute);
  });
  return { ...batch, results, turn: lastTurn() };
}

/** The result of each node, or its error: an error of one does not stop the others. */
async function computeAll<T>(batch: Batch, compute: Compute<T>): Promise<(() => T)[]> {
  const { nodes } = batch;
  try {
    return (await compute(batch)).map((result) => () => result);
  } catch (error) {
    // These two errors concern the whole program, and would not be thrown a second time.
    if (nodes.length === 1 || error instanceof NonfiniteError || error instanceof RuleError) throw error;
  }
  const results: (() => T)[] = [];
  for (const e of nodes) {
    const result = compute({ ...batch, nodes: [e], others: new Set(), changes: new Map() }).then(
      ([result]) =>
        () =>
          result!,
      (error: unknown) => () => {
        throw error;
      },
    );
    results.push(await result);
  }
  return results;
}
