// What can go wrong with a run.
import { TsxlaError } from '../base/errors.js';
import type { Result } from './engine.js';

/** What one worker said or did last. */
export class WorkerError extends TsxlaError {
  constructor(
    message: string,
    readonly rank: number,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** A run that was told to end: Ctrl-C, SIGTERM. It does not begin again. */
export class StoppedError extends TsxlaError {}

/** A run that ended early, after all the restarts it may have. `result` is what there is of it; `cause` is what happened. */
export class TrainingFailedError extends TsxlaError {
  constructor(
    message: string,
    readonly result: Result,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
