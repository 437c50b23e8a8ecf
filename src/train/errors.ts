// What can go wrong with a run.
import { ArgumentError, CheckpointError, DataError, TsxlaError } from '../base/errors.js';
import type { Result } from './engine.js';

/** What one worker said or did last. */
export class WorkerError extends TsxlaError {
  /** Whether it would be the same again. */
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

/** A run that was told to end: Ctrl-C, SIGTERM. It does not begin again. */
export class StoppedError extends TsxlaError {}

/** A run that ended early, after all the restarts it may have. `result` is what there is of it; `cause` is what happened. */
export class TrainingFailedError extends TsxlaError {
  declare readonly result: Result;
  constructor(message: string, result: Result, options?: ErrorOptions) {
    super(message, options);
    // Not enumerable: Node would print the cause twice, and the whole history, where it is not caught.
    Object.defineProperty(this, 'result', { value: result });
  }
}

const MISTAKES = [ArgumentError, DataError, CheckpointError];
/** What is wrong with what was asked for, or with where it is kept: another attempt would come to the same. */
export const isMistake = (e: unknown): boolean => MISTAKES.some((kind) => e instanceof kind);
