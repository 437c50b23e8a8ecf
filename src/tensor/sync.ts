// Computing several tensors at once, and waiting for the device.
import { ArgumentError } from '../base/errors.js';
import { insideBody } from '../ir/cell.js';
import { captureSource, type Source } from '../ir/source.js';
import { evaluate } from '../runtime/evaluate.js';
import { checkClosures, endOfStep, stepsDone } from './closures.js';
import { currentRegion } from './region.js';
import { Tensor } from './tensor.js';

export interface SyncOptions {
  /** Waits until the device has computed everything, and all closures of steps have run. */
  readonly wait?: boolean;
}

/**
 * Computes these tensors, and all that were changed in place, in one program, and ends a step of a plain loop. Reading them
 * afterwards only copies.
 */
export function sync(...what: readonly (Tensor | SyncOptions)[]): Promise<void> {
  const region = currentRegion();
  if (region) throw new ArgumentError(`sync() inside ${region.name}: it is one program already; sync after it`);
  if (insideBody())
    throw new ArgumentError(
      'sync() inside the body of a loop or branch: it only describes what is computed; sync after it',
    );
  return syncNow(what, captureSource(sync));
}

async function syncNow(what: readonly (Tensor | SyncOptions)[], source: Source | undefined): Promise<void> {
  checkClosures();
  const tensors = what.filter((t) => t instanceof Tensor);
  const buffers = await evaluate(
    tensors.map((t) => t.expr),
    { cause: 'sync', source },
  );
  endOfStep(
    Promise.all(buffers.map((b) => b.ready())).then(() => {}),
    [],
  );
  if (what.some((o) => !(o instanceof Tensor) && o.wait)) await stepsDone();
}
