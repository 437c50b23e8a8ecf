// Step closures: callbacks that run when a step's results are ready (mostly logging), without blocking the loop.
import { ArgumentError } from '../base/errors.js';
import { describe, flatten, isPlain } from '../base/tree.js';
import { offLoop } from '../observe/rules-loop.js';
import { events } from '../runtime/events.js';
import { allDone, reportLater, throwReported } from '../runtime/turn.js';
import { type Closure, currentStep } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';

/** Closures registered outside of a step: they belong to the next one. */
let waiting: Closure[] = [];
let running: Promise<void> = Promise.resolve();

/**
 * Calls fn with these arguments when the step that is being described (or else the next one) is done; tensors among them have
 * values by then. An error thrown by fn is rethrown by the next step, or by sync().
 */
export function afterStep<A extends unknown[]>(fn: (...args: A) => unknown, ...args: A): void {
  if (typeof fn !== 'function') throw new ArgumentError(`afterStep: takes a function, got ${describe(fn)}`);
  const closures = currentStep()?.closures ?? waiting;
  // Arguments without tensors are passed as they are: a copy would hide later changes.
  const trees = args.map((arg) => ({ arg, ...flatten('afterStep', arg, isLeaf, 'anything') }));
  closures.push({
    args: trees.flatMap(({ leaves }) => leaves.filter(isTensor)),
    fn: (...tensors: Tensor[]) => {
      let next = 0;
      const now = trees.map(({ arg, leaves, rebuild }) =>
        leaves.some(isTensor) ? rebuild(leaves.map((x) => (isTensor(x) ? tensors[next++] : x))) : arg,
      );
      return fn(...(now as A));
    },
  });
}
const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;
const isLeaf = (x: unknown): x is unknown => x != null && !Array.isArray(x) && !isPlain(x);

/** Called when a step was started: counts it, and runs its closures when it is done. */
export function endOfStep(done: Promise<void>, closures: readonly Closure[]): void {
  events.stepStarted();
  runAfter(done, closures);
}
/** Runs closures when a step is done, in order. */
export function runAfter(done: Promise<void>, closures: readonly Closure[]): void {
  if (!closures.length) return;
  running = running
    .then(() => done)
    .then(async () => {
      for (const { fn, args } of closures) await offLoop(() => fn(...(args as never[]))).catch(reportLater);
    })
    .catch(reportLater);
}

/** The tensors of closures that wait for the next step. A tensor disposed meanwhile fails its closure, not the step. */
export const waitingTensors = (): Tensor[] => waiting.flatMap(({ args }) => args as Tensor[]).filter((t) => t.peek());
/** A closure with copies of its tensors' current values: later steps of a plain loop change parameters before it runs. */
export function asOfNow({ fn, args }: Closure): Closure {
  const copies = new Map<Tensor, Tensor>();
  const copyOf = (t: Tensor): Tensor => {
    if (!t.peek()) return t; // disposed: the closure's call throws
    if (!copies.has(t)) copies.set(t, new Tensor(t.wanted));
    return copies.get(t)!;
  };
  return { fn, args: args.map((t) => copyOf(t as Tensor)) };
}
/** Takes the closures that wait for the next step; called by that step. */
export function takeWaiting(): Closure[] {
  const taken = waiting;
  waiting = [];
  return taken;
}
/** Puts them back if that step was not started: they wait for the next one. */
export function giveBack(closures: readonly Closure[]): void {
  waiting = [...closures, ...waiting];
}

/** Waits for the device and for all closures. */
export async function stepsDone(): Promise<void> {
  await allDone();
  await running;
  throwReported();
}
