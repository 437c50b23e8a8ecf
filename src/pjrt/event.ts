// EventQueue: waits for device events without blocking the event loop or XLA.
//
// PJRT_Event_OnReady would be the obvious way, but a JavaScript callback called from one of XLA's threads blocks that
// thread until the event loop turns, and with it the device (docs/decisions.md has the measurement). So no callback is
// given to XLA: all events are polled for a moment; then a worker thread awaits the oldest pending event, and the others
// are polled every millisecond and when it is done.
import { setTimeout as sleep } from 'node:timers/promises';
import { PjrtError } from '../base/errors.js';
import type { Api, FunctionName } from './api.js';
import { Struct } from './struct.js';

/** How long to poll first, in ms. Passing an event to a thread and back takes about a quarter of it. */
const SOON = 0.2;

interface Waiter {
  readonly event: bigint;
  readonly of: FunctionName;
  readonly owner: object;
  readonly resolve: () => void;
  readonly reject: (e: unknown) => void;
  promise?: Promise<void>;
}

export class EventQueue {
  #pending: Waiter[] = [];
  #awaited: Waiter | undefined; // its event is in use on the worker thread: not to be destroyed before that returns
  #polling = false;
  #asking = false;
  #askUntil = 0;
  // Created once, since it is used often.
  readonly #isReady = new Struct('PJRT_Event_IsReady_Args');
  readonly #error = new Struct('PJRT_Event_Error_Args');
  readonly #destroy = new Struct('PJRT_Event_Destroy_Args');

  constructor(readonly api: Api) {}

  /** Resolves when the event is ready; rejects with its error. Takes ownership: the event is destroyed. */
  wait(event: bigint, of: FunctionName, owner: object): Promise<void> {
    let waiter: Waiter;
    const promise = new Promise<void>((resolve, reject) => {
      waiter = { event, of, owner, resolve, reject };
    });
    if (this.#ready(event)) this.#settle(waiter!);
    else {
      waiter!.promise = promise;
      this.#pending.push(waiter!);
      this.#askUntil = performance.now() + SOON;
      if (!this.#asking) this.#askSoon();
    }
    return promise;
  }

  /** Polls in every turn of the event loop for a moment: small programs finish before a thread could report it. */
  #askSoon(): void {
    this.#asking = true;
    setImmediate(() => {
      this.#sweep();
      if (this.#pending.length && performance.now() < this.#askUntil) return this.#askSoon();
      this.#asking = false;
      if (!this.#pending.length) return;
      if (!this.#awaited) this.#awaitOldest();
      this.#poll();
    });
  }

  /** Resolves when all events an owner waits for now are done, with or without an error. */
  async settled(owner: object): Promise<void> {
    await Promise.allSettled(this.#pending.filter((w) => w.owner === owner).map((w) => w.promise));
  }

  countOf(owner: object): number {
    return this.#pending.reduce((n, w) => n + (w.owner === owner ? 1 : 0), 0);
  }

  /** Blocks until these are done; those of all owners, if none is given. Only for exit and for closing a client. */
  drain(owner?: object): void {
    for (const waiter of this.#pending) {
      if (owner && waiter.owner !== owner) continue;
      try {
        this.api.call('PJRT_Event_Await', { event: waiter.event });
      } catch {} // its error is read by #settle
    }
    this.#sweep();
  }

  async #awaitOldest(): Promise<void> {
    while ((this.#awaited = this.#pending[0])) {
      const { event } = this.#awaited;
      // The call on a worker thread also keeps the event loop, and so the process, alive.
      await this.api.callAsync('PJRT_Event_Await', { event }, 'short').catch(async (e) => {
        if (!(e instanceof PjrtError)) await sleep(1); // no thread was free; the event's own error is read by #settle
      });
      this.#awaited = undefined;
      this.#sweep();
    }
  }

  #poll(): void {
    if (this.#polling || !this.#pending.length) return;
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
  }

  #ready(event: bigint): boolean {
    this.api.invoke('PJRT_Event_IsReady', this.#isReady.set('event', event));
    return this.#isReady.get('is_ready');
  }

  #settle({ event, of, resolve, reject }: Waiter): void {
    try {
      this.api.invoke('PJRT_Event_Error', this.#error.set('event', event));
      resolve();
    } catch (e) {
      reject(Object.assign(e as Error, { call: of }));
    } finally {
      this.api.invoke('PJRT_Event_Destroy', this.#destroy.set('event', event));
    }
  }
}
