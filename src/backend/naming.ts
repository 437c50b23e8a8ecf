// Translates errors of the runtime to the error classes of TorchBridge / KernelPyTorch.
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

/** The backend's class for each runtime error; the first match is used. */
const NAMES: readonly (readonly [abstract new (...args: never[]) => Error, ErrorKind])[] = [
  [CompileTimeoutError, XLACompilationTimeoutError],
  [TimeoutError, XLACompilationTimeoutError], // of libtpu, which compiles in another process
  [CompileError, XLACompilationError],
  [OutOfMemoryError, TPUOutOfMemoryError],
  [CheckpointError, TPUCheckpointError],
  [FileError, TPUCheckpointError],
  [StateDictError, TPUCheckpointError],
  [RendezvousError, TPUDistributedError],
];

const isOrdinary = (kind: ErrorKind, e: unknown): boolean => Function.prototype[Symbol.hasInstance].call(kind, e);
Object.defineProperty(TPUBackendError, Symbol.hasInstance, {
  value(this: ErrorKind, e: unknown): boolean {
    if (isOrdinary(this, e)) return true;
    const kind = NAMES.find(([type]) => e instanceof type)?.[1];
    return kind !== undefined && (kind === this || isOrdinary(this, kind.prototype));
  },
});

/** Converts a runtime error to the backend's class, others to `otherwise`. `what` starts the message. */
export function named(what: string, e: unknown, otherwise: ErrorKind = TPUBackendError, details = {}): TPUBackendError {
  if (isOrdinary(TPUBackendError, e)) return e as TPUBackendError;
  const kind = NAMES.find(([type]) => e instanceof type)?.[1] ?? otherwise;
  return new kind(`${what}: ${messageOf(e)}`, { cause: e, details });
}

/** Runs a function and converts its errors. */
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
