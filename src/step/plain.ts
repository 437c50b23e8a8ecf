// The end of a step in a plain loop: an optimizer's step, or sync(). All changes are computed by one program, which is
// queued: the loop does not wait for it and describes the next step.
import { ArgumentError } from '../base/errors.js';
import { type Expr, nodeCount } from '../ir/expr.js';
import { collect } from '../ir/graph.js';
import { openScopes } from '../ir/scope.js';
import type { Source } from '../ir/source.js';
import { type Change, takeChanges } from '../runtime/cell.js';
import { evaluateNow, resetDescribed, withdraw } from '../runtime/evaluate.js';
import { events } from '../runtime/events.js';
import type { Request } from '../runtime/program.js';
import { ownRecord, recordOf } from '../runtime/record.js';
import { inTurn, reportLater, throwReported, withdrawReport } from '../runtime/turn.js';
import { hasValue, lossOf } from '../runtime/value.js';
import { takeCarried } from '../tensor/carried.js';
import type { Tensor } from '../tensor/tensor.js';
import { asOfNow, giveBack, runAfter, takeWaiting, waitingTensors } from './closures.js';

/** The number of operations waiting in the queue. In a loop that never awaits, nothing is computed and graphs pile up. */
let waiting = 0;
let describedBefore = 0;
const MOST_WAITING = 5_000_000;

export interface EndOptions {
  readonly source: Source | undefined;
  /** The optimizer of the step: programs of one group are compared in explanations. */
  readonly group?: object;
  /** The optimizer's tensors. */
  readonly own: () => readonly Tensor[];
}

/** Called before an optimizer changes anything: throws the errors of earlier steps that were not awaited. */
export function beginStep(name: string): void {
  if (openScopes().length) return; // part of the program that is being described
  throwReported();
  if (waiting + nodeCount() - describedBefore > MOST_WAITING)
    throw new ArgumentError(
      `${name}: ${waiting} operations of earlier steps wait to be computed, but the loop never awaits anything: write await ${name}()`,
    );
}

/** Called when an optimizer has changed its parameters. Resolves when the step was started, after all earlier ones. */
export function endStep(name: string, { source, group, own }: EndOptions): PromiseLike<void> | undefined {
  if (openScopes().length) return undefined;
  const size = nodeCount() - describedBefore;
  waiting += size;
  const started = new Started();
  started.done = queue(
    [],
    { cause: 'step', name, group, source },
    {
      own,
      onFailure: (error) => started.fail(error),
    },
  ).finally(() => {
    waiting -= size;
  });
  started.done.catch(() => {}); // reported later if not awaited
  return started;
}

/** Waits until all queued steps have been started, and throws the error of one that failed. */
export async function finishSteps(): Promise<void> {
  await inTurn(async () => {});
  throwReported();
}

/** Errors of steps that were reported. Steps that depend on a failed one fail with the same error, which is reported once. */
const reported = new WeakSet<object>();

/** The start of a step. If it is not awaited, its error is thrown by the next step, read or sync. */
class Started implements PromiseLike<void> {
  done!: Promise<void>;
  #isAwaited = false;
  #error: unknown;

  // biome-ignore lint/suspicious/noThenProperty: may be awaited; a rejected Promise would have to be.
  then<A = void, B = never>(
    onDone?: (() => A | PromiseLike<A>) | null,
    onFailed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#isAwaited = true;
    withdrawReport(this.#error);
    return this.done.then(onDone, onFailed);
  }
  fail(error: unknown): void {
    this.#error = error;
    if (this.#isAwaited) withdrawReport(error);
    else if (!reported.has(error as object)) reportLater(error);
    reported.add(error as object);
  }
}

/**
 * Computes, in its turn and in one program: all changes so far, these tensors, losses, and values that later steps are known to
 * use. For a step, `own` are the tensors of its optimizer; `onFailure` is called with an error before anything else runs, and the
 * changes are undone by then.
 */
export async function queue(
  tensors: readonly Tensor[],
  request: Request,
  { own, onFailure }: { readonly own?: () => readonly Tensor[]; readonly onFailure?: (error: unknown) => void } = {},
): Promise<void> {
  const asked = [...tensors, ...waitingTensors()].map((t) => t.wanted);
  const taken = takeWaiting();
  const closures = taken.map(asOfNow);
  const changes = takeChanges();
  const { earlier, kept, losses, knowledge } = takeCarried();
  describedBefore = nodeCount();
  resetDescribed();
  const first = [...new Set([...earlier, ...initialValues(changes, own)])];
  const carried = [...losses, ...kept];
  const all = [...first, ...asked, ...carried, ...changes.map(({ expr }) => expr)];
  mark(all, true);
  const isStep = onFailure !== undefined;
  const compute = async (): Promise<void> => {
    const open = first.filter((e) => canBeComputed(e));
    if (open.length)
      await evaluateNow(open, { ...request, name: 'initial_values', group: {} }, []).catch((error: Error) => {
        withdraw(changes, error, isStep);
        throw error;
      });
    const alike = { ...request, group: request.group && groupOf(request.group, knowledge) };
    const isWhole = canBeComputed(...carried);
    const roots = new Set([...asked, ...(isWhole ? carried : carried.filter((e) => canBeComputed(e)))]);
    const buffers = await evaluateNow([...roots], alike, changes, isStep);
    events.stepStarted();
    for (const e of losses) if (e.differentiable && hasValue(e)) e.forget();
    if (!closures.length) return; // only closures need to know whether the run fails
    const done = Promise.all(buffers.map((b) => b.ready()));
    runAfter(
      done.then(() => {}),
      closures,
    );
  };
  await inTurn(() =>
    compute()
      .catch((error) => {
        giveBack(taken);
        onFailure?.(error);
        throw error;
      })
      .finally(() => mark(all, false)),
  );
}

/** The group of similar steps of an optimizer; explanations compare the programs of one group. */
function groupOf(optimizer: object, knowledge: object): object {
  const known = groups.get(optimizer);
  if (known?.knowledge === knowledge) return known;
  const group = { knowledge };
  groups.set(optimizer, group);
  return group;
}
const groups = new WeakMap<object, { readonly knowledge: object }>();

/** Whether all inputs of these nodes still exist; if not, reading their tensors throws. */
const canBeComputed = (...nodes: readonly Expr[]): boolean => !collect(nodes, hasValue).nodes.some(lossOf);

/** Initial values of an optimizer's tensors, for a separate program: as part of the first step they would change its program. */
function initialValues(changes: readonly Change[], own: (() => readonly Tensor[]) | undefined): Expr[] {
  const isOpen = ({ before }: Change) => !before.isComputed && !recordOf(before).queued;
  if (!own || !changes.some(isOpen)) return [];
  const cells = new Set(own().map((t) => t.knownCell)); // disposed ones too
  return changes.filter((c) => isOpen(c) && cells.has(c.cell)).map(({ before }) => before);
}

const mark = (nodes: readonly Expr[], on: boolean): void => {
  for (const e of nodes) if (on || e.record) ownRecord(e).queued = on;
};
