// The error classes of TorchBridge / KernelPyTorch. `details` has the values concerned, `cause` the error of XLA or the runtime.
import { type ErrorDetails, TsxlaError } from '../base/errors.js';

/**
 * The base class of all backend errors: `catch (e) { if (e instanceof TPUBackendError) ... }`. Runtime errors listed in
 * naming.ts count as instances too: a step that runs outside of a backend method throws those.
 */
export class TPUBackendError extends TsxlaError {}

/** A TPU is required, but there is none. */
export class TPUNotAvailableError extends TPUBackendError {}
/** A configuration field was set to an invalid value. */
export class TPUConfigurationError extends TPUBackendError {}
/** A device that does not exist. */
export class TPUDeviceError extends TPUBackendError {}
/** A model that cannot be prepared for the device, or converted to a dtype. */
export class TPUModelPreparationError extends TPUBackendError {}
/** Invalid inputs; with enableStrictValidation also conditions that otherwise only warn. */
export class TPUValidationError extends TPUBackendError {}
/** A model that cannot be optimized since its forward fails. The model is unchanged. */
export class TPUOptimizationError extends TPUBackendError {}
/** A program that XLA failed to compile. */
export class XLACompilationError extends TPUBackendError {}
/** A compile that took longer than compilationTimeoutSeconds. It continues: a later call finds its result. */
export class XLACompilationTimeoutError extends XLACompilationError {}
/** Invalid use of memory: a tensor or shape that the memory manager cannot handle. */
export class TPUMemoryError extends TPUBackendError {}
/** Not enough memory: `details` has `required` and `available`, in bytes. */
export class TPUOutOfMemoryError extends TPUMemoryError {}
/** A pool that does not exist or is empty, or a tensor that does not belong to it. */
export class TPUMemoryPoolError extends TPUMemoryError {}
/** A cache that cannot be cleared. */
export class TPUCacheError extends TPUBackendError {}
/** A collective operation, or another process, that failed. */
export class TPUDistributedError extends TPUBackendError {}
/** A model file that cannot be written or read, or does not fit the model. */
export class TPUCheckpointError extends TPUBackendError {}

/** TorchBridge's names. */
export {
  TPUNotAvailableError as DeviceNotAvailableError,
  TPUOutOfMemoryError as OutOfMemoryError,
  XLACompilationError as CompilationError,
};

export type ErrorKind = new (message: string, details?: ErrorDetails) => TPUBackendError;
