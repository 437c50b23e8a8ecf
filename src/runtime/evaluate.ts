// Computing what graphs describe, outside of steps: what is asked for, and all that was changed in place.
import type { TypedArray } from '../base/dtype.js';
import { type Cell, pendingCells, takeRebound } from '../ir/cell.js';
import { type Expr, nodeCount } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { isVariable } from '../ops/variable.js';
import { Buffer } from '../pjrt/index.js';
import { withRelief } from './memory.js';
import { record } from './metrics.js';
import { obtain, type Plan, type Request } from './program.js';
import { noteRead } from './rules-loop.js';
import { allDone, inTurn, started } from './turn.js';
import {
  checkAlive,
  defaultClient,
  Failed,
  failureOf,
  hasValue,
  isUnsettled,
  onDevice,
  PROMISED,
  remember,
  setValue,
  withBuffers,
} from './value.js';

/** Computes nodes and every cell that was changed, in one program, and remembers their values. */
export const evaluate = (roots: readonly Expr[], request: Request): Promise<Buffer[]> =>
  inTurn(() => evaluateNow(roots, request));

/** The same for whoever has the turn. */
export async function evaluateNow(roots: readonly Expr[], request: Request): Promise<Buffer[]> {
  const client = await defaultClient();
  if (!roots.every(hasValue) || changesArePending()) await compute(roots, request);
  return roots.map((e) => onDevice(client, e));
}

async function compute(roots: readonly Expr[], request: Request): Promise<void> {
  const client = await defaultClient();
  let cells = takeRebound();
  let plan = planWith(roots, cells);
  if (plan.parameters.some(isUnsettled)) {
    cells = cells.filter(canBeComputed); // one by one, where there is trouble
    plan = planWith(roots, cells);
  }
  const { parameters } = plan;
  const missing = plan.graph.roots;
  if (!missing.length) return;
  try {
    parameters.forEach(checkAlive);
    const { program, executable } = await obtain(client, plan, request);
    described = nodeCount();
    const { outputs, done } = await withRelief(
      () => withBuffers(client, parameters, (args) => program.run(executable, args, [], request)),
      () => true,
    );
    started(done);
    missing.forEach((e, i) => {
      setValue(e, outputs[i]!);
      if (!e.differentiable || isVariable(e)) e.forget(); // else every step would keep all before it alive
    });
  } catch (error) {
    for (const cell of cells) cell.touch(); // still to be computed
    throw error;
  }
}

/** What computes these nodes and what these cells hold, where they have no value yet. */
const planWith = (roots: readonly Expr[], cells: readonly Cell[]): Plan =>
  planOf(
    [...new Set([...roots, ...cells.map((cell) => cell.peek())])].filter((e) => !hasValue(e)),
    hasValue,
  );

/** Whether something was changed in place and has no value yet. */
export const changesArePending = (): boolean => pendingCells().some((cell) => !hasValue(cell.peek()));

/** Whether what a cell waits for is still there. If not, the cell says so when it is used, and nobody else does. */
function canBeComputed(cell: Cell): boolean {
  const e = cell.peek();
  if (hasValue(e)) return false;
  try {
    const given = collect([e], hasValue).nodes.filter(hasValue);
    given.forEach(checkAlive);
    if (!given.some((x) => x.value === PROMISED)) return true;
    cell.touch(); // later: a step that was called meanwhile has to be started first
    return false;
  } catch (error) {
    e.value = new Failed(error as Error);
    return false;
  }
}

let described = 0;
/** A step was started: what it was traced from does not wait to be computed. */
export const stepStarted = (): void => void (described = nodeCount());
/** How many operations were described since something was computed. */
export const describedSince = (): number => nodeCount() - described;

/** What computes these nodes from those whose values are given. */
export function planOf(roots: readonly Expr[], isGiven: (e: Expr) => boolean): Plan {
  const graph = collect(roots, isGiven);
  const parameters = graph.nodes.filter(isGiven);
  const sources = parameters.map((p) => p.source); // and not the nodes: their values would live on
  const labels = () => sources.map((source) => (source ? `the tensor made at ${source}` : 'a tensor'));
  return { graph, parameters, labels, aliases: [], isGiven };
}

/** The elements of a node, computed if need be and brought to the host. What is there is read at once. */
export async function fetchArray(e: Expr, request: Request): Promise<TypedArray> {
  if (ArrayBuffer.isView(e.value)) return (e.value as TypedArray).slice(); // the caller's own may be changed
  const read = async (buffer: Buffer) => ({ buffer, reading: buffer.toHost(), start: performance.now() });
  const { buffer, reading, start } =
    e.value instanceof Buffer
      ? await read(onDevice(e.value.client, e))
      : await inTurn(async () => read((await evaluateNow([e], request))[0]!));
  const array = await reading.catch(async (error) => {
    await allDone(); // the run that should have made it is told of, too
    throw failureOf(buffer) ?? error;
  });
  record('TransferFromDeviceTime', (performance.now() - start) * 1e6);
  record('InboundData', array.byteLength);
  noteRead(request, performance.now() - start);
  remember(e, array);
  return array;
}
