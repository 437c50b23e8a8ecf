// The worker's end of the protocol between a training loop and the engine that runs it.
import net from 'node:net';
import os from 'node:os';
import { DataError } from '../base/errors.js';
import { type FromWorker, floats, framesOf, type Metrics, PROTOCOL, send, type ToWorker } from './protocol.js';

/** The calls that a training loop makes to the engine that runs it. */
export interface Link {
  /** With a checkpoint, resolves once it is stored. */
  report(metrics: Metrics, checkpoint: string | null): Promise<void>;
  /** The sum or the mean over all workers. */
  reduce(op: 'mean' | 'sum', data: Float32Array, what: string): Promise<Float32Array>;
  barrier(): Promise<void>;
  /** A file with the next rows of a dataset that Ray reads, or null at the end of the epoch. `begin` starts a new epoch. */
  rows?(dataset: string, begin: boolean): Promise<string | null>;
}

/** The link of a worker process, over files 3 and 4. */
export class WorkerLink implements Link {
  readonly #to: net.Socket;
  readonly #from: net.Socket;
  /** Ids of reports are even, those of collectives odd. An answer has the id of its request. */
  #reports = 0;
  #collectives = -1;
  /** Ids of requests for rows are negative. */
  #asked = 0;
  readonly #waiting = new Map<number, (data: Uint8Array) => void>();
  /** Whether this process is killed when the engine ends. */
  #stops = true;
  #interrupted = false;

  constructor() {
    this.#to = new net.Socket({ fd: 3, readable: false, writable: true });
    this.#from = new net.Socket({ fd: 4, readable: true, writable: false });
    this.#to.on('error', () => this.#orphaned()); // the engine has closed its end
    this.#from.on('error', () => this.#orphaned());
    this.#to.unref();
    this.#from.unref();
    // A terminal's Ctrl-C reaches all processes at once: the engine decides when workers stop.
    process.on('SIGINT', () => void (this.#interrupted = true));
    void this.#listen();
  }
  async #listen(): Promise<void> {
    for await (const { frame, data } of framesOf<ToWorker>(this.#from)) {
      if (frame.type === 'stop') this.#stop();
      else {
        this.#waiting.get(frame.id)?.(data);
        this.#waiting.delete(frame.id);
        if (!this.#waiting.size) this.#from.unref();
      }
    }
    this.#orphaned();
  }
  #orphaned(): void {
    if (this.#stops) process.kill(process.pid, 'SIGKILL'); // process.exit would wait for a running compile
  }
  /** Raises SIGTERM: listeners may save and leave; without one the process ends here. */
  #stop(): void {
    const hasSeenSigint = this.#interrupted && process.listenerCount('SIGINT') > 1;
    if (!hasSeenSigint) process.kill(process.pid, 'SIGTERM');
  }

  hello(tsxla: string): void {
    send(this.#to, { type: 'hello', tsxla, protocol: PROTOCOL });
  }
  async report(metrics: Metrics, checkpoint: string | null): Promise<void> {
    const id = (this.#reports += 2);
    send(this.#to, { type: 'report', id, metrics, checkpoint });
    if (checkpoint !== null) await this.#answer(id);
  }
  async reduce(op: 'mean' | 'sum', data: Float32Array, what: string): Promise<Float32Array> {
    const id = (this.#collectives += 2);
    const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    send(this.#to, { type: 'reduce', id, op, what, bytes: raw.length }, raw);
    return floats(await this.#answer(id));
  }
  async barrier(): Promise<void> {
    const id = (this.#collectives += 2);
    send(this.#to, { type: 'barrier', id });
    await this.#answer(id);
  }
  async rows(dataset: string, begin: boolean): Promise<string | null> {
    const id = --this.#asked;
    send(this.#to, { type: 'rows', id, dataset, begin, folder: os.tmpdir() });
    const { file = null, error } = JSON.parse(Buffer.from(await this.#answer(id)).toString());
    if (error) throw new DataError(`Ray cannot read the dataset '${dataset}': ${error}`);
    return file;
  }
  #answer(id: number): Promise<Uint8Array> {
    this.#from.ref();
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  /** Sends the last frame and ends the process. */
  async end(last: FromWorker, status: number): Promise<never> {
    const printed = [process.stdout, process.stderr].map((s) => new Promise<void>((done) => s.write('', () => done())));
    await Promise.all(printed); // process.exit does not wait for output
    this.#stops = false;
    this.#to.ref();
    send(this.#to, last);
    await new Promise<void>((resolve) => this.#to.end(resolve));
    process.exit(status);
  }
}
