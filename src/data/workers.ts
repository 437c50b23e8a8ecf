// Worker threads that transform items, to keep the thread that feeds the device free. A function cannot be sent to a thread,
// so workers import it from a module.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { checkWhole } from '../base/check.js';
import { ArgumentError, DataError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { describe, isPlain } from '../base/tree.js';

export interface WorkerOptions {
  /** Exports `transform(item, index, data)`, which may be async: a URL, or a path. */
  readonly module: URL | string;
  readonly count?: number;
  /** The third argument of each call: plain data. */
  readonly data?: unknown;
}

export const WORKERS_EXAMPLE = `put the function into a separate module:
    // transform.js:  export function transform(item, index) { return ... }
    new DataLoader(dataset, { workers: { module: new URL('./transform.js', import.meta.url), count: 2 } })`;

/** The workers that a loader's options ask for. */
export function checkWorkers(workers: unknown): Required<WorkerOptions> | undefined {
  if (workers === undefined) return undefined;
  if (typeof workers === 'function' || typeof (workers as Partial<WorkerOptions>)?.module === 'function')
    throw new ArgumentError(`DataLoader: a function cannot be sent to a thread: ${WORKERS_EXAMPLE}`);
  const { module, count = 1, data = undefined } = isPlain(workers) ? (workers as Partial<WorkerOptions>) : {};
  if (!(module instanceof URL) && typeof module !== 'string')
    throw new ArgumentError(`DataLoader: workers is ${describe(workers)} without a module: ${WORKERS_EXAMPLE}`);
  checkOptions('DataLoader: workers', ['module', 'count', 'data'], workers as WorkerOptions);
  return { module, count: checkWhole('DataLoader: workers.count', count, 1), data };
}

/** What is sent to a thread, and comes back. */
export interface Task {
  readonly id: number;
  readonly items: readonly unknown[];
  readonly indices: readonly number[];
}
export type Answer =
  | { readonly id: number; readonly items: readonly unknown[] }
  | { readonly id: number; readonly error: string; readonly index: number };
export interface WorkerData {
  readonly module: string;
  readonly data: unknown;
}

/**
 * A tree ready to be sent: the memory that can be given away with it, and instead of parts of larger arrays their copies
 * (or the whole would be sent). `give`: arrays that are the sender's own are moved, too, and not copied.
 */
export function parcel(tree: unknown, give: boolean): { tree: unknown; transfer: ArrayBuffer[] } {
  const transfer = new Set<ArrayBuffer>();
  const visit = (x: unknown): unknown => {
    if (ArrayBuffer.isView(x) && x.buffer instanceof ArrayBuffer) {
      const isWhole = x.byteLength === x.buffer.byteLength;
      const own = isWhole ? x : (x as Uint8Array).slice();
      // A copy of one of Node's Buffers would lie in memory that it shares with others.
      const sent = own instanceof Buffer ? new Uint8Array(own) : own;
      if (give || sent !== x) transfer.add(sent.buffer as ArrayBuffer);
      return sent;
    }
    if (Array.isArray(x)) return x.map(visit);
    return isPlain(x) ? Object.fromEntries(Object.entries(x).map(([key, value]) => [key, visit(value)])) : x;
  };
  return { tree: visit(tree), transfer: [...transfer] };
}

interface Waiting {
  readonly indices: readonly number[];
  resolve(items: readonly unknown[]): void;
  reject(error: Error): void;
}
interface Thread {
  readonly worker: Worker;
  readonly waiting: Map<number, Waiting>;
}

/** The worker threads of a loader. */
export class Workers {
  readonly #threads: Thread[];
  #next = 0;
  #failed: Error | undefined;

  constructor({ module, count, data }: Required<WorkerOptions>) {
    const url =
      module instanceof URL || /^(file|data):/.test(module) ? String(module) : pathToFileURL(path.resolve(module)).href;
    this.#threads = Array.from({ length: count }, (_, i) => this.#start(i, { module: url, data }));
  }

  #start(number: number, workerData: WorkerData): Thread {
    let worker: Worker;
    try {
      // Of a program given as text (node -e), a thread must not inherit how that text is to be read.
      const isText = process.execArgv.some((flag) => flag.startsWith('--input-type'));
      worker = new Worker(new URL('./worker.js', import.meta.url), { workerData, ...(isText && { execArgv: [] }) });
    } catch (e) {
      throw new ArgumentError(`DataLoader: workers.data cannot be sent to a thread: ${(e as Error).message}`, {
        cause: e,
      });
    }
    const thread: Thread = { worker, waiting: new Map() };
    worker.on('message', (answer: Answer) => {
      const task = thread.waiting.get(answer.id)!;
      thread.waiting.delete(answer.id);
      if ('items' in answer) task.resolve(answer.items);
      else
        task.reject(new DataError(`item ${answer.index}: transform of ${workerData.module} failed: ${answer.error}`));
    });
    const died = (why: string, cause?: unknown) => {
      this.#failed ??= new DataError(`worker ${number} of ${workerData.module} died: ${why}`, { cause });
      for (const { indices, reject } of thread.waiting.values()) {
        reject(new DataError(`${this.#failed.message} (it had items ${indices[0]} to ${indices.at(-1)})`, { cause }));
      }
      thread.waiting.clear();
    };
    worker.on('error', (e) => died(e.message, e));
    worker.on('exit', (code) => died(`it ended with exit code ${code}`));
    return thread;
  }

  /** The items transformed, by the thread with the least to do. */
  async transform(items: readonly unknown[], indices: readonly number[]): Promise<readonly unknown[]> {
    if (this.#failed) throw this.#failed;
    const thread = this.#threads.reduce((a, b) => (b.waiting.size < a.waiting.size ? b : a));
    const { tree, transfer } = parcel(items, false);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      try {
        thread.worker.postMessage({ id, items: tree, indices } as Task, transfer);
      } catch (e) {
        const message = `items ${indices[0]} to ${indices.at(-1)} cannot be sent to a worker: ${(e as Error).message}`;
        return reject(new DataError(message, { cause: e }));
      }
      thread.waiting.set(id, { indices, resolve, reject });
    });
  }

  /** Called between epochs: the threads do not keep the process alive. */
  rest(): this {
    for (const { worker } of this.#threads) worker.unref();
    return this;
  }
  wake(): this {
    for (const { worker } of this.#threads) worker.ref();
    return this;
  }
  /** Ends the threads; pending requests are rejected. */
  close(): void {
    this.#failed ??= new DataError('the loader was stopped');
    for (const { worker } of this.#threads) void worker.terminate();
  }
}
