// The errors of training runs.
import { ArgumentError, CheckpointError, DataError, TsxlaError } from '../base/errors.js';
import type { Result } from './engine.js';

/** A worker threw an error, exited or was killed. */
export class WorkerError extends TsxlaError {
  /** Whether a restart would fail in the same way. */
  readonly final: boolean;
  constructor(
    message: string,
    readonly rank: number,
    { final = false, ...options }: ErrorOptions & { readonly final?: boolean } = {},
  ) {
    super(message, options);
    this.final = final;
  }
}

/** The run was stopped by Ctrl-C or SIGTERM. It is not restarted. */
export class StoppedError extends TsxlaError {}

/** A run failed and has no restarts left. `result` is the result up to the failure, `cause` the error of the last attempt. */
export class TrainingFailedError extends TsxlaError {
  declare readonly result: Result;
  constructor(message: string, result: Result, options?: ErrorOptions) {
    super(message, options);
    // Not enumerable: Node would print the cause twice, and the whole history, where it is not caught.
    Object.defineProperty(this, 'result', { value: result });
  }
}

const MISTAKES = [ArgumentError, DataError, CheckpointError];
/** Whether the arguments, the data or the storage are wrong: a restart would fail in the same way. */
export const isMistake = (e: unknown): boolean => MISTAKES.some((kind) => e instanceof kind);
