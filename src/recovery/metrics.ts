// The metrics of a run: one JSON object a line, in a file that a resumed run goes on with.
import fs from 'node:fs';
import { FileError } from '../base/errors.js';
import { object, parseJson, whole } from '../base/json.js';
import type { Lock } from '../base/lock.js';
import { notice } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { replaceFiles } from '../io/file.js';

export interface Metrics {
  readonly step: number;
  /** The mean over the steps since the line before. */
  readonly loss: number;
  /** Of the last step. */
  readonly lr: number;
  readonly gradNorm: number;
  readonly tokensPerSecond: number;
  /** Bytes on the device. */
  readonly memory: number;
  /** Since the run began, or was resumed. */
  readonly seconds: number;
}
export interface EvalMetrics {
  readonly step: number;
  readonly evalLoss: number;
  readonly perplexity: number;
}

const STEP = object({ step: whole() });
/** Written only by the process that has the run's lock. */
export class MetricsFile {
  constructor(
    readonly path: string,
    readonly lock: Lock | undefined,
  ) {}

  /** Leaves the lines up to a step, or none: those behind it are written again. */
  async goBackTo(step = -1): Promise<void> {
    if (!this.lock) return;
    this.lock.check();
    const kept = linesOf(this.path).filter((line, i) => this.#stepOf(line, i + 1) <= step);
    const text = kept.map((line) => `${line}\n`).join('');
    await replaceFiles(new Map([[this.path, (write) => write(Buffer.from(text))]]));
  }
  /** A line that a power cut has damaged is left out: the run is in its checkpoints. */
  #stepOf(line: string, number: number): number {
    try {
      return parseJson(line, `${this.path}, line ${number}`, STEP).step;
    } catch (e) {
      notice(`${messageOf(e)}; the line is removed`);
      return Number.POSITIVE_INFINITY;
    }
  }
  add(line: Metrics | EvalMetrics): void {
    if (!this.lock) return;
    this.lock.check();
    try {
      fs.appendFileSync(this.path, `${JSON.stringify(line)}\n`);
    } catch (e) {
      throw new FileError(`cannot write ${this.path}: ${messageOf(e)}`, { cause: e });
    }
  }
}

/** The whole lines of a file; the last may have been cut off. */
const linesOf = (path: string): string[] =>
  (fs.existsSync(path) ? fs.readFileSync(path, 'utf8') : '').split('\n').slice(0, -1);
