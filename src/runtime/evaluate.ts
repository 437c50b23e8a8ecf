// Computing what graphs describe, outside of steps: what is asked for, and all that was changed in place.
import type { TypedArray } from '../base/dtype.js';
import { takeRebound } from '../ir/cell.js';
import type { Expr } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { isVariable } from '../ops/variable.js';
import { Buffer } from '../pjrt/index.js';
import { withRelief } from './memory.js';
import { record } from './metrics.js';
import { type Plan, programFor, type Request } from './program.js';
import { noteRead } from './rules-loop.js';
import { allDone, inTurn, roomToRun, started } from './turn.js';
import { defaultClient, failureOf, hasValue, onDevice, remember, setValue, withBuffers } from './value.js';

/** Computes nodes and every cell that was changed, in one program, and remembers their values. */
export const evaluate = (roots: readonly Expr[], request: Request): Promise<Buffer[]> =>
  inTurn(() => evaluateNow(roots, request));

/** The same for whoever has the turn. */
export async function evaluateNow(roots: readonly Expr[], request: Request): Promise<Buffer[]> {
  const client = await defaultClient();
  if (!roots.length || !roots.every(hasValue)) await compute(roots, request);
  return roots.map((e) => onDevice(client, e));
}

async function compute(roots: readonly Expr[], request: Request): Promise<void> {
  const client = await defaultClient();
  const cells = takeRebound();
  const missing = [...new Set([...roots, ...cells.map((cell) => cell.peek())])].filter((e) => !hasValue(e));
  if (!missing.length) return;
  const plan = planOf(missing, hasValue);
  try {
    const program = programFor(client, plan, request);
    const executable = program.ready ?? (await program.compiled(request));
    await roomToRun(client);
    const { outputs, done } = await withRelief(
      () => withBuffers(client, plan.parameters, (args) => program.run(executable, args, [], request)),
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

/** What computes these nodes from those whose values are given. */
export function planOf(roots: readonly Expr[], isGiven: (e: Expr) => boolean): Plan {
  const graph = collect(roots, isGiven);
  const parameters = graph.nodes.filter(isGiven);
  const labels = () => parameters.map((p) => (p.source ? `the tensor made at ${p.source}` : 'a tensor'));
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
  remember(e, array.slice());
  return array;
}
