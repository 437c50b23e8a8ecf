// The event log of a run, for `tsxla board` and reports: losses and times of single steps, compiles with explanations, findings
// of rules, samples of text, how the run ended. One JSON object per line, appended to events.jsonl in the run's folder. Lines
// are never removed: a resumed run records the step it continues from, and readers drop later steps before that line.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { jsonOf } from '../base/json.js';
import { noticeOnce } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { addSink } from '../runtime/events.js';
import { compileOf } from './explain.js';
import { findings } from './rules.js';

export const EVENTS = 'events.jsonl';

export interface RunStart {
  /** A title for the run, if the name of its folder is not enough. */
  readonly title?: string;
  /** The step after which it continues. Default: 0, a new run. */
  readonly step?: number;
  /** Whether it continues: to be said where that step may be 0. Default: `step` is not 0. */
  readonly resumed?: boolean;
  /** The last step, for progress. */
  readonly steps?: number;
  /** The run's settings. */
  readonly settings?: Readonly<Record<string, unknown>>;
}
export interface RunSample {
  /** The time of the sample: 'before', 'after', 'step 500'. */
  readonly title: string;
  readonly prompt: string;
  readonly text: string;
}
export interface RunTable {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}
/** A value to compare a curve with: drawn as a line across its chart. */
export interface RunMark {
  readonly metric: string;
  readonly label: string;
  readonly value: number;
}
export type RunStatus = 'finished' | 'stopped' | 'failed';

const FLUSH = 1000; // milliseconds: the most that a killed process loses
const MOST_PENDING = 10_000; // lines, before the folder is known, and while it cannot be written

/**
 * Writes the events of one run. Compiles are recorded from construction on; the file is written once `open` sets its folder.
 * A file that cannot be written does not stop the run: it is reported once.
 */
export class RunLog implements Disposable {
  #file: string | undefined;
  #check: () => void = () => {};
  #lines: string[] = [];
  /** Losses and seconds of consecutive steps, which become one line. */
  #steps: { first: number; readonly loss: number[]; readonly seconds: (number | null)[] } | undefined;
  readonly #said = new Map<string, string>();
  readonly #sink: Disposable;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  readonly #began = Date.now();
  readonly #onExit = (): void => this.flush();

  constructor() {
    this.#sink = addSink({
      compiled: ({ key }, _, { internal }) => {
        const record = compileOf(key);
        if (!record) return;
        const { name, cause, hash, at, inputs, outputs, operations, earlier, difference, seconds, cache } = record;
        this.add('compile', {
          ...{
            name: name ?? null,
            cause,
            hash,
            at: placeHere(at),
            inputs,
            outputs,
            operations,
            earlier,
            seconds,
            cache,
          },
          ...(internal && { internal: true }),
          ...(difference && { difference: { ...difference, at: placeHere(difference.at) } }),
        });
      },
    });
  }

  /** Creates a log and opens it. */
  static open(folder: string, start: RunStart = {}): RunLog {
    const log = new RunLog();
    fs.mkdirSync(folder, { recursive: true });
    log.open(folder, start);
    return log;
  }
  /** Opens the log of a run that has ended, or belongs to another process, to add samples, tables or marks. */
  static append(folder: string): RunLog {
    const log = new RunLog();
    log.#write(path.join(folder, EVENTS));
    return log;
  }

  /** Starts writing; `check` throws if the folder belongs to another process by now. */
  open(folder: string, { step = 0, ...start }: RunStart = {}, check: () => void = () => {}): void {
    this.#check = check;
    const { pid } = process;
    // The first line: events recorded before belong to this run.
    this.#lines.unshift(lineOf('start', { t: this.#began, step, ...start, pid, host: os.hostname() }));
    this.#write(path.join(folder, EVENTS));
  }
  #write(file: string): void {
    this.#file = file;
    this.flush();
    this.#timer = setInterval(() => this.flush(), FLUSH);
    this.#timer.unref();
    process.on('exit', this.#onExit);
  }

  /** Adds a line. Nonfinite numbers are written as strings. */
  add(kind: string, what: Readonly<Record<string, unknown>> = {}): void {
    if (this.#closed || (this.#file === undefined && this.#lines.length >= MOST_PENDING)) return;
    this.#endSteps();
    this.#lines.push(lineOf(kind, what));
  }
  /** Adds the loss of a step, and its time if known. */
  step(step: number, loss: number, seconds?: number): void {
    if (this.#closed) return;
    if (this.#steps && step !== this.#steps.first + this.#steps.loss.length) this.#endSteps();
    this.#steps ??= { first: step, loss: [], seconds: [] };
    this.#steps.loss.push(short(loss));
    this.#steps.seconds.push(seconds === undefined ? null : short(seconds));
  }
  /** Adds metrics of a step, by any names. */
  metrics(line: { readonly step: number } & Readonly<Record<string, number>>): void {
    this.add('metrics', line);
  }
  /** Changes the title of the run. */
  title(title: string): void {
    this.add('title', { title });
  }
  sample(sample: RunSample): void {
    this.add('sample', { ...sample });
  }
  table(table: RunTable): void {
    this.add('table', { ...table });
  }
  mark(mark: RunMark): void {
    this.add('mark', { ...mark });
  }
  /** Records how the run ended; nothing can be added afterwards. Later calls have no effect. */
  end(status: RunStatus, error?: string): void {
    this.add('end', { status, ...(error !== undefined && { error }) });
    this.#close();
  }

  #endSteps(): void {
    if (this.#steps) this.#lines.push(lineOf('steps', this.#steps));
    this.#steps = undefined;
  }
  #addFindings(): void {
    for (const finding of findings()) {
      const [key, text] = [`${finding.rule} ${finding.place}`, jsonOf(finding)];
      if (this.#said.get(key) === text) continue;
      this.#said.set(key, text);
      this.#lines.push(lineOf('finding', { ...finding, place: placeHere(finding.place) }));
    }
  }
  get isOpen(): boolean {
    return this.#file !== undefined;
  }
  /** Writes pending lines. */
  flush(): void {
    if (this.#file === undefined || this.#closed) return;
    this.#endSteps();
    this.#addFindings();
    if (!this.#lines.length) return;
    let size: number | undefined;
    try {
      this.#check();
      size = sizeOf(this.#file);
      fs.appendFileSync(this.#file, `${endsInLine(this.#file, size) ? '' : '\n'}${this.#lines.join('\n')}\n`);
      this.#lines = [];
    } catch (e) {
      noticeOnce(`cannot write ${this.#file}: ${messageOf(e)}; the run continues, and it is tried again`);
      this.#undo(size);
      this.#lines.splice(1, this.#lines.length - MOST_PENDING); // the first says that the run began
    }
  }
  /** What a full disk took of the lines is not to be there twice. */
  #undo(size: number | undefined): void {
    try {
      if (size !== undefined && sizeOf(this.#file!) > size) fs.truncateSync(this.#file!, size);
    } catch {
      // Readers pass over half a line, and take the last of two that say the same.
    }
  }
  [Symbol.dispose](): void {
    this.#close();
  }
  #close(): void {
    if (this.#closed) return;
    this.flush();
    clearInterval(this.#timer);
    process.off('exit', this.#onExit);
    this.#sink[Symbol.dispose]();
    this.#closed = true;
  }
}

/** FILE:LINE relative to the working folder. */
function placeHere(at: string): string {
  const here = `${process.cwd()}${path.sep}`;
  return at.startsWith(here) ? at.slice(here.length) : at;
}
/** Whether a file ends with a whole line: a killed run may leave half a line. */
function endsInLine(file: string, size: number): boolean {
  if (!size) return true;
  const fd = fs.openSync(file, 'r');
  try {
    const last = Buffer.alloc(1);
    fs.readSync(fd, last, 0, 1, size - 1);
    return last[0] === 0x0a;
  } finally {
    fs.closeSync(fd);
  }
}
const sizeOf = (file: string): number => fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0;
const lineOf = (kind: string, what: Readonly<Record<string, unknown>>): string =>
  jsonOf({ kind, t: Date.now(), ...what });
/** Rounds to seven digits, more than a chart shows. */
const short = (x: number): number => Number(x.toPrecision(7));
