// Writes worker 0's reports as TensorBoard curves, for RunConfig's tensorboard.
import { SummaryWriter } from '../board/tensorboard.js';
import type { Metrics } from './protocol.js';

export class ReportCurves implements AsyncDisposable {
  #writer: SummaryWriter | undefined;
  constructor(readonly folder: string) {}

  /** Begins an attempt. TensorBoard drops points of earlier attempts after the kept reports. */
  async begin(history: readonly Metrics[], isAgain: boolean): Promise<void> {
    await this.#writer?.close();
    const purgeStep = Math.max(-1, lastStepOf(history)) + 1;
    this.#writer = new SummaryWriter(this.folder, isAgain || history.length ? { purgeStep } : {});
  }
  /** Adds the report of this index. */
  add(metrics: Metrics, index: number): void {
    const step = stepOf(metrics, index);
    for (const [name, value] of Object.entries(metrics))
      if (name !== 'step') this.#writer?.addScalar(name, value, step);
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer?.close();
  }
}
/** The metric `step` of a report, or else the number of the report, from 1. */
export const stepOf = (metrics: Metrics, index: number): number => {
  const { step } = metrics;
  return Number.isSafeInteger(step) ? step! : index + 1;
};
/** The largest step of reports; -Infinity if there are none. They may be more than a call takes arguments. */
export const lastStepOf = (history: readonly Metrics[]): number =>
  history.reduce((most, metrics, i) => Math.max(most, stepOf(metrics, i)), Number.NEGATIVE_INFINITY);
