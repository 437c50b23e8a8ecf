// tx.sync: computes several tensors at once, ends a step of a plain loop, and waits for the device.
import { inspect } from 'node:util';
import { ArgumentError } from '../base/errors.js';
import { isPlain } from '../base/tree.js';
import { insideBody } from '../ir/scope.js';
import { captureSource } from '../ir/source.js';
import { evaluate } from '../runtime/evaluate.js';
import type { Request } from '../runtime/program.js';
import { throwReported } from '../runtime/turn.js';
import { currentStep } from '../tensor/scope.js';
import { Tensor } from '../tensor/tensor.js';
import { stepsDone } from './closures.js';
import { queue } from './plain.js';

export interface SyncOptions {
  /** Waits until the device has computed everything, and all step closures have run. Default: false. */
  readonly wait?: boolean;
}

/**
 * Computes these tensors, and all tensors changed in place, in one program, and ends a step of a plain loop. Reading them
 * afterwards only copies.
 */
export function sync(...what: readonly (Tensor | readonly Tensor[] | SyncOptions)[]): Promise<void> {
  const step = currentStep();
  if (step) throw new ArgumentError(`sync() inside ${step.name}: a step is one program already; call sync() after it`);
  if (insideBody())
    throw new ArgumentError(
      'sync() inside the body of a loop or branch: the body only describes a computation; call sync() after it',
    );
  const given = what.flat() as (Tensor | SyncOptions)[];
  const tensors = given.filter((t) => t instanceof Tensor);
  const options = given.filter((t): t is SyncOptions => !(t instanceof Tensor)).map(checkOptions);
  return syncNow(
    tensors,
    options.some((o) => o.wait),
    { cause: 'sync', source: captureSource(sync) },
  );
}

/** Ends a step; called by a data loader when its loop has used a batch. */
export const endLoaderStep = (): Promise<void> =>
  syncNow([], false, { cause: 'loader', source: captureSource(endLoaderStep) });

/** Computes tensors for the library itself: recompiles are expected and not reported. */
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

async function syncNow(tensors: readonly Tensor[], wait: boolean, request: Request): Promise<void> {
  throwReported();
  await queue(tensors, request);
  if (wait) await stepsDone();
}
