// Waiting for the device without blocking anyone.
//
// PJRT_Event_OnReady would be the obvious way, but a JavaScript callback called from one of XLA's threads blocks that
// thread until the event loop turns; with every thread of XLA's pool in that state, a call that XLA runs inline on the
// main thread never returns (docs/decisions.md has the measurement). So no callback is ever given to XLA: the oldest
// pending event is awaited on a worker thread, whatever the number of events, and the others are asked when it is done,
// and every millisecond meanwhile.
import type { Api, FunctionName } from './api.js';
import { Struct } from './struct.js';

interface Waiter {
  readonly event: bigint;
  readonly of: FunctionName;
  readonly resolve: () => void;
  readonly reject: (e: Error) => void;
}

export class EventQueue {
  #pending: Waiter[] = [];
  #awaited: Waiter | undefined; // its event is in use on the worker thread: not to be destroyed before that returns
  #polling = false;
  #idle: (() => void)[] = [];
  readonly #isReady = new Struct('PJRT_Event_IsReady_Args'); // made once: asked often

  constructor(readonly api: Api) {
    // Work still in flight when the process exits would crash in XLA's threads: let it end.
    process.on('exit', () => this.drain());
  }

  /** Resolves when the event is ready; rejects with its error. Takes ownership: the event is destroyed. */
  wait(event: bigint, of: FunctionName): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter = { event, of, resolve, reject };
      if (this.#ready(event)) return this.#settle(waiter);
      this.#pending.push(waiter);
      if (!this.#awaited) this.#awaitOldest();
      else this.#poll();
    });
  }

  /** Resolves when nothing is pending. */
  idle(): Promise<void> {
    return new Promise((resolve) => (this.#pending.length ? this.#idle.push(resolve) : resolve()));
  }

  /** Blocks until all that is pending is done. Only for exit and for closing a client. */
  drain(): void {
    for (const { event } of this.#pending) this.#await(event);
    this.#sweep();
  }

  async #awaitOldest(): Promise<void> {
    while ((this.#awaited = this.#pending[0])) {
      const { event } = this.#awaited;
      // The call on a worker thread also keeps the event loop, and so the process, alive.
      await this.api.callAsync('PJRT_Event_Await', { event }).catch(() => {}); // its error is read by #settle
      this.#awaited = undefined;
      this.#sweep();
    }
  }

  #await(event: bigint): void {
    try {
      this.api.call('PJRT_Event_Await', { event });
    } catch {} // its error is read by #settle
  }

  #poll(): void {
    if (this.#polling || this.#pending.length < 2) return;
    this.#polling = true;
    setTimeout(() => {
      this.#polling = false;
      this.#sweep();
      this.#poll();
    }, 1);
  }

  #sweep(): void {
    const done: Waiter[] = [];
    this.#pending = this.#pending.filter((w) => {
      const waiting = w === this.#awaited || !this.#ready(w.event);
      if (!waiting) done.push(w);
      return waiting;
    });
    for (const waiter of done) this.#settle(waiter);
    if (!this.#pending.length) for (const resolve of this.#idle.splice(0)) resolve();
  }

  #ready(event: bigint): boolean {
    this.#isReady.set('event', event);
    this.api.invoke('PJRT_Event_IsReady', this.#isReady);
    return this.#isReady.get('is_ready');
  }

  #settle({ event, of, resolve, reject }: Waiter): void {
    try {
      this.api.call('PJRT_Event_Error', { event });
      resolve();
    } catch (e) {
      reject(Object.assign(e as Error, { call: of }));
    } finally {
      this.api.call('PJRT_Event_Destroy', { event });
    }
  }
}
