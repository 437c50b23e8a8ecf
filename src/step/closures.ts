// What is to be done when a step's results are there: logging, mostly, without holding the loop up.
import { ArgumentError } from '../base/errors.js';
import { describe, flatten, isPlain } from '../base/tree.js';
import { offLoop } from '../observe/rules-loop.js';
import { events } from '../runtime/events.js';
import { allDone } from '../runtime/turn.js';
import { type Closure, currentStep } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';

/** For the next step: what was registered outside of one. */
let waiting: Closure[] = [];
let running: Promise<void> = Promise.resolve();
let failed: { readonly error: unknown } | undefined;

/**
 * Calls fn with these arguments when the step that is being described (or the next one) is done: tensors among them have
 * values then. What it throws is thrown by the next step, or by sync().
 */
export function afterStep<A extends unknown[]>(fn: (...args: A) => unknown, ...args: A): void {
  if (typeof fn !== 'function') throw new ArgumentError(`afterStep: takes a function, got ${describe(fn)}`);
  const closures = currentStep()?.closures ?? waiting;
  // What holds no tensor is handed on as it is; a copy of it would hide changes.
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

/** A step was started: it counts, and its closures run when it is done, in order. */
export function endOfStep(done: Promise<void>, closures: readonly Closure[]): void {
  events.stepStarted();
  if (!closures.length) return;
  running = running
    .then(() => done)
    .then(async () => {
      for (const { fn, args } of closures) await offLoop(() => fn(...(args as never[]))).catch(note);
    })
    .catch(note);
}

/** The first is thrown by the next step, or by sync(). */
const note = (error: unknown): void => void (failed ??= { error });

/** What waits for the next step, which is called now. */
export function takeWaiting(): Closure[] {
  const taken = waiting;
  waiting = [];
  return taken;
}
/** That step was not started: it waits for the next one. */
export function giveBack(closures: readonly Closure[]): void {
  waiting = [...closures, ...waiting];
}

/** Throws what a closure threw. */
export function checkClosures(): void {
  if (!failed) return;
  const { error } = failed;
  failed = undefined;
  throw error;
}

/** Waits for the device and for all closures. */
export async function stepsDone(): Promise<void> {
  await allDone();
  await running;
  checkClosures();
}
