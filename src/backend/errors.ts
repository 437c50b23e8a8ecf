// The errors of specs 002 and 004. Each keeps what it is about in `details`, and what XLA or the runtime said in `cause`.
import { TsxlaError } from '../base/errors.js';

export interface ErrorDetails extends ErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The root of them all: `catch (e) { if (e instanceof TPUBackendError) ... }`. */
export class TPUBackendError extends TsxlaError {
  readonly details: Readonly<Record<string, unknown>>;
  constructor(message: string, { details = {}, ...options }: ErrorDetails = {}) {
    super(message, options);
    this.details = details;
  }
}

/** A TPU is wanted, and there is none. */
export class TPUNotAvailableError extends TPUBackendError {}
/** A field of a configuration that cannot be what it was set to. */
export class TPUConfigurationError extends TPUBackendError {}
/** A device that is not there. */
export class TPUDeviceError extends TPUBackendError {}
/** A model that cannot be brought to the device, or to a dtype. */
export class TPUModelPreparationError extends TPUBackendError {}
/** Inputs that cannot be right, or what is a warning, where enableStrictValidation is on. */
export class TPUValidationError extends TPUBackendError {}
/** A model that cannot be optimized: its forward fails. It is as it was. */
export class TPUOptimizationError extends TPUBackendError {}
/** A program that XLA does not compile. */
export class XLACompilationError extends TPUBackendError {}
/** A compile that took longer than compilationTimeoutSeconds. It goes on: a later call finds its result. */
export class XLACompilationTimeoutError extends XLACompilationError {}
/** Memory that is used in a way it cannot be. */
export class TPUMemoryError extends TPUBackendError {}
/** Not enough of it: `details` has required and available, in bytes. */
export class TPUOutOfMemoryError extends TPUMemoryError {}
/** A pool that is not there or has nothing left, or a tensor that is not its own. */
export class TPUMemoryPoolError extends TPUMemoryError {}
/** A cache that cannot be cleared. */
export class TPUCacheError extends TPUBackendError {}
/** A collective, or other processes, that fail. */
export class TPUDistributedError extends TPUBackendError {}
/** A model's file that cannot be written, read, or does not fit the model. */
export class TPUCheckpointError extends TPUBackendError {}

/** Spec 004's names. */
export {
  TPUNotAvailableError as DeviceNotAvailableError,
  TPUOutOfMemoryError as OutOfMemoryError,
  XLACompilationError as CompilationError,
};

export type ErrorKind = new (message: string, details?: ErrorDetails) => TPUBackendError;
