// Errors of the runtime under the names that specs 002 and 004 have for them.
import {
  CheckpointError,
  CompileError,
  CompileTimeoutError,
  FileError,
  OutOfMemoryError,
  RendezvousError,
  StateDictError,
  TimeoutError,
} from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import {
  type ErrorKind,
  TPUBackendError,
  TPUCheckpointError,
  TPUDistributedError,
  TPUOutOfMemoryError,
  XLACompilationError,
  XLACompilationTimeoutError,
} from './errors.js';

/** What each error of the runtime is called here; the first that fits. */
const NAMES: readonly (readonly [abstract new (...args: never[]) => Error, ErrorKind])[] = [
  [CompileTimeoutError, XLACompilationTimeoutError],
  [TimeoutError, XLACompilationTimeoutError], // libtpu's, which is waited for in another process
  [CompileError, XLACompilationError],
  [OutOfMemoryError, TPUOutOfMemoryError],
  [CheckpointError, TPUCheckpointError],
  [FileError, TPUCheckpointError],
  [StateDictError, TPUCheckpointError],
  [RendezvousError, TPUDistributedError],
];

/** An error of the runtime under its name here; others as `otherwise`. `what` begins the sentence. */
export function named(what: string, e: unknown, otherwise: ErrorKind = TPUBackendError, details = {}): TPUBackendError {
  if (e instanceof TPUBackendError) return e;
  const kind = NAMES.find(([type]) => e instanceof type)?.[1] ?? otherwise;
  return new kind(`${what}: ${messageOf(e)}`, { cause: e, details });
}

/** Runs it; what goes wrong has its name here. */
export async function naming<T>(
  what: string,
  run: () => T | Promise<T>,
  otherwise?: ErrorKind,
  details = {},
): Promise<T> {
  try {
    return await run();
  } catch (e) {
    throw named(what, e, otherwise, details);
  }
}
