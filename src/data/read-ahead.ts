// Reading ahead: prepares a bounded number of a source's values in order, before they are requested.
import { setImmediate } from 'node:timers/promises';

export interface ReadAheadOptions<Job, Ready, Batch> {
  /** The number of values being prepared while the consumer uses one. */
  readonly depth: number;
  /** The number of these, from the next one on, that are also placed (sent to the device). */
  readonly near: number;
  readonly prepare: (job: Job) => Promise<Ready>;
  readonly place: (ready: Ready) => Promise<Batch>;
  /** Frees a value that was placed but will not be requested. */
  readonly drop: (batch: Batch) => void;
}

/** One on its way; undefined behind the last. */
interface Ahead<Ready, Batch> {
  readonly ready: Promise<Ready | undefined>;
  placed?: Promise<Batch | undefined>;
}

export class ReadAhead<Job, Ready, Batch> {
  readonly #queue: Ahead<Ready, Batch>[] = [];
  #pulling: Promise<IteratorResult<Job> | undefined> = Promise.resolve(undefined);
  #stopped = false;

  constructor(
    readonly source: AsyncIterator<Job>,
    readonly options: ReadAheadOptions<Job, Ready, Batch>,
  ) {}

  /** The next, once it is placed; undefined if there is none. */
  next(): Promise<Batch | undefined> {
    const { depth, near } = this.options;
    if (!this.#queue.length) this.#pull(async () => {});
    this.#place(1);
    const { placed } = this.#queue.shift()!;
    // In a later turn of the event loop, so that a step that the consumer now calls is started before.
    while (this.#queue.length < depth) this.#pull(setImmediate);
    this.#place(near);
    return placed!;
  }

  #pull(turn: () => Promise<unknown>): void {
    const { source, options } = this;
    const pulled = this.#pulling.then(turn).then(() => (this.#stopped ? undefined : source.next()));
    const ready = pulled.then((next) => (!next || next.done ? undefined : options.prepare(next.value)));
    ready.catch(() => {}); // told when it is asked for
    this.#pulling = pulled;
    this.#queue.push({ ready });
  }

  #place(count: number): void {
    const { place } = this.options;
    for (const ahead of this.#queue.slice(0, count)) {
      ahead.placed ??= ahead.ready.then((ready) => (ready === undefined || this.#stopped ? undefined : place(ready)));
      ahead.placed.catch(() => {});
    }
  }

  /** No more is read, and what was is dropped: now, or when it is there. */
  stop(): void {
    this.#stopped = true;
    const drop = (batch: Batch | undefined) => batch !== undefined && this.options.drop(batch);
    for (const { placed } of this.#queue) placed?.then(drop).catch(() => {});
    this.#pulling.then(() => this.source.return?.()).catch(() => {}); // when it has read what it is at
  }
}
