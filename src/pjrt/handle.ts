// Ownership. A handle owns C objects: `dispose()` (or `using`) destroys them; a finalizer does if that is forgotten.
// A client or topology records its objects in a ledger, so that counts are exact and closing it destroys all of them.
import { inspect } from 'node:util';
import { DisposedError } from '../base/errors.js';
import type { Api, FunctionName } from './api.js';
import { Struct } from './struct.js';

/** The functions that destroy objects, each with the args field for the object. */
const DESTROY = {
  PJRT_Client_Destroy: 'client',
  PJRT_TopologyDescription_Destroy: 'topology',
  PJRT_Buffer_Destroy: 'buffer',
  PJRT_Executable_Destroy: 'executable',
  PJRT_LoadedExecutable_Destroy: 'executable',
} as const satisfies Partial<Record<FunctionName, string>>;
type Destroy = keyof typeof DESTROY;

/** An object to destroy. It does not reference its handle, which could not be garbage-collected otherwise. */
interface Entry {
  readonly ledger: Ledger;
  readonly address: bigint;
  readonly destroy: Destroy;
  readonly bytes: number;
  retired: boolean;
}

/** The live objects of one client or topology. */
export class Ledger {
  buffers = 0;
  bytes = 0;
  /** The most live bytes so far. */
  peak = 0;
  executables = 0;
  closed = false;
  /** Called for each buffer that is created (1) or freed (-1). */
  onBuffer: ((n: 1 | -1) => void) | undefined;
  #busy = 0;
  #destroyed = false;
  readonly #live = new Set<Entry>();
  readonly #later = new WeakMap<Promise<unknown>, Entry[]>(); // for each run: the objects it has taken
  readonly #args = new Map<Destroy, Struct<`${Destroy}_Args`>>(); // created once: a step destroys hundreds of buffers

  constructor(
    readonly api: Api,
    readonly owner: { readonly address: bigint; readonly destroy: Destroy },
  ) {}

  add(address: bigint, destroy: Destroy, bytes: number): Entry {
    const entry = { ledger: this, address, destroy, bytes, retired: false };
    this.#live.add(entry);
    this.#count(destroy, 1, bytes);
    return entry;
  }

  destroy(entry: Entry): void {
    if (!this.#live.delete(entry)) return; // the owner was closed before
    this.#retire(entry);
    this.#call(entry.destroy, entry.address);
  }

  /**
   * Destroys an object some time after `done` has settled: code that awaits `done` should start the next run first. It is not
   * counted from now on.
   */
  destroyAfter(done: Promise<unknown>, entry: Entry): void {
    this.#retire(entry);
    const list = this.#later.get(done) ?? [];
    if (list.push(entry) > 1) return;
    this.#later.set(done, list);
    const destroy = () => setTimeout(() => list.forEach((e) => void this.destroy(e)), 1).unref();
    done.then(destroy, destroy);
  }

  /** Removes an object from the counts. */
  #retire(entry: Entry): void {
    if (entry.retired) return;
    entry.retired = true;
    this.#count(entry.destroy, -1, entry.bytes);
  }

  /** Destroys all live objects, then the owner: immediately, or when work on other threads has ended. */
  close(): void {
    this.closed = true;
    if (!this.#busy) this.#destroyAll();
  }

  /** Runs work that uses the owner on another thread; the owner lives until it is done. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#busy++;
    try {
      return await work();
    } finally {
      this.#busy--;
      if (this.closed) this.close();
    }
  }

  #destroyAll(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    this.api.events.drain(this);
    const live = [...this.#live].reverse(); // in reverse order of creation
    // But a program's description goes before the program: the plugin for Apple GPUs frees the one with the other.
    const isDescription = (entry: Entry) => entry.destroy === 'PJRT_Executable_Destroy';
    for (const entry of [...live.filter(isDescription), ...live.filter((e) => !isDescription(e))]) this.destroy(entry);
    this.#call(this.owner.destroy, this.owner.address);
  }

  #call(destroy: Destroy, address: bigint): void {
    let args = this.#args.get(destroy);
    if (!args) this.#args.set(destroy, (args = new Struct(`${destroy}_Args`)));
    this.api.invoke(destroy, args.set(DESTROY[destroy] as never, address as never));
  }

  #count(destroy: Destroy, n: 1 | -1, bytes: number): void {
    this.bytes += n * bytes;
    if (this.bytes > this.peak) this.peak = this.bytes;
    if (destroy === 'PJRT_Buffer_Destroy') {
      this.buffers += n;
      this.onBuffer?.(n);
    } else if (destroy !== 'PJRT_Executable_Destroy') this.executables += n;
  }
}

const owners = new FinalizationRegistry<Ledger>((ledger) => ledger.close());
const handles = new FinalizationRegistry<Entry>((entry) => entry.ledger.destroy(entry));

/** A client or a topology: its objects are destroyed with it. */
export abstract class Owner implements Disposable {
  readonly ledger: Ledger;

  constructor(
    readonly api: Api,
    address: bigint,
    destroy: Destroy,
  ) {
    this.ledger = new Ledger(api, { address, destroy });
    owners.register(this, this.ledger, this);
  }

  /** Its name in errors. */
  abstract describe(): string;

  toString(): string {
    return this.describe();
  }

  [inspect.custom](): string {
    return String(this);
  }

  get address(): bigint {
    if (this.ledger.closed) throw new DisposedError(`${this.describe()} was disposed: it cannot be used any more`);
    return this.ledger.owner.address;
  }

  get disposed(): boolean {
    return this.ledger.closed;
  }

  /** Resolves when the event is ready; it counts as this owner's work until then. */
  wait(event: bigint, of: FunctionName): Promise<void> {
    return this.api.events.wait(event, of, this.ledger);
  }

  dispose(): void {
    owners.unregister(this);
    this.ledger.close();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** A C object that a handle owns, and its size in bytes for the counts. */
export type Owned = readonly [destroy: Destroy, address: bigint, bytes?: number];

/** A buffer or an executable. */
export abstract class Handle implements Disposable {
  readonly #entries: readonly Entry[];
  #gone: (() => Error) | undefined;
  #work: Promise<unknown> | undefined;

  /** Owns one or more C objects. */
  constructor(
    readonly owner: Owner,
    ...objects: readonly Owned[]
  ) {
    this.#entries = objects.map(([destroy, address, bytes]) => owner.ledger.add(address, destroy, bytes ?? 0));
    for (const entry of this.#entries) handles.register(this, entry, this);
  }

  /** Its name in errors: "buffer f32[2, 3]". */
  abstract describe(): string;

  toString(): string {
    return `${this.describe()}${this.disposed ? ' (gone)' : ''}`;
  }

  [inspect.custom](): string {
    return String(this);
  }

  /** The first of its C objects. Throws if it was destroyed. */
  get address(): bigint {
    return this.addressOf(0);
  }

  protected addressOf(index: number): bigint {
    if (this.#gone) throw this.#gone();
    if (!this.owner.disposed) return this.#entries[index]!.address;
    throw new DisposedError(`${this.describe()} was destroyed with its ${this.owner.describe()}, which was disposed`);
  }

  get disposed(): boolean {
    return this.#gone !== undefined || this.owner.disposed;
  }

  dispose(): void {
    this.release(() => new DisposedError(`${this.describe()} was disposed: it cannot be used any more`), this.#work);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Runs work that uses the C object on another thread; the object lives until it is done. */
  protected during<T>(work: () => Promise<T>): Promise<T> {
    const running = this.owner.ledger.during(work);
    this.#work = Promise.allSettled([this.#work, running]);
    return running;
  }

  /** Destroys its objects, now or when `after` has settled. Using the handle afterwards throws the error of `why`. */
  protected release(why: () => Error, after?: Promise<unknown>): void {
    if (this.#gone) return;
    this.#gone = why;
    handles.unregister(this);
    const { ledger } = this.owner;
    for (const entry of this.#entries) {
      if (after) ledger.destroyAfter(after, entry);
      else ledger.destroy(entry);
    }
  }
}
