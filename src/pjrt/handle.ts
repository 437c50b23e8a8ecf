// Ownership. A handle owns one C object: `dispose()` (or `using`) destroys it; if it is forgotten, a finalizer does.
// What a client or a topology made is written in its ledger, so that counts are exact and closing it leaves nothing.
import { DisposedError } from '../base/errors.js';
import type { Api, FunctionName } from './api.js';
import { Struct } from './struct.js';

/** Which function destroys an object, and the field of its args that takes it. */
const DESTROY = {
  PJRT_Client_Destroy: 'client',
  PJRT_TopologyDescription_Destroy: 'topology',
  PJRT_Buffer_Destroy: 'buffer',
  PJRT_Executable_Destroy: 'executable',
  PJRT_LoadedExecutable_Destroy: 'executable',
} as const satisfies Partial<Record<FunctionName, string>>;
type Destroy = keyof typeof DESTROY;

/** What one client or topology has alive. It holds no handles, so that it never keeps one from being collected. */
export class Ledger {
  buffers = 0;
  bytes = 0;
  executables = 0;
  closed = false;
  #busy = 0;
  #destroyed = false;
  readonly #live = new Map<bigint, { destroy: Destroy; bytes: number; retired?: true }>();
  readonly #args = new Map<Destroy, Struct<`${Destroy}_Args`>>(); // made once: a step destroys hundreds of buffers

  constructor(
    readonly api: Api,
    readonly owner: { readonly address: bigint; readonly destroy: Destroy },
  ) {}

  add(address: bigint, destroy: Destroy, bytes: number): void {
    this.#live.set(address, { destroy, bytes });
    this.#count(destroy, 1, bytes);
  }

  destroy(address: bigint): void {
    const entry = this.#live.get(address);
    if (!entry) return; // the owner was closed before
    this.retire(address);
    this.#live.delete(address);
    this.#call(entry.destroy, address);
  }

  /** It counts no longer, but is destroyed later. */
  retire(address: bigint): void {
    const entry = this.#live.get(address);
    if (!entry || entry.retired) return;
    entry.retired = true;
    this.#count(entry.destroy, -1, -entry.bytes);
  }

  /** Destroys all that is alive, then the owner: at once, or when the work in hand on other threads has ended. */
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
    this.api.events.drain();
    for (const address of [...this.#live.keys()].reverse()) this.destroy(address); // what was made last goes first
    this.#call(this.owner.destroy, this.owner.address);
  }

  #call(destroy: Destroy, address: bigint): void {
    let args = this.#args.get(destroy);
    if (!args) this.#args.set(destroy, (args = new Struct(`${destroy}_Args`)));
    this.api.invoke(destroy, args.set(DESTROY[destroy] as never, address as never));
  }

  #count(destroy: Destroy, n: 1 | -1, bytes: number): void {
    this.bytes += bytes;
    if (destroy === 'PJRT_Buffer_Destroy') this.buffers += n;
    else if (destroy !== 'PJRT_Executable_Destroy') this.executables += n;
  }
}

const owners = new FinalizationRegistry<Ledger>((ledger) => ledger.close());
const handles = new FinalizationRegistry<{ ledger: Ledger; address: bigint }>(({ ledger, address }) =>
  ledger.destroy(address),
);

/** A client or a topology: what it made lives no longer than it does. */
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

  /** What an error calls it. */
  abstract describe(): string;

  get address(): bigint {
    if (this.ledger.closed) throw new DisposedError(`${this.describe()} was disposed: it cannot be used any more`);
    return this.ledger.owner.address;
  }

  get disposed(): boolean {
    return this.ledger.closed;
  }

  dispose(): void {
    owners.unregister(this);
    this.ledger.close();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** A buffer or an executable. */
export abstract class Handle implements Disposable {
  readonly #address: bigint;
  #gone: (() => Error) | undefined;

  constructor(
    readonly owner: Owner,
    address: bigint,
    destroy: Destroy,
    bytes = 0,
  ) {
    this.#address = address;
    owner.ledger.add(address, destroy, bytes);
    handles.register(this, { ledger: owner.ledger, address }, this);
  }

  /** What an error calls it: "buffer f32[2, 3]". */
  abstract describe(): string;

  /** The C object. Throws if it is no more. */
  get address(): bigint {
    if (this.#gone) throw this.#gone();
    if (this.owner.disposed)
      throw new DisposedError(`${this.describe()} went with its ${this.owner.describe()}, which was disposed`);
    return this.#address;
  }

  get disposed(): boolean {
    return this.#gone !== undefined || this.owner.disposed;
  }

  dispose(): void {
    this.release(() => new DisposedError(`${this.describe()} was disposed: it cannot be used any more`));
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Destroys the C object, now or when `after` has settled. Using the handle afterwards throws what `why` makes. */
  protected release(why: () => Error, after?: Promise<unknown>): void {
    if (this.#gone) return;
    this.#gone = why;
    handles.unregister(this);
    const { ledger } = this.owner;
    const destroy = () => ledger.destroy(this.#address);
    if (after) {
      ledger.retire(this.#address);
      after.then(destroy, destroy);
    } else destroy();
  }
}
