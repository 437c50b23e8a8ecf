// Interning: equal things are one object, as long as anything refers to it. The latest are kept in any case; older ones can be
// collected, so that a table does not grow with every number and shape that a long run has seen.

let ids = 1; // 0 stands for none
/** For an interned object: no other ever has it. */
export const newId = (): number => ids++;

export class Interner<T extends object> {
  #latest = new Map<string, T>();
  readonly #older = new Map<string, WeakRef<T>>();
  readonly #collected = new FinalizationRegistry<string>((key) => {
    if (this.#older.get(key)?.deref() === undefined) this.#older.delete(key);
  });

  constructor(readonly most = 10_000) {}

  /** What is known under a key, or what `make` makes. */
  get(key: string, make: () => T): T {
    const found = this.#latest.get(key);
    if (found) return found;
    const value = this.#older.get(key)?.deref() ?? make();
    if (this.#latest.size >= this.most) this.#age();
    this.#latest.set(key, value);
    return value;
  }

  /** How many are known, collected ones among them until finalizers have run. */
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
