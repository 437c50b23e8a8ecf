// Computing what graphs describe, outside of steps: what is asked for, and all that was changed in place.
import type { TypedArray } from '../base/dtype.js';
import { NonfiniteError } from '../base/errors.js';
import { type Expr, nodeCount } from '../ir/expr.js';
import { collect, type Graph, hashOf, structure } from '../ir/graph.js';
import { Mesh, Sharding } from '../ir/mesh.js';
import type { Source } from '../ir/source.js';
import { meshesIn, meshesOf } from '../ops/prim/body.js';
import { constrain } from '../ops/prim/sharding.js';
import { isAdvanced } from '../ops/prim/threefry.js';
import { input, isVariable } from '../ops/prim/variable.js';
import { Buffer, type Client } from '../pjrt/index.js';
import type { Layout } from '../stablehlo/emitter.js';
import { type Cell, pendingCells, takeRebound } from './cell.js';
import { type Compute, checksResults, events, type Ran } from './events.js';
import { joinMany } from './join.js';
import { isOn, isPlaced, layoutOf } from './layout.js';
import { withRelief } from './memory.js';
import { type Computation, obtain, type Request } from './program.js';
import { ownRecord, recordOf } from './record.js';
import { isStored, missingDevices, ShardedArray, type Stored } from './sharded.js';
import { allDone, inTurn, started } from './turn.js';
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
  setValue,
  withBuffers,
} from './value.js';

/** Computes nodes and every cell that was changed, in one program, and remembers their values. */
export const evaluate = (roots: readonly Expr[], request: Request): Promise<Stored[]> =>
  inTurn(() => evaluateNow(roots, request));

/** The same for a caller that has the turn. */
export async function evaluateNow(roots: readonly Expr[], request: Request): Promise<Stored[]> {
  const client = await defaultClient();
  if (!roots.every(hasValue) || changesArePending()) await compute(roots, request);
  return roots.map((e) => onDevice(client, e));
}

async function compute(roots: readonly Expr[], request: Request): Promise<void> {
  const client = await defaultClient();
  let cells = takeRebound();
  let computation = computationWith(roots, cells);
  if (computation.parameters.some(isUnsettled)) {
    cells = cells.filter(canBeComputed); // one by one, where there is trouble
    computation = computationWith(roots, cells);
  }
  // Also what other programs of this call will have computed.
  const changed = new Map(cells.map((cell) => [cell, cell.peek()] as const).filter(([, e]) => !hasValue(e)));
  const isAsked = (e: Expr) => roots.includes(e) || (!roots.length && request.cause === 'sync');
  try {
    const joined = await joinMany(computation.graph, async (nodes) => {
      for (const e of nodes) await run(client, computationOf([e], hasValue), { ...request, name: 'join', group: {} });
    });
    if (joined) computation = computationWith(roots, cells);
    for (const group of byDevices(client, computation.graph, isAsked))
      await computeOn(client, group === computation.graph.roots ? computation : computationWith(group, []), request);
    for (const cell of cells)
      if (hasValue(cell.peek())) cell.forgetBefore();
      else cell.touch();
  } catch (error) {
    for (const cell of cells) cell.touch(); // still to be computed
    if (error instanceof NonfiniteError) for (const [cell, e] of changed) if (cell.peek() === e) cell.undoChanges(); // else a later call has put something there
    throw error;
  }
}

/** Computes what lies on the same devices. */
async function computeOn(client: Client, computation: Computation, request: Request): Promise<void> {
  const { roots } = computation.graph;
  const parts = equalParts(roots);
  const states = collect(parts.flat(), hasValue).nodes.filter(isAdvanced); // what the draws of all parts have in common
  if (states.length)
    await run(client, computationOf(states, hasValue), { ...request, name: 'random_states', group: {} });
  const name = `${request.name ?? 'pending'}_part`;
  for (const part of parts) await run(client, computationOf(part, hasValue), { ...request, name, group: {} }); // of its own kind
  const rest = parts.length ? computationWith(roots, []) : computation;
  if (rest.graph.roots.length) await run(client, rest, request);
}

/**
 * Roots in groups: a program has one list of devices, and what depends on no mesh is computed on one. What needs values of
 * several lists, or devices that are not there, is left out unless it is asked for, which is an error: others can be computed
 * all the same.
 */
function byDevices(client: Client, graph: Graph, isAsked: (e: Expr) => boolean): (readonly Expr[])[] {
  if (!Mesh.exists) return [graph.roots];
  // What is whole on all devices of a mesh stands for them. `firm`: it cannot be computed elsewhere.
  const on = new Map<Expr, { readonly firm: ReadonlySet<Sharding>; readonly at: Sharding | undefined }>();
  for (const e of graph.nodes) {
    const inputs = hasValue(e) ? [] : e.inputs.map((x) => on.get(x)!);
    const { sharding } = recordOf(e);
    const split = sharding && !sharding.isReplicated ? [sharding.mesh] : [];
    const own = (hasValue(e) ? split : meshesIn(e)).map(Sharding.replicated);
    const firm = new Set([...own, ...inputs.flatMap((x) => [...x.firm])]);
    const lies = sharding && Sharding.replicated(sharding.mesh);
    on.set(e, { firm, at: [...firm][0] ?? lies ?? inputs.find((x) => x.at)?.at });
  }
  const needsSeveral = (root: Expr) => {
    const { firm, at } = on.get(root)!;
    return firm.size > 1 || (at !== undefined && missingDevices(client, at.mesh).length > 0);
  };
  const roots = graph.roots.filter((root) => isAsked(root) || !needsSeveral(root));
  const first = roots.map((root) => on.get(root)!.at).find((at) => at);
  return grouped(roots, (root) =>
    needsSeveral(root) ? root : (on.get(root)!.at ?? (recordOf(root).goesAnywhere ? first : undefined)),
  );
}

async function run(client: Client, computation: Computation, request: Request): Promise<void> {
  const { outputs, results } = await start(client, computation, request);
  if (checksResults()) {
    const resultName = (i: number) => labelOf(computation.graph.roots[i]!.source);
    await checkResults(client, { computation, given: computation.parameters, outputs, request, resultName });
  }
  computation.graph.roots.forEach((e, i) => {
    setValue(e, outputs[i]!);
    if (results[i]) ownRecord(e).sharding = results[i];
    if (!e.differentiable || isVariable(e)) e.forget(); // else every step would keep all before it alive
  });
}

/** Throws the error of a listener that rejects the results, which are freed. */
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

/** Starts a program on the values that its parameters have. */
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

/** Brings values to where a program wants them; numbers are brought along with the run. */
export async function place(client: Client, nodes: readonly Expr[], layout: Layout | undefined): Promise<void> {
  if (!Mesh.exists) return;
  for (const [i, e] of nodes.entries()) {
    const wanted = layout?.parameters[i];
    const value = nodeValue(e);
    if (isPlaced(e, wanted)) continue;
    if (!wanted) {
      const away = value as Stored;
      setValue(e, await away.toHost()); // it went along, and comes back
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

/** The same value, split in another way, by a program of its own. */
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

/** Where a part ends: at values that are there, and at the states of random generators, which are computed first. */
const isGiven = (e: Expr): boolean => hasValue(e) || isAdvanced(e);
/** How many of the same kind, and of how many operations, are worth programs of their own. */
const [MANY, LARGE] = [3, 16];

/**
 * Parts that have nothing in common and are equal, as the initial values of a network's layers: each kind of them is
 * compiled once and run many times. In one program, they would be compiled over and over.
 */
function equalParts(roots: readonly Expr[]): (readonly Expr[])[] {
  const whole = roots.flatMap(rowsOf);
  if (whole.length < MANY) return [];
  const parts = separate(whole).filter(({ nodes }) => nodes.length >= LARGE);
  const kinds = grouped(parts, (part) => hashOf(structure(part, isGiven)));
  return kinds.filter((same) => same.length >= MANY).flatMap((same) => same.map((part) => part.roots));
}
/** What is stacked or joined to make a node, or the node itself. */
function rowsOf(root: Expr): readonly Expr[] {
  let e = root;
  while (e.inputs.length === 1 && !hasValue(e)) e = e.inputs[0]!;
  if (e.op.name !== 'concat' || e.inputs.length < MANY || hasValue(e)) return [root];
  const rows = e.inputs.filter((x) => !hasValue(x));
  const { dim } = e.attrs as { dim: number };
  const { sharding } = recordOf(root);
  // Split as the whole is: else one device would have to hold all of them.
  if (sharding && !sharding.axes[dim]?.length && String(e.shape) === String(root.shape))
    for (const row of rows) ownRecord(row).sharding ??= sharding;
  return rows;
}

/** What these nodes need, in parts that share nothing but values that are there; none if there are few. */
function separate(roots: readonly Expr[]): Graph[] {
  const part = new Map<Expr, number>(); // of each node: the first root that needs it
  const joined = roots.map((_, i) => i); // of each root: one that needs the same, or itself
  const find = (i: number): number => (joined[i] === i ? i : (joined[i] = find(joined[i]!)));
  roots.forEach((root, i) => {
    const stack = [root];
    while (stack.length) {
      const e = stack.pop()!;
      if (isGiven(e)) continue;
      const other = part.get(e);
      if (other !== undefined) joined[find(i)] = find(other);
      else {
        part.set(e, i);
        for (const x of e.inputs) stack.push(x); // there may be more than a call takes
      }
    }
  });
  const lists = grouped(
    roots.filter((e) => !isGiven(e)),
    (e) => find(part.get(e)!),
  );
  return lists.length < MANY ? [] : lists.map((list) => collect(list, isGiven));
}

function grouped<T, K>(list: readonly T[], keyOf: (x: T) => K): T[][] {
  const groups = new Map<K, T[]>();
  for (const x of list) {
    const key = keyOf(x);
    const group = groups.get(key);
    if (group) group.push(x);
    else groups.set(key, [x]);
  }
  return [...groups.values()];
}

/** What computes these nodes and what these cells hold, where they have no value yet. */
const computationWith = (roots: readonly Expr[], cells: readonly Cell[]): Computation =>
  computationOf(
    [...new Set([...roots, ...cells.map(placedAsBefore)])].filter((e) => !hasValue(e)),
    hasValue,
  );

/** What a cell holds is to lie where what it held before did. */
export function placedAsBefore(cell: Cell): Expr {
  const e = cell.peek();
  if (Mesh.exists) ownRecord(e).sharding ??= cell.sharding;
  return e;
}

/** Whether something was changed in place and has no value yet. */
export const changesArePending = (): boolean => pendingCells().some((cell) => !hasValue(cell.peek()));

/** Whether what a cell waits for is still there. If not, the cell says so when it is used, and nobody else does. */
function canBeComputed(cell: Cell): boolean {
  const e = cell.peek();
  if (hasValue(e)) return false;
  try {
    const given = collect([e], hasValue).nodes.filter(hasValue);
    given.forEach(checkAlive);
    if (!given.some((x) => nodeValue(x) === PROMISED)) return true;
    cell.touch(); // later: a step that was called meanwhile has to be started first
    return false;
  } catch (error) {
    ownRecord(e).value = new Failed(() => error as Error);
    return false;
  }
}

let described = 0;
/** A step was started: what it was traced from does not wait to be computed. */
export const stepStarted = (): void => void (described = nodeCount());
/** How many operations were described since something was computed. */
export const describedSince = (): number => nodeCount() - described;

/** What a tensor is to the user, by where it was made. */
const labelOf = (source: Source | undefined): string =>
  source?.frames.length ? `the tensor made at ${source}` : 'a tensor';

/** What computes these nodes from those whose values are given. */
export function computationOf(roots: readonly Expr[], isGiven: (e: Expr) => boolean): Computation {
  const graph = collect(roots, isGiven);
  const parameters = graph.nodes.filter(isGiven);
  const sources = parameters.map((p) => p.source); // and not the nodes: their values would live on
  const labels = () => sources.map(labelOf);
  return { graph, parameters, labels, aliases: [], isGiven, meshes: meshesOf(graph, isGiven) };
}

/** The elements of a node, computed if need be and brought to the host. What is there is read at once. */
export async function fetchArray(e: Expr, request: Request): Promise<TypedArray> {
  const value = nodeValue(e);
  if (ArrayBuffer.isView(value)) return (value as TypedArray).slice(); // the caller's own may be changed
  const read = async (buffer: Stored) => ({ buffer, reading: buffer.toHost(), start: performance.now() });
  const { buffer, reading, start } = isStored(value)
    ? await read(onDevice(value.client, e))
    : await inTurn(async () => read((await evaluateNow([e], request))[0]!));
  const array = await reading.catch(async (error) => {
    await allDone(); // the run that should have made it sets buffer.failure
    throw buffer.failure ?? error;
  });
  events.span('read', start, performance.now(), array.byteLength, request);
  remember(e, array);
  return array;
}
