// Parquet files, read row group by row group: they may be larger than memory. They are decoded in a thread, which leaves the
// one that feeds the device free, and which can be ended: what decodes zstd in JavaScript runs forever on some broken files.
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { checkSeconds } from '../base/check.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { checkFiles, type FileState, resumeFiles } from './files.js';
import { IterableDataset, type Read, type State } from './iterable.js';
import type { GroupAnswer, GroupRequest } from './parquet-thread.js';

export interface ParquetOptions {
  /** The columns to read; all unless told. */
  readonly columns?: readonly string[];
  /** A row group that takes longer is an error: the file is broken. 120 unless told. */
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
    const start = resumeFiles<RowState>('ParquetDataset', this.files, from, { row: 0 });
    let isEmpty = from === undefined;
    for (let file = start.file; file < this.files.length; file++) {
      const name = path.basename(this.files[file]!);
      let row = file === start.file ? start.row : 0;
      for await (const rows of this.#groups(this.files[file]!, row)) {
        for (const item of rows) yield { item: item as T, after: { file, name, row: ++row } };
        isEmpty &&= !rows.length;
      }
    }
    if (isEmpty)
      throw new DataError(`ParquetDataset: the dataset is empty: there is no row in ${this.files.join(', ')}`);
  }

  /** The rows of a file from one on, a row group at a time. */
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
    const decoder = Decoder.#idle.pop() ?? new Decoder();
    decoder.#worker.ref();
    return decoder;
  }

  readonly #worker = new Worker(new URL('./parquet-thread.js', import.meta.url), { execArgv: [] });
  #isGone = false;
  #answer: ((answer: GroupAnswer) => void) | undefined;

  private constructor() {
    this.#worker.on('message', (answer: GroupAnswer) => this.#answer?.(answer));
    this.#worker.on('error', (e) => this.#end(`it ended the thread that decodes it: ${e.message}`));
    this.#worker.on('exit', (code) => this.#end(`the thread that decodes it ended with code ${code}`));
  }
  #end(why: string): void {
    this.#isGone = true;
    this.#answer?.({ error: why });
    void this.#worker.terminate();
  }

  async ask(request: GroupRequest, seconds: number): Promise<GroupAnswer> {
    const late = `its rows from ${request.row} on were not decoded in ${seconds} s: it is broken, or pass a larger { timeoutSeconds }`;
    const timer = setTimeout(() => this.#end(late), seconds * 1000);
    const answer = await new Promise<GroupAnswer>((resolve) => {
      this.#answer = resolve;
      this.#worker.postMessage(request);
    });
    clearTimeout(timer);
    this.#answer = undefined;
    return this.#isGone && 'error' in answer ? { error: `cannot read ${request.file}: ${answer.error}` } : answer;
  }

  giveBack(): void {
    if (this.#answer) this.#end('nobody waits for it'); // it was left while it worked
    if (this.#isGone) return;
    this.#worker.unref();
    if (Decoder.#idle.length < 2) Decoder.#idle.push(this);
    else void this.#worker.terminate();
  }
}
