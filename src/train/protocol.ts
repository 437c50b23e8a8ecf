// The protocol between a worker and the engine that started it (here, or ray/driver/worker.py on a cluster): a frame is a line
// of JSON and, if it has `bytes`, so many raw bytes behind it. The worker writes to file 3 and reads from file 4.
import type { Readable, Writable } from 'node:stream';
import { FileError } from '../base/errors.js';
import { jsonOf } from '../base/json.js';
import type { SpmdConfig } from '../spmd/index.js';
import type { PlainResult } from './engine.js';
import type { Reduce } from './scaling.js';

export const PROTOCOL = 1;
export type Metrics = Readonly<Record<string, number>>;
/** As `jsonOf` writes them: what is not finite is a text. */
export type JsonMetrics = Readonly<Record<string, number | string>>;

/** What a worker is told before it begins: the JSON file that TSXLA_TRAIN_SPEC names. */
export interface WorkerSpec {
  /** Which fit() of the script is meant, from 0. */
  readonly run: number;
  readonly name: string;
  /** How often the run was begun before. */
  readonly attempt: number;
  /** The folder of the run; null where that is an address, as gs://... is. */
  readonly storage: string | null;
  /** The last checkpoint that was kept. */
  readonly checkpoint: string | null;
  readonly reduce: Reduce;
  readonly mesh: SpmdConfig | null;
  readonly devices: 'tpu' | 'cuda' | 'cpu' | 'auto';
  /** Who averages gradients, in words. */
  readonly engine?: string;
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
  /** Of numbers in f32. */
  | {
      readonly type: 'reduce';
      readonly id: number;
      readonly op: 'mean' | 'sum';
      /** What the loop has called. */
      readonly what: string;
      readonly bytes: number;
    }
  | { readonly type: 'barrier'; readonly id: number }
  | { readonly type: 'done' }
  | {
      readonly type: 'error';
      readonly name: string;
      readonly message: string;
      readonly stack: string;
      /** It would be the same again. */
      readonly final: boolean;
    };
export type ToWorker =
  | { readonly type: 'ack'; readonly id: number }
  | { readonly type: 'reduced'; readonly id: number; readonly bytes: number }
  | { readonly type: 'stop' };

export const decodeMetrics = (metrics: JsonMetrics): Metrics =>
  Object.fromEntries(Object.entries(metrics).map(([name, n]) => [name, Number(n)]));

export const send = (to: Writable, frame: FromWorker | ToWorker, data?: Uint8Array): void => {
  to.write(`${jsonOf(frame)}\n`);
  if (data) to.write(data);
};

/** The frames of a stream, each with its bytes, until it ends. */
export async function* framesOf<F extends FromWorker | ToWorker>(
  stream: Readable,
): AsyncGenerator<{ readonly frame: F; readonly data: Uint8Array }> {
  const input = new Bytes(stream);
  for (let line = await input.line(); line !== undefined; line = await input.line()) {
    let frame: F & { bytes?: number };
    try {
      frame = JSON.parse(line);
    } catch (e) {
      throw new FileError(`what came is no frame: ${line.slice(0, 80)}: files 3 and 4 of a worker are its engine's`, {
        cause: e,
      });
    }
    const data = await input.exactly(frame.bytes ?? 0);
    if (!data) return;
    yield { frame, data };
  }
}

/** A stream's bytes: lines, and so many at a time. */
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
  /** The first n bytes; undefined where the stream ends before. */
  async exactly(n: number): Promise<Uint8Array | undefined> {
    let size = this.#have.reduce((sum, chunk) => sum + chunk.length, 0);
    while (size < n) {
      const chunk = await this.#more();
      if (!chunk) return undefined;
      size += chunk.length;
    }
    return this.#take(n);
  }
  /** A line without its end. */
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

/** Bytes as numbers; a copy, for they may begin anywhere. */
export const floats = (bytes: Uint8Array): Float32Array => new Float32Array(new Uint8Array(bytes).buffer);
