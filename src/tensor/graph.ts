// The pending graph as text. Nothing is compiled, run or counted.
import { ArgumentError } from '../base/errors.js';
import { describe } from '../base/tree.js';
import type { Expr } from '../ir/expr.js';
import { namesOperations } from '../ir/locations.js';
import { graphDot, graphListing } from '../observe/dump.js';
import { isParameter } from '../ops/prim/body.js';
import { isInput } from '../ops/prim/variable.js';
import { pendingCells } from '../runtime/cell.js';
import { chooseDevice } from '../runtime/device.js';
import { computationOf } from '../runtime/evaluate.js';
import type { Computation } from '../runtime/program.js';
import { hasValue } from '../runtime/value.js';
import { emitModule } from '../stablehlo/emitter.js';
import { Tensor } from './tensor.js';

const FORMATS = {
  /** A listing in PyTorch/XLA's layout, a line for each operation. */
  text: graphListing,
  /** For Graphviz. */
  dot: graphDot,
  stablehlo: ({ graph, parameters }: Computation) =>
    emitModule(graph, parameters, { locations: namesOperations(), platform: chooseDevice().device }),
} as const;

/** Inside a step or the body of a loop, values from outside are not known yet. */
const isGiven = (e: Expr): boolean => hasValue(e) || isInput(e) || isParameter(e);

/**
 * The graph of these tensors. Default: all pending in-place changes, which the next program computes too. With
 * XLA_IR_DEBUG=1 the listing shows where each operation was made.
 */
export function graphText(
  tensors: Tensor | readonly Tensor[] = [],
  { format = 'text' }: { readonly format?: keyof typeof FORMATS } = {},
): string {
  const list = tensors instanceof Tensor ? [tensors] : tensors;
  for (const t of list)
    if (!(t instanceof Tensor)) throw new ArgumentError(`graphText: takes tensors, got ${describe(t)}`);
  const write = FORMATS[format];
  if (!write)
    throw new ArgumentError(`graphText: unknown format ${format}: use one of ${Object.keys(FORMATS).join(', ')}`);
  const roots = list.length ? list.map((t) => t.peek() ?? t.expr) : pendingCells().map((cell) => cell.peek());
  return write(computationOf(roots, isGiven));
}

/** The StableHLO program of these tensors, as PyTorch/XLA's xm.get_stablehlo. With XLA_HLO_DEBUG=1 it has source locations. */
export const getStablehlo = (tensors: Tensor | readonly Tensor[] = []): string =>
  graphText(tensors, { format: 'stablehlo' });
