// Running a traced step: its results are put in place at once as promised values, and the program is started in its turn.
import { ArgumentError, OutOfMemoryError, StepFailedError } from '../base/errors.js';
import type { Expr } from '../ir/expr.js';
import type { Sharding } from '../ir/mesh.js';
import { withSource } from '../ir/source.js';
import { input } from '../ops/prim/variable.js';
import type { LoadedExecutable } from '../pjrt/index.js';
import { type Cell, type Change, changesArePending, takeChanges } from '../runtime/cell.js';
import { checkResults, evaluateNow, place, resetDescribed } from '../runtime/evaluate.js';
import { checksResults, events, timed } from '../runtime/events.js';
import { isPlaced, layoutOf } from '../runtime/layout.js';
import { withRelief } from '../runtime/memory.js';
import { obtain, type Request, type Run } from '../runtime/program.js';
import { hold, ownRecord, recordOf, release } from '../runtime/record.js';
import { isStored, type Stored } from '../runtime/sharded.js';
import { inTurn, isFree, started } from '../runtime/turn.js';
import {
  checkAlive,
  defaultClient,
  Failed,
  hasValue,
  isUnsettled,
  nodeValue,
  PROMISED,
  setValue,
  withBuffers,
} from '../runtime/value.js';
import type { Layout } from '../stablehlo/emitter.js';
import type { Closure } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';
import { variables } from '../tensor/variables.js';
import { endOfStep, giveBack, takeWaiting, waitingTensors } from './closures.js';
import { CellPut, GradPut } from './place.js';
import { avalOf, type Slot, type Target, type Trace, type Value } from './trace.js';

/**
 * Calls a traced function. Its results are in place at once, as promised values, so that code after the call sees them in the
 * order of the calls; the program is started when its turn comes. If that fails, everything is restored.
 */
export function call(t: Trace, values: readonly Value[], request: Request, revive: boolean): Promise<unknown> {
  const inputs = timed('gatherInputs', () => t.slots.map((slot) => inputOf(slot, values)));
  for (const { node } of inputs) hold(node); // until it has run
  const asked = waitingTensors().map((tensor) => tensor.wanted);
  const early = asked.every(hasValue) ? startNow(t, inputs, request) : undefined;
  const waiting = takeWaiting(); // only if nothing above failed
  const results = timed('placeResults', () => new Results(t, values, revive));
  const changes = early ? [] : takeChanges();
  return inTurn(async () => {
    const run = early ?? (await launch(t, { inputs, asked, values, request, changes }).catch((error: Error) => error));
    releaseAll(inputs);
    if (run instanceof Error) {
      results.fail(run);
      for (const change of changes) if (!hasValue(change.expr)) change.cell.giveBack(change);
      giveBack(waiting);
      throw run;
    }
    results.settle(run.outputs);
    endOfStep(run.done, [...waiting, ...results.closures]);
    return results.returned;
  });
}

/** A node whose value is an input of a call, and the cell it was found in. */
interface Input {
  readonly node: Expr;
  readonly cell: Cell | undefined;
}
const releaseAll = (inputs: readonly Input[]): void => {
  for (const { node } of inputs) release(node);
};
/** Whether no input's value was donated. */
const isWhole = (inputs: readonly Input[]): boolean =>
  inputs.every(({ node }) => {
    const value = nodeValue(node);
    return !(isStored(value) && value.disposed);
  });

/**
 * Starts the program of a trace before its results are put in place, if there is nothing to wait for: the device would be idle
 * until then. Not when memory is short: a program started in its turn lets garbage be collected first.
 */
function startNow(t: Trace, inputs: readonly Input[], request: Request): Run | undefined {
  const executable = t.program?.dropped ? undefined : t.program?.ready;
  if (!executable || !isFree(executable.client) || changesArePending() || checksResults()) return undefined;
  const shardings = t.program!.layout?.parameters;
  const isReady = ({ node }: Input, i: number) =>
    hasValue(node) && !isUnsettled(node) && isPlaced(node, shardings?.[i]);
  if (!inputs.every(isReady)) return undefined;
  if (t.slots.some((slot) => slot.kind === 'grad')) return undefined; // other holders are known only when it is replaced
  try {
    events.count('programFound');
    return start(t, inputs, executable, request);
  } catch (error) {
    if (error instanceof OutOfMemoryError && isWhole(inputs)) return undefined;
    releaseAll(inputs);
    throw isWhole(inputs) ? error : failureOf(t, request.name!, error as Error);
  }
}

interface Launch {
  readonly inputs: readonly Input[];
  /** Nodes that closures of afterStep wait for: computed first, since the call may change their inputs. */
  readonly asked: readonly Expr[];
  readonly values: readonly Value[];
  readonly request: Request;
  readonly changes: readonly Change[];
}

/** Starts the program of a trace in its turn: its inputs are computed and moved to its devices first. */
async function launch(t: Trace, { inputs, asked, values, request, changes }: Launch): Promise<Run> {
  const client = await defaultClient();
  const nodes = inputs.map(({ node }) => node);
  const pending = [...nodes, ...asked].filter((e) => !hasValue(e));
  if (pending.length || changes.length) {
    const name = `${request.name}_clear_pending`;
    await evaluateNow(pending, { ...request, cause: 'pending', name, group: name, admit: undefined }, changes);
  }
  nodes.forEach(checkAlive);
  const layout = layoutFor(t, values, nodes);
  await place(client, nodes, layout);
  const { program, executable } = await obtain(
    client,
    layout ? { ...t.computation, layout } : t.computation,
    request,
    t.program,
  );
  t.program = program;
  const run = () => start(t, inputs, executable, request);
  const execution = await withRelief(run, () => isWhole(inputs)).catch((error) => {
    throw isWhole(inputs) ? error : failureOf(t, request.name!, error);
  });
  if (checksResults()) {
    const { outputs } = execution;
    const cells = t.slots.map((slot) => (slot.kind === 'cell' ? slot.cell : undefined));
    const resultName = (i: number, nameOf: (i: number) => string) => nameOfTarget(t, i, nameOf);
    await checkResults(client, { computation: t.computation, given: nodes, cells, outputs, request, resultName });
  }
  return execution;
}

/** Starts the program of a trace; all input values exist. */
function start(t: Trace, inputs: readonly Input[], executable: LoadedExecutable, request: Request): Run {
  const nodes = inputs.map(({ node }) => node);
  const execution = withBuffers(executable.client, nodes, t.program!.layout?.parameters, (buffers) =>
    t.program!.run(executable, buffers, keptOf(t, inputs, buffers), request),
  );
  const done = execution.done.catch((error) => {
    const failure = failureOf(t, request.name!, error);
    for (const buffer of execution.outputs) buffer.failure = failure;
    throw failure;
  });
  started(done);
  resetDescribed();
  return execution;
}

/** Inputs that the program would donate but something else still holds: XLA copies them. */
function keptOf(
  { computation: { aliases }, slots }: Trace,
  inputs: readonly Input[],
  buffers: readonly Stored[],
): number[] {
  const isTwice = (b: Stored) => b.shared && buffers.indexOf(b) !== buffers.lastIndexOf(b);
  const keepsAll = checksResults(); // a step that fails the check must leave its tensors unchanged
  const kept: number[] = [];
  aliases.forEach((to, i) => {
    if (to < 0) return;
    const { node, cell } = inputs[i]!;
    // Two holders: this call, and the cell until the result is put there. A gradient's cell has released it by then.
    const own = slots[i]!.kind !== 'grad' && cell?.peek() === node ? 2 : 1;
    if (keepsAll || recordOf(node).holders > own || isTwice(buffers[i]!)) kept.push(i);
  });
  return kept;
}

/** A result in the user's words, for messages. */
function nameOfTarget(t: Trace, i: number, nameOf: (input: number) => string): string {
  const target = t.targets[i]!;
  if (target.kind === 'result') return `its result ${t.returned.paths[target.index]!.replace(/^\./, '')}`.trimEnd();
  if (target.kind === 'closure') return 'an argument of afterStep';
  const isOwner = ({ cell }: Tensor) => t.slots.findIndex((slot) => slot.kind === 'cell' && slot.cell === cell);
  if (target.kind === 'grad') {
    const at =
      typeof target.of === 'number'
        ? t.slots.findIndex((slot) => slot.kind === 'argument' && slot.index === target.of)
        : isOwner(target.of);
    return at < 0 ? 'a gradient' : `the gradient of ${nameOf(at)}`;
  }
  const at = t.slots.indexOf(target.slot);
  const same = at >= 0 ? at : t.computation.aliases.indexOf(i);
  return same < 0 ? 'a tensor that it changes' : `the new value of ${nameOf(same)}`;
}

/** How a call of a traced function is split over several devices; undefined if one device holds all values. */
export function layoutFor(
  t: Trace,
  values: readonly Value[],
  given: readonly Expr[] = t.slots.map((slot) => inputOf(slot, values).node),
): Layout | undefined {
  const { meshes, aliases } = t.computation;
  return layoutOf({ given, meshes, aliases, results: t.targets.map((target) => shardingAt(target, values)) });
}

/** The sharding of the place of a result, if known: a gradient has its variable's sharding. */
function shardingAt(target: Target, values: readonly Value[]): Sharding | undefined {
  if (target.kind === 'grad') return ownerOf(target.of, values).cell.sharding;
  if (target.kind !== 'place') return undefined;
  const { slot } = target;
  const isCleared = slot.kind === 'grad' && !ownerOf(slot.owner, values).grad; // by the same call, after the change
  return isCleared ? ownerOf(slot.owner, values).cell.sharding : cellOf(slot, values)?.sharding;
}

/** The error of a run that failed on the device, with the tensors that were lost. */
function failureOf(
  { computation: { aliases, labels, parameters } }: Trace,
  name: string,
  cause: Error,
): StepFailedError {
  const names = labels();
  const lost = aliases.flatMap((to, i) => (to >= 0 ? [`${parameters[i]!.aval} (${names[i]})`] : []));
  const what =
    lost.length &&
    `\n    lost with it, since their old values were donated to the step: ${lost.slice(0, 5).join(', ')}` +
      `${lost.length > 5 ? ` and ${lost.length - 5} more` : ''}: set them again, or load a checkpoint`;
  return new StepFailedError(`${name} failed on the device: ${cause.message}${what || ''}`, { cause });
}

const ownerOf = (of: Tensor | number, values: readonly Value[]): Tensor =>
  typeof of === 'number' ? (values[of] as Tensor) : of;

/** The cell in a slot; undefined if it holds a number. */
function cellOf(slot: Slot, values: readonly Value[]): Cell | undefined {
  if (slot.kind === 'cell') return slot.cell;
  if (slot.kind === 'grad') return ownerOf(slot.owner, values).grad!.cell;
  const value = slot.kind === 'argument' ? values[slot.index] : undefined;
  return value instanceof Tensor ? value.cell : undefined;
}

function inputOf(slot: Slot, values: readonly Value[]): Input {
  if (slot.kind === 'node') return { node: slot.node, cell: undefined };
  const cell = cellOf(slot, values);
  const node = cell ? cell.placed() : numberNode(values[(slot as { index: number }).index] as number | bigint);
  return { node, cell };
}
function numberNode(value: number | bigint): Expr {
  const fits =
    typeof value === 'bigint'
      ? BigInt.asIntN(64, value) === value
      : !(Number.isInteger(value) && Math.fround(value) !== value) &&
        Number.isFinite(value) === Number.isFinite(Math.fround(value));
  if (!fits && !Number.isNaN(value))
    throw new ArgumentError(
      `the argument ${value} does not fit ${avalOf(value).dtype}, the dtype of numbers passed to a compiled function: pass a tensor`,
    );
  const node = input(avalOf(value));
  ownRecord(node).value = typeof value === 'bigint' ? BigInt64Array.of(value) : Float32Array.of(value);
  return node;
}

/** The results of a call: promised values in their places, and the returned tensors. */
class Results {
  readonly returned: unknown;
  readonly closures: readonly Closure[];
  readonly #futures: readonly Expr[];
  readonly #puts: (CellPut | GradPut)[] = [];

  constructor(t: Trace, values: readonly Value[], revive: boolean) {
    // Cells are read before gradients are cleared: one of them may be changed first.
    const cells = t.targets.map((target) => (target.kind === 'place' ? cellOf(target.slot, values) : undefined));
    for (const of of t.cleared) this.#putGrad(ownerOf(of, values), null);
    this.#futures = t.computation.graph.roots.map(({ aval, source }, i) => {
      const target = t.targets[i]!;
      const variable = target.kind === 'place' && target.variable;
      const node = withSource(source, () => input(aval, variable));
      ownRecord(node).value = PROMISED;
      return node;
    });
    const handed = t.targets.map((target, i): Tensor | undefined => {
      const node = this.#futures[i]!;
      if (target.kind === 'place') {
        const { slot, variable } = target;
        const tensor = slot.kind === 'argument' ? values[slot.index] : target.owner;
        this.#put(cells[i], node, variable && tensor instanceof Tensor ? tensor : undefined);
      } else if (target.kind === 'grad') {
        this.#putGrad(ownerOf(target.of, values), new Tensor(node));
      } else if (revive && target.kind === 'result' && !t.returned.leaves[target.index]!.peek()) {
        const tensor = t.returned.leaves[target.index]!; // made inside, and spent
        tensor.revive(node);
        return tensor;
      } else return new Tensor(node);
      return undefined;
    });
    const pick = (leaf: Tensor | number): Tensor => (typeof leaf === 'number' ? handed[leaf]! : leaf);
    this.returned = t.returned.rebuild(t.leaves.map(pick));
    this.closures = t.closures.map(({ fn, args, leaves }) => ({
      fn,
      args: args.rebuild(leaves.map(pick)) as unknown[],
    }));
  }

  #put(cell: Cell | undefined, node: Expr, owner: Tensor | undefined): void {
    if (!cell || this.#spent.has(cell)) return;
    this.#puts.push(new CellPut(cell, node));
    if (owner) variables.set(node, owner);
  }
  /** The cells of gradients that this call replaced: nothing can read a value put there. */
  readonly #spent = new Set<Cell>();
  #putGrad(owner: Tensor, grad: Tensor | null): void {
    const spent = owner.grad?.knownCell;
    const put = new GradPut(owner, grad);
    if (spent && put.isReplacing) this.#spent.add(spent);
    this.#puts.push(put);
  }

  /** The program was started: the promised values get their buffers. */
  settle(outputs: readonly Stored[]): void {
    this.#futures.forEach((e, i) => {
      const { sharding } = recordOf(e); // requested meanwhile: the value is moved when it is used
      setValue(e, outputs[i]!);
      if (sharding) ownRecord(e).sharding = sharding;
    });
    for (const put of this.#puts) put.settle();
  }

  /** The program was not started: restores everything. */
  fail(error: Error): void {
    for (const e of this.#futures) ownRecord(e).value = new Failed(() => error);
    for (const put of this.#puts.reverse()) put.undo();
  }
}
