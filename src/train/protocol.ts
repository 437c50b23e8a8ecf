// The protocol between a worker and the engine that started it (here, or ray/driver/worker.py on a cluster): a frame is a line
// of JSON and, if it has `bytes`, that number of raw bytes after it. The worker writes to file 3 and reads from file 4.
import type { Readable, Writable } from 'node:stream';
import { FileError } from '../base/errors.js';
import { jsonOf, object, optional, parseJson, text, whole } from '../base/json.js';
import type { SpmdConfig } from '../spmd/index.js';
import type { PlainResult } from './engine.js';
import type { Reduce } from './scaling.js';

export const PROTOCOL = 1;
export type Metrics = Readonly<Record<string, number>>;
/** Metrics as `jsonOf` writes them: non-finite numbers are strings. */
export type JsonMetrics = Readonly<Record<string, number | string>>;

/** The input of a worker: the JSON file that TSXLA_TRAIN_SPEC names. */
export interface WorkerSpec {
  /** The index of the script's fit() call that this worker is for. */
  readonly run: number;
  readonly name: string;
  /** The number of earlier attempts of this run. */
  readonly attempt: number;
  /** The folder of the run; null if it is an address such as gs://... */
  readonly storage: string | null;
  /** The last checkpoint that was kept. */
  readonly checkpoint: string | null;
  readonly reduce: Reduce;
  readonly mesh: SpmdConfig | null;
  readonly devices: 'tpu' | 'cuda' | 'cpu' | 'auto';
  /** What averages gradients, for the log. */
  readonly engine?: string;
  /** Whether the run's folder gets a log for `tsxla board`. Default: true. */
  readonly log?: boolean;
  /** The folder for profiles and the range of steps. */
  readonly profile?: { readonly dir: string; readonly steps: string };
  /** The results of the script's earlier runs. */
  readonly earlier?: readonly PlainResult[];
}

export type FromWorker =
  | { readonly type: 'hello'; readonly tsxla: string; readonly protocol: number }
  | {
      readonly type: 'report';
      readonly id: number;
      readonly metrics: JsonMetrics;
      readonly checkpoint: string | null;
    }
  /** Its bytes are f32 numbers. */
  | {
      readonly type: 'reduce';
      readonly id: number;
      readonly op: 'mean' | 'sum';
      /** The function that the loop called. */
      readonly what: string;
      readonly bytes: number;
    }
  | { readonly type: 'barrier'; readonly id: number }
  /** The next rows of a dataset that Ray reads, as a Parquet file in this folder. */
  | {
      readonly type: 'rows';
      readonly id: number;
      readonly dataset: string;
      /** A new epoch. */
      readonly begin: boolean;
      readonly folder: string;
    }
  | { readonly type: 'done' }
  | {
      readonly type: 'error';
      readonly name: string;
      readonly message: string;
      readonly stack: string;
      /** Whether a restart would fail in the same way. */
      readonly final: boolean;
    };
export type ToWorker =
  | { readonly type: 'ack'; readonly id: number }
  | { readonly type: 'reduced'; readonly id: number; readonly bytes: number }
  /** As JSON: { file }, { error }, or {} at the end of the epoch. */
  | { readonly type: 'rows'; readonly id: number; readonly bytes: number }
  | { readonly type: 'stop' };

export const decodeMetrics = (metrics: JsonMetrics): Metrics =>
  Object.fromEntries(Object.entries(metrics).map(([name, n]) => [name, Number(n)]));

export const send = (to: Writable, frame: FromWorker | ToWorker, data?: Uint8Array): void => {
  to.write(`${jsonOf(frame)}\n`);
  if (data) to.write(data);
};

const FRAME = object({ type: text, bytes: optional(whole()) });
/** The frames of a stream, each with its bytes, until it ends. */
export async function* framesOf<F extends FromWorker | ToWorker>(
  stream: Readable,
): AsyncGenerator<{ readonly frame: F; readonly data: Uint8Array }> {
  const input = new Bytes(stream);
  for (let line = await input.line(); line !== undefined; line = await input.line()) {
    const error = (_: string, options: ErrorOptions) =>
      new FileError(
        `not a frame: ${line.slice(0, 80)}: files 3 and 4 of a worker are reserved for its engine`,
        options,
      );
    const frame = parseJson(line, 'a frame', FRAME, { error });
    const data = await input.exactly(frame.bytes ?? 0);
    if (!data) return;
    yield { frame: frame as object as F, data };
  }
}

/** Reads lines and fixed numbers of bytes from a stream. */
class Bytes {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #have: Uint8Array[] = [];
  constructor(stream: Readable) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }
  async #more(): Promise<Uint8Array | undefined> {
    const { done, value } = await this.#chunks.next();
    if (!done) this.#have.push(value);
    return done ? undefined : value;
  }
  /** The next n bytes; undefined if the stream ends before. */
  async exactly(n: number): Promise<Uint8Array | undefined> {
    let size = this.#have.reduce((sum, chunk) => sum + chunk.length, 0);
    while (size < n) {
      const chunk = await this.#more();
      if (!chunk) return undefined;
      size += chunk.length;
    }
    return this.#take(n);
  }
  /** The next line, without the line break. */
  async line(): Promise<string | undefined> {
    let before = 0;
    for (let i = 0; ; i++) {
      const chunk = this.#have[i] ?? (await this.#more());
      if (!chunk) return undefined;
      const end = chunk.indexOf(0x0a);
      if (end >= 0) return Buffer.from(this.#take(before + end + 1)).toString('utf8', 0, before + end);
      before += chunk.length;
    }
  }
  #take(n: number): Uint8Array {
    const all = this.#have.length === 1 ? this.#have[0]! : Buffer.concat(this.#have);
    this.#have = all.length > n ? [all.subarray(n)] : [];
    return all.subarray(0, n);
  }
}

/** Bytes as f32 numbers. Copied, because the bytes may not be aligned. */
export const floats = (bytes: Uint8Array): Float32Array => new Float32Array(new Uint8Array(bytes).buffer);
