// Interning: equal values are one object as long as it is referenced. The latest ones are always kept; older ones can be
// garbage-collected, so that a table does not grow with every number and shape of a long run.

let ids = 1; // 0 means none
/** A unique id for an interned object. */
export const newId = (): number => ids++;

export class Interner<T extends object> {
  #latest = new Map<string, T>();
  readonly #older = new Map<string, WeakRef<T>>();
  readonly #collected = new FinalizationRegistry<string>((key) => {
    if (this.#older.get(key)?.deref() === undefined) this.#older.delete(key);
  });

  constructor(readonly most = 10_000) {}

  /** The object for a key, made by `make` if there is none. */
  get(key: string, make: () => T): T {
    const found = this.#latest.get(key);
    if (found) return found;
    const value = this.#older.get(key)?.deref() ?? make();
    if (this.#latest.size >= this.most) this.#age();
    this.#latest.set(key, value);
    return value;
  }

  /** The number of objects, including collected ones until their finalizers have run. */
  get size(): number {
    return new Set([...this.#latest.keys(), ...this.#older.keys()]).size;
  }

  #age(): void {
    for (const [key, value] of this.#latest) {
      if (this.#older.get(key)?.deref() === value) continue;
      this.#older.set(key, new WeakRef(value));
      this.#collected.register(value, key);
    }
    this.#latest = new Map();
  }
}
