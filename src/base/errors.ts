// The error classes of tsxla. A message names the input, says what is wrong, and what to do about it.

export interface ErrorDetails extends ErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The base class of all errors thrown by tsxla, so that `catch (e) { if (e instanceof TsxlaError) ... }` is enough. */
export class TsxlaError extends Error {
  /** The values concerned, for programs: if memory is short, `required` and `available`. */
  readonly details: Readonly<Record<string, unknown>>;
  constructor(message?: string, { details = {}, ...options }: ErrorDetails = {}) {
    super(message, options);
    this.details = details;
  }
  override get name(): string {
    return this.constructor.name;
  }
}

/** An invalid argument: a wrong count, shape, dtype, device or option. */
export class ArgumentError extends TsxlaError {}

/** Shapes or dimensions that do not fit an operation. */
export class ShapeError extends ArgumentError {}

/** Dtypes that an operation does not accept. */
export class DTypeError extends ArgumentError {}

/** A state dict that does not fit a model: every name that is missing, unexpected or of another shape. */
export class StateDictError extends ArgumentError {
  constructor(
    message: string,
    readonly keys: {
      readonly missing: readonly string[];
      readonly unexpected: readonly string[];
      readonly misshapen: readonly string[];
    },
  ) {
    super(message);
  }
}

/** A checkpoint that cannot be written, is incomplete, or lacks what is requested. */
export class CheckpointError extends TsxlaError {}

/** A lock that another process has taken over or removed: the files it protects are no longer written. */
export class LockError extends TsxlaError {}

/** A handle that was disposed, or whose client was. */
export class DisposedError extends TsxlaError {}

/** A buffer whose memory was given to an execution that reused it. */
export class DonatedError extends TsxlaError {}

/** A tensor without a value: made inside a step and not returned from it, disposed, or donated to the new value. */
export class SpentError extends ArgumentError {}

/** A file that cannot be read or written, or is invalid: truncated, damaged, of another kind. */
export class FileError extends ArgumentError {}

/** A pickle that would import and call a function, `global`. None of it was run. */
export class UnsafePickleError extends FileError {
  constructor(
    message: string,
    readonly global: string,
  ) {
    super(message);
  }
}

/** A model or a file that is not in the cache and cannot be fetched: offline, unknown, not permitted, or the hub fails. */
export class HubError extends TsxlaError {}

/** Reading a tensor before it can have a value: inside a step, or in the body of a loop. */
export class ReadError extends ArgumentError {}

/** A compile that exceeded its time limit. It continues, and its result is used when it is ready. */
export class CompileTimeoutError extends TsxlaError {}

/** Data that cannot be loaded: a broken file, an unreadable item, an empty dataset, a worker that died. */
export class DataError extends TsxlaError {}

/** A program that failed on the device after it was started. `cause` is the device's error. */
export class StepFailedError extends TsxlaError {}

/**
 * A value that is NaN or infinite where that is an error: a result of a step while tx.debug.nans() is on, or the loss of a run.
 * `details` has the findings for programs: op, module, file, line, operands, input.
 */
export class NonfiniteError extends TsxlaError {}

/** Nonfinite gradients where that is an error: clipGradNorm with errorIfNonfinite. */
export class NonfiniteGradientError extends NonfiniteError {}

/** A function that was compiled to more programs than maxGraphs allows. */
export class TooManyGraphsError extends TsxlaError {}

/** A violation of a development rule with TSXLA_RULES=error. `rule` is its name in docs/rules.md. */
export class RuleError extends TsxlaError {
  constructor(
    message: string,
    readonly rule: string,
  ) {
    super(message);
  }
}

/** No plugin library for a device on this platform, or none was found and none could be fetched. */
export class PluginNotFoundError extends TsxlaError {}

/** Fetching a plugin failed: no Python, no pip, no network, no space. */
export class PluginFetchError extends TsxlaError {}

/** A plugin file that is not the one installed: incomplete, changed, or with a wrong checksum. */
export class PluginCorruptError extends TsxlaError {}

/** A library that cannot be loaded: wrong architecture, missing dependency, no GetPjrtApi. */
export class PluginLoadError extends TsxlaError {}

/** A plugin whose PJRT C API lacks a required function. */
export class PluginVersionError extends TsxlaError {}

/** A child process running a plugin died. `output` has the last lines it printed. */
export class PluginCrashError extends TsxlaError {
  constructor(
    message: string,
    readonly output: string,
  ) {
    super(message);
  }
}

/** A Ray cluster that is unreachable, too old, refuses access, or cannot fulfil the request. */
export class RayError extends TsxlaError {}

/** A time limit was exceeded. */
export class TimeoutError extends TsxlaError {}

/** The absl status codes, in their numeric order. */
export const STATUS_CODES = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const;
export type StatusCode = (typeof STATUS_CODES)[number];

/** Processes that did not find each other, or the store they meet through. */
export class RendezvousError extends TsxlaError {
  constructor(
    message: string,
    readonly code: StatusCode,
  ) {
    super(message);
  }
}

/** An error reported by XLA: `code` is its status code, `call` the C API function that returned it. */
export class PjrtError extends TsxlaError {
  constructor(
    message: string,
    readonly code: StatusCode,
    readonly call: string,
    details: ErrorDetails = {},
  ) {
    super(message, details);
  }
}

/** A program XLA could not parse or compile. The message keeps XLA's line and column. */
export class CompileError extends PjrtError {}

/** RESOURCE_EXHAUSTED: the device has not enough memory for a program or a buffer. */
export class OutOfMemoryError extends PjrtError {}
