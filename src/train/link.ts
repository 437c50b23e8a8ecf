// The worker's end of the protocol: what a training loop says to the engine, and hears from it.
import net from 'node:net';
import { type FromWorker, floats, framesOf, type Metrics, PROTOCOL, send, type ToWorker } from './protocol.js';

/** What a training loop needs of the engine that runs it. */
export interface Link {
  /** With a checkpoint it resolves when that is kept. */
  report(metrics: Metrics, checkpoint: string | null): Promise<void>;
  /** The sum or the mean over all workers. */
  reduce(op: 'mean' | 'sum', data: Float32Array, what: string): Promise<Float32Array>;
  barrier(): Promise<void>;
}

/** A worker's end. */
export class WorkerLink implements Link {
  readonly #to: net.Socket;
  readonly #from: net.Socket;
  /** Reports have even numbers and what all do together odd ones: an answer names one of them. */
  #reports = 0;
  #together = -1;
  readonly #waiting = new Map<number, (data: Uint8Array) => void>();
  /** Ends this process where the engine has ended, whatever it is doing. */
  #stops = true;
  #interrupted = false;

  constructor() {
    this.#to = new net.Socket({ fd: 3, readable: false, writable: true });
    this.#from = new net.Socket({ fd: 4, readable: true, writable: false });
    this.#to.on('error', () => this.#orphaned()); // the engine has closed its end
    this.#from.on('error', () => this.#orphaned());
    this.#to.unref();
    this.#from.unref();
    // A terminal's Ctrl-C reaches all processes at once: the engine decides what becomes of it.
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
    if (this.#stops) process.kill(process.pid, 'SIGKILL'); // exit would wait for a compile
  }
  /** As SIGTERM: listeners save and leave; without one the process ends here. */
  #stop(): void {
    const isToldAlready = this.#interrupted && process.listenerCount('SIGINT') > 1;
    if (!isToldAlready) process.kill(process.pid, 'SIGTERM');
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
    const id = (this.#together += 2);
    const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    send(this.#to, { type: 'reduce', id, op, what, bytes: raw.length }, raw);
    return floats(await this.#answer(id));
  }
  async barrier(): Promise<void> {
    const id = (this.#together += 2);
    send(this.#to, { type: 'barrier', id });
    await this.#answer(id);
  }
  #answer(id: number): Promise<Uint8Array> {
    this.#from.ref();
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  /** The last word, and the end of the process. */
  async end(last: FromWorker, status: number): Promise<never> {
    const printed = [process.stdout, process.stderr].map((s) => new Promise<void>((done) => s.write('', () => done())));
    await Promise.all(printed); // an exit would not wait for it
    this.#stops = false;
    this.#to.ref();
    send(this.#to, last);
    await new Promise<void>((resolve) => this.#to.end(resolve));
    process.exit(status);
  }
}
