// The key-value store through which processes exchange what they need to compute together (the devices and network address of
// each). It lives in process 0 and is reached by TCP. A plugin uses it through C callbacks, which it calls on its own threads and
// waits for. Since the main thread may be waiting for the plugin, our worker threads answer: one for the network, and one for
// each kind of call, so that a waiting get cannot block the put it waits for.
import os from 'node:os';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { RendezvousError, STATUS_CODES } from '../base/errors.js';

/** The place of a process: its rank, the number of processes, and the address of process 0. */
export interface Member {
  readonly rank: number;
  readonly world: number;
  readonly host: string;
  readonly port: number;
  /** The time limit for all processes to join, in seconds. */
  readonly timeout: number;
  /** A secret of the group: a process without it cannot join. */
  readonly token?: string;
}

/** A request to the network thread. Keys have one character for each byte. */
export type Request = { readonly id: number } & (
  | { readonly op: 'join' }
  | { readonly op: 'put'; readonly key: string; readonly value: Uint8Array }
  | { readonly op: 'get'; readonly key: string; readonly timeoutMs: number }
  | { readonly op: 'tryGet'; readonly key: string }
);
export interface Answer {
  readonly id: number;
  /** A status code: 0 is OK. */
  readonly code: number;
  readonly message: string;
  readonly value: Uint8Array;
}
/** One end of a channel between threads. `answers` counts answers, for a thread that sleeps until there is one. */
export interface Line {
  readonly port: MessagePort;
  readonly answers: Int32Array;
}
export interface NetworkData {
  readonly member: Member & { readonly name: string };
  readonly lines: readonly Line[];
}
export interface CallbackData extends Line {
  readonly op: (typeof CALLBACKS)[number];
}
const CALLBACKS = ['get', 'put', 'tryGet'] as const;

/** The callbacks, by their fields in PJRT_Client_Create_Args. */
export interface KeyValueCallbacks {
  readonly kv_get_callback: bigint;
  readonly kv_put_callback: bigint;
  readonly kv_try_get_callback: bigint;
}

export class KeyValueStore {
  readonly #workers: Worker[] = [];
  readonly #port: MessagePort;
  readonly #callbackLines: readonly Line[];
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #next = 0;

  private constructor(member: Member) {
    const pairs = ['main', ...CALLBACKS].map(() => {
      const { port1, port2 } = new MessageChannel();
      const answers = new Int32Array(new SharedArrayBuffer(4));
      return { near: { port: port1, answers }, far: { port: port2, answers } };
    });
    const [main, ...others] = pairs.map(({ near }) => near);
    const lines = pairs.map(({ far }) => far);
    const data: NetworkData = { member: { ...member, name: `${os.hostname()}, pid ${process.pid}` }, lines };
    this.#callbackLines = others;
    this.#port = main!.port;
    this.#port.on('message', (answer: Answer) => {
      this.#waiting.get(answer.id)?.(answer);
      this.#waiting.delete(answer.id);
      if (!this.#waiting.size) this.#port.unref();
    });
    this.#port.unref();
    this.#start(
      'key-value-network',
      data,
      lines.map(({ port }) => port),
    );
  }

  /** Starts the store (in process 0) or finds it, and resolves when all processes have joined. */
  static async join(member: Member): Promise<KeyValueStore> {
    const store = new KeyValueStore(member);
    try {
      await store.#ask({ op: 'join' });
      return store;
    } catch (e) {
      store.close();
      throw e;
    }
  }

  async put(key: string, value: Uint8Array): Promise<void> {
    await this.#ask({ op: 'put', key, value });
  }
  /** Waits until the key is put; rejects with DEADLINE_EXCEEDED after a timeout in milliseconds. */
  get(key: string, timeoutMs: number): Promise<Uint8Array> {
    return this.#ask({ op: 'get', key, timeoutMs });
  }
  /** Returns the value now; rejects with NOT_FOUND if the key was never put. */
  tryGet(key: string): Promise<Uint8Array> {
    return this.#ask({ op: 'tryGet', key });
  }

  /** C functions for a plugin, callable on any thread while the store is open. */
  async callbacks(): Promise<KeyValueCallbacks> {
    const addresses = await Promise.all(
      CALLBACKS.map((op, i) => {
        const line = this.#callbackLines[i]!;
        const worker = this.#start('key-value-callback', { op, ...line } satisfies CallbackData, [line.port]);
        worker.ref(); // until it has sent its address
        return new Promise<bigint>((resolve, reject) => worker.once('message', resolve).once('error', reject)).finally(
          () => worker.unref(),
        );
      }),
    );
    const [kv_get_callback, kv_put_callback, kv_try_get_callback] = addresses as [bigint, bigint, bigint];
    return { kv_get_callback, kv_put_callback, kv_try_get_callback };
  }

  /** Closes the store. No plugin may use its callbacks afterwards. */
  close(): void {
    for (const worker of this.#workers) void worker.terminate();
    this.#port.close();
  }

  #start(file: string, workerData: unknown, transferList: MessagePort[]): Worker {
    const url = new URL(`./${file}.js`, import.meta.url);
    const worker = new Worker(url, { workerData, transferList, execArgv: [] }); // without the program's own loaders
    worker.unref(); // the process may exit without it
    this.#workers.push(worker);
    return worker;
  }

  async #ask(request: WithoutId<Request>): Promise<Uint8Array> {
    const id = this.#next++;
    const { code, message, value } = await new Promise<Answer>((resolve) => {
      this.#waiting.set(id, resolve);
      this.#port.ref();
      this.#port.postMessage({ ...request, id });
    });
    if (code) throw new RendezvousError(message, STATUS_CODES[code] ?? 'UNKNOWN');
    return value;
  }
}
type WithoutId<T> = T extends unknown ? Omit<T, 'id'> : never;
