// Follows the reports of a running loop: writes the log that `tsxla board` shows, and profiles some steps.
import { noticeOnce } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { RunLog, type RunStatus } from '../observe/run-log.js';
import { StepProfiler } from '../profiler/index.js';
import { lastStepOf, stepOf } from './curves.js';
import type { Metrics, WorkerSpec } from './protocol.js';
import { historyOf } from './storage.js';

/** The log of a trainer's run. A loop adds to it; only the trainer knows how the run ends. */
class LoopLog extends RunLog {
  override end(): void {
    noticeOnce('getRunLog().end() has no effect: the trainer records how the run ended');
  }
  override [Symbol.dispose](): void {} // `using log = getRunLog()`: the next call returns the same log
  finish(status: RunStatus, error?: string): void {
    super.end(status, error);
  }
}

export class Watch {
  /** Worker 0's log. It is opened at the first report, so that a run without reports leaves no folder. */
  readonly log: LoopLog | undefined;
  readonly #folder: string | null;
  readonly #profiler: StepProfiler | undefined;
  /** Reports before this attempt. */
  readonly #kept: readonly Metrics[];
  /** Number of reports in this attempt. */
  #reports = 0;

  constructor({ storage, log = true, profile }: WorkerSpec, rank: number) {
    this.#folder = storage;
    this.log = rank === 0 && storage !== null && log ? new LoopLog() : undefined;
    this.#kept = this.log ? historyOf(storage!) : [];
    this.#profiler = profile && new StepProfiler(profile.dir, { steps: profile.steps, rank });
  }

  /** Runs a loop. */
  async over(loop: () => unknown): Promise<void> {
    try {
      await this.#profiler?.begin(1);
      await loop();
      this.log?.finish('finished');
    } catch (e) {
      this.log?.finish('failed', messageOf(e));
      throw e;
    } finally {
      await this.#profiler?.[Symbol.asyncDispose]();
    }
  }

  /** Sends a report, which ends a step. The log has what a checkpoint keeps: a resumed run does not report it again. */
  async report(metrics: Metrics, send: () => Promise<void>, hasCheckpoint: boolean): Promise<void> {
    this.#reports++;
    await this.#profiler?.end(this.#reports);
    this.#write(metrics);
    if (hasCheckpoint) this.log?.flush();
    await send();
    await this.#profiler?.begin(this.#reports + 1);
  }
  #write(metrics: Metrics): void {
    if (!this.log) return;
    if (!this.log.isOpen) {
      const resumed = this.#kept.length > 0;
      this.log.open(this.#folder!, { step: resumed ? lastStepOf(this.#kept) : 0, ...(resumed && { resumed }) });
    }
    const { kind: _, t: __, ...numbers } = metrics; // names reserved by the log
    this.log.metrics({ ...numbers, step: stepOf(metrics, this.#kept.length + this.#reports - 1) });
  }
}
