// The metrics file of a run: one JSON object per line; a resumed run continues it.
import fs from 'node:fs';
import { FileError } from '../base/errors.js';
import { object, parseJson, whole } from '../base/json.js';
import type { Lock } from '../base/lock.js';
import { notice } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { replaceFiles } from '../io/file.js';
import type { Curves } from './curves.js';

export interface Metrics {
  readonly step: number;
  /** The mean over the steps since the previous line. */
  readonly loss: number;
  /** The learning rate of the last step; gradNorm is its gradient norm. */
  readonly lr: number;
  readonly gradNorm: number;
  readonly tokensPerSecond: number;
  /** Bytes in use on the device. */
  readonly memory: number;
  /** Seconds since the run began or was resumed. */
  readonly seconds: number;
}
export interface EvalMetrics {
  readonly step: number;
  readonly evalLoss: number;
  readonly perplexity: number;
}

const STEP = object({ step: whole() });
/** Writes metrics.jsonl and curves. Only the process that has the run's lock writes. */
export class MetricsFile {
  /** Whether an earlier attempt or another run has left a file. */
  readonly #wasThere: boolean;

  /** `curves` writes the same metrics for TensorBoard. */
  constructor(
    readonly path: string,
    readonly lock: Lock | undefined,
    readonly curves: Curves,
  ) {
    this.#wasThere = fs.existsSync(path);
  }

  /** Removes the lines after a step, or all: a resumed run writes them again. */
  async goBackTo(step: number | undefined): Promise<void> {
    if (!this.lock) return;
    this.lock.check();
    this.curves.begin(step, this.#wasThere);
    const kept = linesOf(this.path).filter((line, i) => this.#stepOf(line, i + 1) <= (step ?? -1));
    const text = kept.map((line) => `${line}\n`).join('');
    await replaceFiles(new Map([[this.path, (write) => write(Buffer.from(text))]]));
  }
  /** A line that a power cut has damaged is removed: the run resumes from its checkpoints. */
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
    this.curves.add(line);
  }
}

/** The complete lines of a file; the last may be cut off. */
const linesOf = (path: string): string[] =>
  (fs.existsSync(path) ? fs.readFileSync(path, 'utf8') : '').split('\n').slice(0, -1);
