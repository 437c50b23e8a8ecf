// StepProfiler: profiles some steps of a long run (--profile DIR --profile-steps 10:15).
import path from 'node:path';
import { FileError } from '../base/errors.js';
import { makeFolder } from '../base/folder.js';
import { notice } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { parseSteps } from './range.js';
import { annotatePrograms, StepTrace, startTrace, stopTrace, type TraceFiles } from './trace.js';

export interface StepProfilerOptions {
  /** The steps to profile. Default: '10:15', when programs are compiled and caches are warm. */
  readonly steps?: string;
  /** The rank of this process: each process writes its own file. Default: 0. */
  readonly rank?: number;
  /** Folders of this package whose lines count as the user's, for its own jobs. */
  readonly pointAt?: readonly string[];
}

/** Profiles steps. Create it before the steps are compiled, so that their operations have names of modules and lines. */
export class StepProfiler implements AsyncDisposable {
  readonly #range: readonly [number, number];
  readonly #host: string | undefined;
  readonly #annotated: Disposable;
  #isOn = false;
  #span: StepTrace | undefined;
  #isDone = false;
  /** The files written. */
  files: TraceFiles | undefined;

  constructor(
    readonly dir: string,
    { steps = '10:15', rank = 0, pointAt = [] }: StepProfilerOptions = {},
  ) {
    this.#range = parseSteps(steps, 'StepProfiler: steps');
    this.#host = rank ? `rank-${rank}` : undefined;
    try {
      makeFolder(path.resolve(dir)); // a wrong path fails now, not after hours of training
    } catch (e) {
      throw new FileError(`StepProfiler: cannot write profiles into ${dir}: ${messageOf(e)}`, { cause: e });
    }
    this.#annotated = annotatePrograms({ pointAt });
  }

  /** Runs the step of this number. */
  async step<T>(n: number, run: () => T | Promise<T>): Promise<T> {
    await this.begin(n);
    try {
      return await run();
    } finally {
      await this.end(n);
    }
  }
  /** Call it before the step of this number. */
  async begin(n: number): Promise<void> {
    const [from, to] = this.#range;
    if (!this.#isOn && !this.#isDone && n >= from && n < to) {
      const name = { run: `steps_${from}_${to}` };
      const start = () => startTrace(this.dir, { ...name, ...(this.#host && { host: this.#host }) });
      this.#isOn = await this.#attempt(start);
    }
    this.#span = new StepTrace('train', { stepNum: n });
  }
  /** Call it after the step of this number. */
  async end(n: number): Promise<void> {
    this.#span?.end();
    this.#span = undefined;
    if (n >= this.#range[1] - 1) await this.#finish();
  }
  async #finish(): Promise<void> {
    if (!this.#isOn) return;
    this.#span?.end();
    this.#span = undefined;
    this.#isOn = false;
    await this.#attempt(async () => {
      this.files = await stopTrace();
      notice(`the profile is ${this.files.xplane}: tsxla profile ${this.files.xplane}`);
    });
    this.#isDone = true;
    this.#annotated[Symbol.dispose]();
  }
  /** A profile that fails does not stop the run. */
  async #attempt(work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (e) {
      this.#isDone = true;
      notice(`no profile of the steps ${this.#range.join(':')}: ${messageOf(e)}; the run continues`);
      return false;
    }
  }
  /** Ends the profile if the run was shorter. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#finish();
    this.#annotated[Symbol.dispose]();
    if (!this.#isDone) notice(`no profile was written: none of the steps ${this.#range.join(':')} was run`);
    this.#isDone = true;
  }
}
