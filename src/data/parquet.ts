// Parquet datasets, read by row group: files may be larger than memory. A thread decodes them, so that the main thread is free
// to feed the device, and so that decoding can be stopped: the JavaScript zstd decoder never returns for some broken files.
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { checkSeconds } from '../base/check.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { findFiles } from '../io/hub-files.js';
import { checkFiles, eachFile, type FileState, resumeFiles } from './files.js';
import { IterableDataset, type Read, type State } from './iterable.js';
import type { GroupAnswer, GroupRequest } from './parquet-thread.js';

export interface ParquetOptions {
  /** The columns to read. Default: all. */
  readonly columns?: readonly string[];
  /** The most seconds to decode a row group: more is an error, as the file is probably broken. Default: 120. */
  readonly timeoutSeconds?: number;
}
type Columns = Readonly<Record<string, unknown>>;
type RowState = FileState & { readonly row: number };

/** The rows of Parquet files, as objects. */
export class ParquetDataset<T = Columns> extends IterableDataset<T> {
  readonly files: readonly string[];
  readonly columns: readonly string[] | undefined;
  readonly #timeoutSeconds: number;

  constructor(files: string | readonly string[], options: ParquetOptions = {}) {
    super();
    checkOptions('ParquetDataset', ['columns', 'timeoutSeconds'], options);
    const { columns, timeoutSeconds = 120 } = options;
    this.files = checkFiles('ParquetDataset', files);
    this.columns = columns;
    this.#timeoutSeconds = timeoutSeconds;
    if (columns && !(Array.isArray(columns) && columns.length && columns.every((c) => typeof c === 'string')))
      throw new ArgumentError(`ParquetDataset: columns must be a list of names`);
    checkSeconds('ParquetDataset: timeoutSeconds', timeoutSeconds);
  }

  override async *read(_epoch: number, from?: State): AsyncIterable<Read<T>> {
    const files = await findFiles(this.files);
    const start = resumeFiles<RowState>('ParquetDataset', files, from, { row: 0 });
    let isEmpty = from === undefined;
    for await (const [file, here] of eachFile(files, start.file)) {
      const name = path.basename(files[file]!.path);
      let row = file === start.file ? start.row : 0;
      for await (const rows of this.#groups(here, row)) {
        for (const item of rows) yield { item: item as T, after: { file, name, row: ++row } };
        isEmpty &&= !rows.length;
      }
    }
    if (isEmpty) throw new DataError(`ParquetDataset: the dataset is empty: no rows in ${this.files.join(', ')}`);
  }

  /** The rows of a file from a given one on, one row group at a time. */
  async *#groups(file: string, first: number): AsyncIterable<readonly Columns[]> {
    const decoder = Decoder.take();
    const reading = readings++;
    try {
      for (let row: number | undefined = first; row !== undefined; ) {
        const answer: GroupAnswer = await decoder.ask(
          { reading, file, columns: this.columns, row },
          this.#timeoutSeconds,
        );
        if ('error' in answer) throw new DataError(answer.error);
        yield answer.rows;
        row = answer.next;
      }
    } finally {
      decoder.giveBack();
    }
  }
}

let readings = 0;

/** A thread that decodes; one that has nothing to do is kept for the next. */
class Decoder {
  static readonly #idle: Decoder[] = [];
  static take(): Decoder {
    return Decoder.#idle.pop() ?? new Decoder();
  }

  readonly #worker = new Worker(new URL('./parquet-thread.js', import.meta.url), { execArgv: [] });
  #isGone = false;
  #answer: ((answer: GroupAnswer) => void) | undefined;

  private constructor() {
    this.#worker.on('message', (answer: GroupAnswer) => this.#answer?.(answer));
    this.#worker.on('error', (e) => this.#end(`it ended the thread that decodes it: ${e.message}`));
    this.#worker.unref(); // but while it is asked: a reader that is left half-way keeps no process alive
    this.#worker.on('exit', (code) => this.#end(`the thread that decodes it ended with code ${code}`));
  }
  #end(why: string): void {
    this.#isGone = true;
    this.#answer?.({ error: why });
    void this.#worker.terminate();
  }

  async ask(request: GroupRequest, seconds: number): Promise<GroupAnswer> {
    const late = `its rows from ${request.row} on were not decoded in ${seconds} s: the file may be broken; otherwise pass a larger { timeoutSeconds }`;
    const timer = setTimeout(() => this.#end(late), seconds * 1000);
    this.#worker.ref();
    const answer = await new Promise<GroupAnswer>((resolve) => {
      this.#answer = resolve;
      this.#worker.postMessage(request);
    });
    clearTimeout(timer);
    this.#worker.unref();
    this.#answer = undefined;
    return this.#isGone && 'error' in answer ? { error: `cannot read ${request.file}: ${answer.error}` } : answer;
  }

  giveBack(): void {
    if (this.#answer) this.#end('it is not waited for'); // it was left while it worked
    if (this.#isGone) return;
    if (Decoder.#idle.length < 2) Decoder.#idle.push(this);
    else void this.#worker.terminate();
  }
}
