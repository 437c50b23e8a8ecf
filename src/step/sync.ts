// Computing several tensors at once, and waiting for the device.
import { inspect } from 'node:util';
import { ArgumentError } from '../base/errors.js';
import { isPlain } from '../base/tree.js';
import { insideBody } from '../ir/scope.js';
import { captureSource, type Source } from '../ir/source.js';
import { evaluate } from '../runtime/evaluate.js';
import { currentStep } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';
import { checkClosures, endOfStep, giveBack, stepsDone, takeWaiting } from './closures.js';

export interface SyncOptions {
  /** Waits until the device has computed everything, and all closures of steps have run. */
  readonly wait?: boolean;
}

/**
 * Computes these tensors, and all that were changed in place, in one program, and ends a step of a plain loop. Reading them
 * afterwards only copies.
 */
export function sync(...what: readonly (Tensor | readonly Tensor[] | SyncOptions)[]): Promise<void> {
  const step = currentStep();
  if (step) throw new ArgumentError(`sync() inside ${step.name}: it is one program already; sync after it`);
  if (insideBody())
    throw new ArgumentError(
      'sync() inside the body of a loop or branch: it only describes what is computed; sync after it',
    );
  const given = what.flat() as (Tensor | SyncOptions)[];
  const tensors = given.filter((t) => t instanceof Tensor);
  const options = given.filter((t): t is SyncOptions => !(t instanceof Tensor)).map(checkOptions);
  return syncNow(
    tensors,
    options.some((o) => o.wait),
    captureSource(sync),
  );
}

/** Computes these for the library itself: each time may be another program, and that is nothing to tell of. */
export async function compute(name: string, ...tensors: readonly Tensor[]): Promise<void> {
  await evaluate(
    tensors.map((t) => t.wanted),
    { cause: 'sync', name, group: {} },
  );
}

function checkOptions(o: SyncOptions): SyncOptions {
  if (isPlain(o) && Object.keys(o).every((key) => key === 'wait')) return o;
  throw new ArgumentError(`sync: takes tensors, and { wait: true } to wait for the device: got ${inspect(o)}`);
}

async function syncNow(tensors: readonly Tensor[], wait: boolean, source: Source | undefined): Promise<void> {
  checkClosures();
  const waiting = takeWaiting();
  const used = waiting.flatMap(({ args }) => args as Tensor[]);
  const buffers = await evaluate(
    [...tensors, ...used].map((t) => t.wanted),
    { cause: 'sync', source },
  ).catch((error) => {
    giveBack(waiting);
    throw error;
  });
  endOfStep(
    Promise.all(buffers.map((b) => b.ready())).then(() => {}),
    waiting,
  );
  if (wait) await stepsDone();
}
