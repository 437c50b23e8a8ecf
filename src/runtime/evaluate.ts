// Evaluates graphs outside of steps: the requested nodes, and all tensors changed in place.
import type { TypedArray } from '../base/dtype.js';
import { NonfiniteError } from '../base/errors.js';
import { type Expr, nodeCount } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { Mesh, type Sharding } from '../ir/mesh.js';
import type { Source } from '../ir/source.js';
import { meshesOf } from '../ops/prim/body.js';
import { constrain } from '../ops/prim/sharding.js';
import { isAdvanced } from '../ops/prim/threefry.js';
import { input, isVariable } from '../ops/prim/variable.js';
import { Buffer, type Client } from '../pjrt/index.js';
import type { Layout } from '../stablehlo/emitter.js';
import { type Cell, type Change, isUndone, takeChanges } from './cell.js';
import { type Compute, checksResults, events, type Ran } from './events.js';
import { joinMany } from './join.js';
import { isOn, isPlaced, layoutOf } from './layout.js';
import { withRelief } from './memory.js';
import { type Computation, obtain, type Request } from './program.js';
import { type Batch, readInBatch } from './read.js';
import { ownRecord, recordOf } from './record.js';
import { isStored, ShardedArray, type Stored } from './sharded.js';
import { byDevices, equalParts } from './split.js';
import { allDone, inTurn, started, throwReported } from './turn.js';
import {
  checkAlive,
  defaultClient,
  Failed,
  hasValue,
  isUnsettled,
  nodeValue,
  onDevice,
  PROMISED,
  remember,
  repay,
  setValue,
  shareValue,
  Undone,
  withBuffers,
} from './value.js';

/** Computes nodes and all pending changes of cells in one program, and stores their values. */
export function evaluate(roots: readonly Expr[], request: Request): Promise<Stored[]> {
  const changes = takeChanges();
  return inTurn(() => evaluateNow(roots, request, changes));
}

/**
 * The same for a caller that has the turn. If it fails, the changes stay pending; with `undoes`, they are undone, and
 * computations that depend on them fail with the same error.
 */
export async function evaluateNow(
  roots: readonly Expr[],
  request: Request,
  changes: readonly Change[],
  undoes = false,
): Promise<Stored[]> {
  try {
    const client = await defaultClient();
    if (!roots.every(hasValue) || changes.length) await compute(client, roots, request, changes, undoes);
    return roots.map((e) => onDevice(client, e));
  } catch (error) {
    withdraw(changes, error as Error, undoes);
    throw error;
  }
}

/** Handles changes that were not all computed. `undoes`: computations that depend on them fail with this error. */
export function withdraw(changes: readonly Change[], error: Error, undoes: boolean): void {
  for (const change of changes) {
    const { cell, expr } = change;
    if (undoes || error instanceof NonfiniteError) cell.undo(change);
    else if (!hasValue(expr)) cell.giveBack(change);
    if (undoes) ownRecord(expr).value = new Undone(() => error);
  }
}

async function compute(
  client: Client,
  roots: readonly Expr[],
  request: Request,
  taken: readonly Change[],
  undoes: boolean,
): Promise<void> {
  let changes = taken;
  let computation = computationWith(roots, changes);
  if (!undoes && computation.parameters.some(isUnsettled)) {
    changes = changes.filter(canBeComputed); // something failed: check each of them
    computation = computationWith(roots, changes);
  }
  const isAsked = (e: Expr) => roots.includes(e) || (!roots.length && request.cause === 'sync');
  const cells = new Map(changes.map(({ cell, before }) => [before, cell]));
  const joined = await joinMany(computation.graph, async (nodes) => {
    for (const e of nodes) await run(client, computationOf([e], hasValue), { ...request, name: 'join', group: {} });
  });
  if (joined) computation = computationWith(roots, changes);
  const groups = byDevices(client, computation.graph, isAsked);
  for (const [i, group] of groups.entries()) {
    const part = group === computation.graph.roots ? computation : computationWith(group);
    await computeOn(client, part, i ? { ...request, group: {} } : request, cells); // explanations compare it with no other program
  }
  for (const change of changes) if (!hasValue(change.expr)) change.cell.giveBack(change);
}

/** Computes nodes that are on the same devices. */
async function computeOn(
  client: Client,
  computation: Computation,
  request: Request,
  cells: ReadonlyMap<Expr, Cell>,
): Promise<void> {
  const { roots } = computation.graph;
  const parts = equalParts(roots);
  const states = collect(parts.flat(), hasValue).nodes.filter(isAdvanced); // generator states shared by the random draws of all parts
  if (states.length)
    await run(client, computationOf(states, hasValue), { ...request, name: 'random_states', group: {} });
  const name = `${request.name ?? 'pending'}_part`;
  for (const part of parts) await run(client, computationOf(part, hasValue), { ...request, name, group: {} }); // explanations compare it with no other program
  const rest = parts.length ? computationWith(roots) : computation;
  if (rest.graph.roots.length) await run(client, rest, request, cells);
}

/** Runs a computation. `cells`: the cells its inputs come from, for names. */
async function run(
  client: Client,
  computation: Computation,
  request: Request,
  cells: ReadonlyMap<Expr, Cell> = new Map(),
): Promise<void> {
  const { outputs, results } = await start(client, computation, request);
  if (checksResults()) {
    const resultName = (i: number) => labelOf(computation.graph.roots[i]!.source);
    const { parameters: given } = computation;
    const from = given.map((e) => cells.get(e));
    await checkResults(client, { computation, given, cells: from, outputs, request, resultName });
  }
  computation.graph.roots.forEach((e, i) => {
    setValue(e, outputs[i]!);
    if (results[i]) ownRecord(e).sharding = results[i];
    if (!e.differentiable || isVariable(e)) e.forget(); // else every step would keep all earlier ones alive
  });
  for (const e of computation.graph.nodes) {
    const [of] = e.inputs; // a state carried from step to step would keep all steps alive
    if (e.op.name !== 'detach' || !of || hasValue(e) || !isStored(nodeValue(of))) continue;
    shareValue(of, e);
    repay(e);
    e.forget();
  }
}

/** Throws the error of a listener that rejects the results, and frees them. */
export async function checkResults(client: Client, ran: Ran): Promise<void> {
  const compute: Compute = async (roots, name) => {
    const computation = computationOf(roots, hasValue);
    const { outputs } = await start(client, computation, { cause: 'pending', name, group: {} });
    const arrays = await Promise.all(outputs.map((x) => x.toHost()));
    for (const x of outputs) x.dispose();
    return roots.map((e) => arrays[computation.graph.roots.indexOf(e)]!);
  };
  const failure = await events.checkResults(ran, compute);
  if (!failure) return;
  for (const x of ran.outputs) x.dispose();
  throw failure;
}

/** Starts a program on the values of its parameters. */
async function start(client: Client, computation: Computation, request: Request) {
  const { parameters, graph, meshes, aliases } = computation;
  parameters.forEach(checkAlive);
  const results = graph.roots.map((e) => recordOf(e).sharding);
  const layout = layoutOf({ given: parameters, meshes, aliases, results });
  await place(client, parameters, layout);
  const { program, executable } = await obtain(client, layout ? { ...computation, layout } : computation, request);
  described = nodeCount();
  const { outputs, done } = await withRelief(
    () => withBuffers(client, parameters, layout?.parameters, (args) => program.run(executable, args, [], request)),
    () => true,
  );
  started(done);
  return { outputs, results: layout ? results : [] };
}

/** Moves values to the devices and shardings a program expects; numbers are uploaded with the run. */
export async function place(client: Client, nodes: readonly Expr[], layout: Layout | undefined): Promise<void> {
  if (!Mesh.exists) return;
  for (const [i, e] of nodes.entries()) {
    const wanted = layout?.parameters[i];
    const value = nodeValue(e);
    if (isPlaced(e, wanted)) continue;
    if (!wanted) {
      const away = value as Stored;
      setValue(e, await away.toHost()); // its program was replicated on a mesh: back to one device
      if (!away.shared) away.dispose();
      continue;
    }
    if (ArrayBuffer.isView(value)) ownRecord(e).sharding = wanted;
    else if (value instanceof ShardedArray && isOn(value.sharding.mesh, wanted.mesh))
      await reshard(client, e, value, wanted);
    else {
      const stored = value as Stored;
      const moved =
        stored instanceof Buffer && wanted.isReplicated && !stored.shared
          ? ShardedArray.replicate(stored, e.aval, wanted)
          : ShardedArray.fromHost(client, await stored.toHost(), e.aval, wanted);
      setValue(e, moved);
      if (!stored.shared && !moved.shards.includes(stored as Buffer)) stored.dispose();
    }
  }
}

/** Changes the sharding of a value with a separate program. */
async function reshard(client: Client, e: Expr, value: ShardedArray, wanted: Sharding): Promise<void> {
  events.count('resharded');
  const before = input(e.aval);
  setValue(before, value);
  const after = constrain(before, wanted);
  ownRecord(after).sharding = wanted;
  await run(client, computationOf([after], hasValue), { cause: 'sync', name: 'reshard', group: {} });
  setValue(e, nodeValue(after) as ShardedArray);
  if (!value.shared) value.dispose();
}

/** The computation of these nodes and changes, as far as they have no value yet. */
const computationWith = (roots: readonly Expr[], changes: readonly Change[] = []): Computation =>
  computationOf(
    [...new Set([...roots, ...changes.map((c) => c.expr)])].filter((e) => !hasValue(e)),
    hasValue,
  );

/** Whether the inputs of a change still exist. If not, only using its cell throws. */
function canBeComputed(change: Change): boolean {
  const { expr } = change;
  try {
    const given = collect([expr], hasValue).nodes.filter(hasValue);
    given.forEach(checkAlive);
    if (!given.some((x) => nodeValue(x) === PROMISED)) return true;
    change.cell.giveBack(change); // computed later: a step called meanwhile has to be started first
    return false;
  } catch (error) {
    // Depends on a change of a failed step: undone with it.
    const isGone =
      isUndone(change.before) || collect([expr], hasValue).nodes.some((e) => nodeValue(e) instanceof Undone);
    if (isGone) change.cell.undo(change);
    ownRecord(expr).value = new (isGone ? Undone : Failed)(() => error as Error);
    return false;
  }
}

let described = 0;
/** Resets the count when a step was started: the operations it was traced from are not pending. */
export const resetDescribed = (): void => void (described = nodeCount());
/** The number of operations described since the last computation. */
export const describedSince = (): number => nodeCount() - described;

/** A tensor in the user's words: where it was made. */
const labelOf = (source: Source | undefined): string =>
  source?.frames.length ? `the tensor made at ${source}` : 'a tensor';

/** The computation of these nodes from nodes whose values are given. */
export function computationOf(roots: readonly Expr[], isGiven: (e: Expr) => boolean): Computation {
  const graph = collect(roots, isGiven);
  const parameters = graph.nodes.filter(isGiven);
  const sources = parameters.map((p) => p.source); // not the nodes, whose values would be kept alive
  const labels = () => sources.map(labelOf);
  return { graph, parameters, labels, aliases: [], isGiven, meshes: meshesOf(graph, isGiven) };
}

/**
 * The elements of a node on the host, computed if needed. An existing value is read immediately. `together`: nodes computed
 * in the same program.
 */
export async function fetchArray(e: Expr, request: Request, together: readonly Expr[] = []): Promise<TypedArray> {
  throwReported();
  const value = nodeValue(e);
  if (ArrayBuffer.isView(value)) return (value as TypedArray).slice(); // a copy, since the caller may change it
  const read = (buffer: Stored) => {
    const reading = buffer.toHost();
    reading.catch(() => {}); // the caller may still be awaiting other reads
    return { buffer, reading, start: performance.now() };
  };
  const compute = async ({ nodes, others, request, changes }: Batch) => {
    if (!nodes.every(hasValue)) {
      const roots = [...nodes, ...[...others].filter((x) => !hasValue(x))];
      return (await evaluateNow(roots, request, [...changes.values()])).slice(0, nodes.length).map(read);
    }
    for (const change of changes.values()) change.cell.giveBack(change); // a step has computed them meanwhile
    const client = await defaultClient();
    return nodes.map((x) => read(onDevice(client, x)));
  };
  const { buffer, reading, start } = isStored(value)
    ? read(onDevice(value.client, e))
    : await readInBatch(e, together, request, compute);
  const array = await reading.catch(async (error) => {
    await allDone(); // the run that should have made it sets buffer.failure
    throw buffer.failure ?? error;
  });
  events.span('read', start, performance.now(), array.byteLength, request);
  remember(e, array);
  return array;
}
