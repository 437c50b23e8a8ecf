// An LRU cache of data about models, by the model object and a key, never by its name or structure. Entries of a
// garbage-collected model are removed with it.
import type { Module } from '../nn/module.js';
import { log } from './log.js';

interface Row<F> {
  readonly model: WeakRef<Module>;
  readonly name: string;
  readonly key: string;
  readonly facts: F;
}
interface Entry<V, F> {
  readonly value: V;
  readonly row: Row<F>;
}

export interface CacheStats {
  readonly hits: number;
  readonly misses: number;
  /** 0 to 1; 0 before the first lookup. */
  readonly hitRate: number;
  readonly evictions: number;
  /** The number of entries removed because their model was garbage-collected. */
  readonly collected: number;
  readonly size: number;
  readonly maxSize: number;
}

/** `V` may reference the model: it lives as long as the model. `F` must not: it outlives the model. */
export class ModelCache<V, F = undefined> {
  #entries = new WeakMap<Module, Map<string, Entry<V, F>>>();
  /** In the order of last use. */
  readonly #rows = new Set<Row<F>>();
  readonly #garbage = new FinalizationRegistry<Row<F>>((row) => {
    if (!this.#rows.delete(row)) return; // evicted before
    this.#collected++;
    this.onGone(row.facts);
  });
  #hits = 0;
  #misses = 0;
  #evictions = 0;
  #collected = 0;

  constructor(
    /** What it caches, for the log. */
    readonly what: string,
    readonly maxSize: () => number,
    readonly onGone: (facts: F) => void = () => {},
  ) {}

  /** The entry, if `isGood` still accepts it. */
  get(model: Module, key: string, isGood: (value: V) => boolean): V | undefined {
    const entry = this.#entries.get(model)?.get(key);
    if (!entry || !isGood(entry.value)) {
      this.#misses++;
      return undefined;
    }
    this.#hits++;
    this.#rows.delete(entry.row); // and added back at the end
    this.#rows.add(entry.row);
    return entry.value;
  }

  set(model: Module, key: string, value: V, facts: F): void {
    this.delete(model, key);
    const row: Row<F> = { model: new WeakRef(model), name: model.constructor.name, key, facts };
    const entries = this.#entries.get(model) ?? new Map<string, Entry<V, F>>();
    this.#entries.set(model, entries.set(key, { value, row }));
    this.#rows.add(row);
    this.#garbage.register(model, row, row);
    for (const oldest of this.#rows) {
      if (this.#rows.size <= this.maxSize()) break;
      this.#remove(oldest);
      this.#evictions++;
      log.info(`${this.what} evicted from the cache`, {
        model: oldest.name,
        inputs: oldest.key,
        kept: this.#rows.size,
      });
    }
  }

  /** Removes an entry, if it exists. */
  delete(model: Module, key: string): void {
    const entry = this.#entries.get(model)?.get(key);
    if (entry) this.#remove(entry.row);
  }
  #remove(row: Row<F>): void {
    if (!this.#rows.delete(row)) return;
    const model = row.model.deref();
    if (model) this.#entries.get(model)?.delete(row.key);
    this.#garbage.unregister(row);
    this.onGone(row.facts);
  }

  clear(): void {
    for (const row of [...this.#rows]) this.#remove(row);
  }

  *facts(): Generator<F> {
    for (const { facts } of this.#rows) yield facts;
  }

  stats(): CacheStats {
    const [hits, misses] = [this.#hits, this.#misses];
    return {
      hits,
      misses,
      hitRate: hits / (hits + misses || 1),
      evictions: this.#evictions,
      collected: this.#collected,
      size: this.#rows.size,
      maxSize: this.maxSize(),
    };
  }
}
