// Running a traced step: its results are put in their places as values to come, and the program is started in its turn.
import { ArgumentError, OutOfMemoryError, StepFailedError } from '../base/errors.js';
import type { Aval } from '../ir/aval.js';
import type { Cell } from '../ir/cell.js';
import type { Expr } from '../ir/expr.js';
import type { Sharding } from '../ir/mesh.js';
import { withSource } from '../ir/source.js';
import { count, timed } from '../observe/metrics.js';
import { checksNonfinite } from '../observe/nonfinite.js';
import { input } from '../ops/variable.js';
import type { LoadedExecutable } from '../pjrt/index.js';
import {
  changesArePending,
  checkResults,
  evaluateNow,
  place,
  placedAsBefore,
  stepStarted,
} from '../runtime/evaluate.js';
import { isPlaced, layoutOf } from '../runtime/layout.js';
import { withRelief } from '../runtime/memory.js';
import { obtain, type Request, type Run } from '../runtime/program.js';
import { isStored, type Stored } from '../runtime/sharded.js';
import { inTurn, isFree, started } from '../runtime/turn.js';
import {
  checkAlive,
  defaultClient,
  Failed,
  freeValue,
  hasValue,
  isUnsettled,
  PROMISED,
  setValue,
  withBuffers,
} from '../runtime/value.js';
import type { Layout } from '../stablehlo/emitter.js';
import { Tensor, variables } from '../tensor/tensor.js';
import { endOfStep } from './closures.js';
import { avalOf, type Slot, type Target, type Trace, type Value } from './trace.js';

/**
 * Calls a traced function. What it leaves is in place at once, as values that are promised, so that all that follows is
 * described in the order of the calls; the program is started when it is its turn. If that fails, all is as it was.
 */
export function call(t: Trace, values: readonly Value[], request: Request, revive: boolean): Promise<unknown> {
  const nodes = timed('RunCachedGraphInputData', () => t.slots.map((slot) => nodeOf(slot, values)));
  for (const e of nodes) e.holders++; // until it has run
  const early = startNow(t, nodes, request);
  const promised = timed('RunCachedGraphOutputData', () => promise(t, values, revive));
  return inTurn(async () => {
    const launched = early ?? (await launch(t, nodes, values, request).catch((error: Error) => error));
    letGo(nodes);
    if (launched instanceof Error) {
      for (const e of promised.futures) e.value = new Failed(launched, promised.before.get(e));
      for (const undo of promised.undo) undo();
      throw launched;
    }
    const { outputs, done } = launched;
    promised.futures.forEach((e, i) => setResult(e, outputs[i]!));
    for (const change of promised.changes) change.below = undefined; // else each would keep all before it
    for (const e of promised.replaced) if (e.holders === 0) freeValue(e);
    endOfStep(done, promised.closures);
    return promised.returned;
  });
}

const letGo = (nodes: readonly Expr[]): void => {
  for (const e of nodes) e.holders--;
};
/** Whether no value was given up. */
const isWhole = (nodes: readonly Expr[]): boolean => nodes.every(({ value }) => !(isStored(value) && value.disposed));

/**
 * Starts the program of a trace before its results are put in their places, if there is nothing to wait for: until then the
 * device is idle. Where memory is short it is not: in its turn, garbage can be collected.
 */
function startNow(t: Trace, nodes: readonly Expr[], request: Request): Run | undefined {
  const executable = t.program?.dropped ? undefined : t.program?.ready;
  if (!executable || !isFree(executable.client) || changesArePending() || checksNonfinite()) return undefined;
  const shardings = t.program!.layout?.parameters;
  if (!nodes.every((e, i) => hasValue(e) && !isUnsettled(e) && isPlaced(e, shardings?.[i]))) return undefined;
  if (t.slots.some((slot) => slot.kind === 'grad')) return undefined; // who else has it shows when it is replaced
  try {
    count('CachedCompile');
    return start(t, nodes, 2, executable, request);
  } catch (error) {
    if (error instanceof OutOfMemoryError && isWhole(nodes)) return undefined;
    letGo(nodes);
    throw isWhole(nodes) ? error : failureOf(t, request.name!, error as Error);
  }
}

/** `held`: how often a node is held that nobody else sees, by this call and by its place. */
function start(t: Trace, nodes: readonly Expr[], held: 1 | 2, executable: LoadedExecutable, request: Request) {
  const execution = withBuffers(executable.client, nodes, t.program!.layout?.parameters, (buffers) =>
    t.program!.run(executable, buffers, keptOf(t.plan.aliases, nodes, buffers, held), request),
  );
  const done = execution.done.catch((error) => {
    const failure = failureOf(t, request.name!, error);
    for (const buffer of execution.outputs) buffer.failure = failure;
    throw failure;
  });
  started(done);
  stepStarted();
  return execution;
}

/** Starts the program of a trace on the values of these nodes. */
async function launch(t: Trace, nodes: readonly Expr[], values: readonly Value[], request: Request): Promise<Run> {
  const client = await defaultClient();
  const pending = nodes.filter((e) => !hasValue(e));
  if (pending.length || changesArePending()) {
    const name = `${request.name}_clear_pending`;
    await evaluateNow(pending, { ...request, cause: 'pending', name, group: name, admit: undefined });
  }
  nodes.forEach(checkAlive);
  const layout = layoutFor(t, values, nodes);
  await place(client, nodes, layout);
  const { program, executable } = await obtain(client, layout ? { ...t.plan, layout } : t.plan, request, t.program);
  t.program = program;
  const run = () => start(t, nodes, 1, executable, request); // its place has let go of it
  const execution = await withRelief(run, () => isWhole(nodes)).catch((error) => {
    throw isWhole(nodes) ? error : failureOf(t, request.name!, error);
  });
  if (checksNonfinite()) {
    const { outputs } = execution;
    const cells = t.slots.map((slot) => (slot.kind === 'cell' ? slot.cell : undefined));
    const resultName = (i: number, nameOf: (i: number) => string) => nameOfTarget(t, i, nameOf);
    await checkResults(client, { plan: t.plan, given: nodes, cells, outputs, request, resultName });
  }
  return execution;
}

/** What a result is to the user. */
function nameOfTarget(t: Trace, i: number, nameOf: (input: number) => string): string {
  const target = t.targets[i]!;
  if (target.kind === 'result') return `its result ${t.returned.paths[target.index]!.replace(/^\./, '')}`.trimEnd();
  if (target.kind === 'closure') return 'what is handed to afterStep';
  const isOwner = ({ cell }: Tensor) => t.slots.findIndex((slot) => slot.kind === 'cell' && slot.cell === cell);
  if (target.kind === 'grad') {
    const at =
      typeof target.of === 'number'
        ? t.slots.findIndex((slot) => slot.kind === 'argument' && slot.index === target.of)
        : isOwner(target.of);
    return at < 0 ? 'a gradient' : `the gradient of ${nameOf(at)}`;
  }
  const at = t.slots.indexOf(target.slot);
  const same = at >= 0 ? at : t.plan.aliases.indexOf(i);
  return same < 0 ? 'a tensor that it changes' : `the new value of ${nameOf(same)}`;
}

/** How a call of a traced function is split over several devices; undefined where one has all values. */
export function layoutFor(
  t: Trace,
  values: readonly Value[],
  given: readonly Expr[] = t.slots.map((slot) => nodeOf(slot, values)),
): Layout | undefined {
  const { meshes, aliases } = t.plan;
  return layoutOf({ given, meshes, aliases, results: t.targets.map((target) => placeOf(target, values)) });
}

/** Where the place of a result lies, if that is known: a gradient lies as what it is of. */
function placeOf(target: Target, values: readonly Value[]): Sharding | undefined {
  if (target.kind === 'grad') return ownerOf(target.of, values).cell.sharding;
  if (target.kind !== 'place') return undefined;
  const { slot } = target;
  const isCleared = slot.kind === 'grad' && !ownerOf(slot.owner, values).grad; // by the same call, behind the change
  return isCleared ? ownerOf(slot.owner, values).cell.sharding : cellOf(slot, values)?.sharding;
}

/** A result is there. Where someone has said meanwhile how it is to lie, it is brought there when it is used. */
function setResult(e: Expr, value: Stored): void {
  const wanted = e.sharding;
  setValue(e, value);
  if (wanted) e.sharding = wanted;
}

/** What went wrong on the device, and what it cost. */
function failureOf({ plan: { aliases, labels, parameters } }: Trace, name: string, cause: Error): StepFailedError {
  const names = labels();
  const lost = aliases.flatMap((to, i) => (to >= 0 ? [`${parameters[i]!.aval} (${names[i]})`] : []));
  const what =
    lost.length &&
    `\n    lost with it, since their old values were given up for the new ones: ${lost.slice(0, 5).join(', ')}` +
      `${lost.length > 5 ? ` and ${lost.length - 5} more` : ''}: set them again, or load a checkpoint`;
  return new StepFailedError(`${name} failed on the device: ${cause.message}${what || ''}`, { cause });
}

const ownerOf = (of: Tensor | number, values: readonly Value[]): Tensor =>
  typeof of === 'number' ? (values[of] as Tensor) : of;

/** The cell in a place, unless a number is there. */
function cellOf(slot: Slot, values: readonly Value[]): Cell | undefined {
  if (slot.kind === 'cell') return slot.cell;
  if (slot.kind === 'grad') return ownerOf(slot.owner, values).grad!.cell;
  const value = slot.kind === 'argument' ? values[slot.index] : undefined;
  return value instanceof Tensor ? value.cell : undefined;
}

function nodeOf(slot: Slot, values: readonly Value[]): Expr {
  if (slot.kind === 'node') return slot.node;
  const cell = cellOf(slot, values);
  return cell ? placedAsBefore(cell) : numberNode(values[(slot as { index: number }).index] as number | bigint);
}
function numberNode(value: number | bigint): Expr {
  const fits =
    typeof value === 'bigint'
      ? BigInt.asIntN(64, value) === value
      : !(Number.isInteger(value) && Math.fround(value) !== value) &&
        Number.isFinite(value) === Number.isFinite(Math.fround(value));
  if (!fits && !Number.isNaN(value))
    throw new ArgumentError(
      `the argument ${value} does not fit ${avalOf(value).dtype}, as which a compiled function takes it: pass a tensor`,
    );
  const node = input(avalOf(value));
  node.value = typeof value === 'bigint' ? BigInt64Array.of(value) : Float32Array.of(value);
  return node;
}

/** Inputs that the program would take over, but that someone still sees: XLA copies them. */
function keptOf(
  aliases: readonly number[],
  nodes: readonly Expr[],
  buffers: readonly Stored[],
  held: number,
): number[] {
  const isTwice = (b: Stored) => b.shared && buffers.indexOf(b) !== buffers.lastIndexOf(b);
  const keepsAll = checksNonfinite(); // what a failed step would have changed is as it was
  const kept: number[] = [];
  aliases.forEach((to, i) => {
    if (to >= 0 && (keepsAll || nodes[i]!.holders > held || isTwice(buffers[i]!))) kept.push(i);
  });
  return kept;
}

/** Puts what a call will leave in its places, as values to come. */
function promise(t: Trace, values: readonly Value[], revive: boolean) {
  const undo: (() => void)[] = [];
  const changes: GradChange[] = [];
  const replaced: Expr[] = [];
  const before = new Map<Expr, Expr>();
  /** Of gradients that nobody sees any more. */
  const spent = new Set<Cell>();
  const put = (cell: Cell, now: Expr, owner: Tensor | undefined): void => {
    const was = cell.peek();
    cell.settle(now);
    if (owner) variables.set(now, owner);
    replaced.push(was);
    before.set(now, was);
    undo.push(() => {
      if (cell.peek() !== now) return; // a later call put something there
      let back = was;
      while (back.value instanceof Failed && back.value.before) back = back.value.before;
      cell.settle(back);
      if (!hasValue(back)) cell.touch();
    });
  };
  const putGrad = (owner: Tensor, grad: Tensor | null): void => {
    const was = owner.grad;
    const above = latest.get(owner);
    owner.grad = grad;
    const change: GradChange = {
      was,
      at: owner.gradVersion,
      below: above?.at === owner.gradVersion - 1 ? above : undefined,
    };
    latest.set(owner, change);
    changes.push(change);
    if (grad) ownGrads.add(grad);
    const old = was && ownGrads.has(was) ? was.peek() : undefined;
    if (old) {
      spent.add(was!.cell);
      was!.spend(replacedGrad);
      replaced.push(old);
    }
    undo.push(() => {
      change.failed = true;
      if (old) was!.revive(old);
      if (owner.gradVersion !== change.at) return; // a later call, or the user, put something there
      let first = change;
      while (first.below?.failed) first = first.below;
      owner.grad = first.was;
    });
  };
  // Before gradients are cleared: one of them may be changed first.
  const cells = t.targets.map((target) => (target.kind === 'place' ? cellOf(target.slot, values) : undefined));
  for (const of of t.cleared) putGrad(ownerOf(of, values), null);
  const futures = t.plan.graph.roots.map(({ aval, source }, i) => {
    const target = t.targets[i]!;
    const variable = target.kind === 'place' && target.variable;
    const node = withSource(source, () => input(aval, variable));
    node.value = PROMISED;
    return node;
  });
  const handed = t.targets.map((target, i): Tensor | undefined => {
    const node = futures[i]!;
    if (target.kind === 'place') {
      const { slot, variable } = target;
      const tensor = slot.kind === 'argument' ? values[slot.index] : target.owner;
      const cell = cells[i];
      if (cell && !spent.has(cell)) put(cell, node, variable && tensor instanceof Tensor ? tensor : undefined);
    } else if (target.kind === 'grad') {
      putGrad(ownerOf(target.of, values), new Tensor(node));
    } else if (revive && target.kind === 'result' && !t.returned.leaves[target.index]!.peek()) {
      const tensor = t.returned.leaves[target.index]!; // made inside, and spent
      tensor.revive(node);
      return tensor;
    } else return new Tensor(node);
    return undefined;
  });
  const pick = (leaf: Tensor | number): Tensor => (typeof leaf === 'number' ? handed[leaf]! : leaf);
  return {
    futures,
    replaced,
    before,
    changes,
    undo: undo.reverse(),
    returned: t.returned.rebuild(t.leaves.map(pick)),
    closures: t.closures.map(({ fn, args, leaves }) => ({ fn, args: args.rebuild(leaves.map(pick)) as unknown[] })),
  };
}

/** One call's change of a gradient, to be undone: what was there, and the call before it if nobody set it in between. */
interface GradChange {
  readonly was: Tensor | null;
  readonly at: number;
  below: GradChange | undefined;
  failed?: boolean;
}
const latest = new WeakMap<Tensor, GradChange>();
/** Made here: inside a call, it would keep all that the call left. */
const replacedGrad = (aval: Aval): string =>
  `this ${aval} was a gradient that a later step replaced: clone() it to keep it`;

/** Gradients that steps made: a later step that drops them frees them. */
const ownGrads = new WeakSet<Tensor>();
