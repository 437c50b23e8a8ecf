// Records what a compiled function reads from modules while it is traced: their fields, and the elements of lists and plain
// objects in them. When one of these has changed, the next call traces the function again.
import { isPlain } from '../base/tree.js';

/** Counts changes: fields of modules that were set or deleted outside of any trace. */
let changes = 0;
/** For fields that a compiled function sets itself: the count at their last change from outside. */
const watched = new WeakMap<object, Map<PropertyKey, number>>();
/** A field of a module was set or deleted outside of any trace. */
export function memberChanged(module: object, key: PropertyKey): void {
  changes++;
  const keys = watched.get(module);
  if (keys?.has(key)) keys.set(key, changes);
}

/** A pseudo field: the names of all fields. */
export const FIELDS = Symbol('fields');
const ABSENT = Symbol('absent');
/** The current state of a field: its value, its getter, or ABSENT if the module has no own field (its class may have). */
function fieldOf(module: object, key: PropertyKey): unknown {
  if (key === FIELDS) return Reflect.ownKeys(module).map(String).join();
  const own = Object.getOwnPropertyDescriptor(module, key);
  return own ? (own.get ?? own.value) : ABSENT;
}

/** Of longer lists only the lengths are compared, as this is done at each call. */
const COMPARED_ELEMENTS = 1000;
function elementsOf(x: object): readonly unknown[] | undefined {
  const all = Array.isArray(x)
    ? x
    : x instanceof Map
      ? [...x].flat()
      : x instanceof Set
        ? [...x]
        : isPlain(x)
          ? Object.entries(x).flat()
          : undefined;
  return all && all.length > COMPARED_ELEMENTS ? [all.length] : all;
}
function differing(was: readonly unknown[], now: readonly unknown[]): number {
  if (was === now) return -1;
  for (let i = 0; i < was.length; i++) if (!Object.is(was[i], now[i])) return i;
  return was.length === now.length ? -1 : was.length;
}
const isObject = (x: unknown): x is object => typeof x === 'object' && x !== null;

/** A field that was read: its value or, if the function sets it itself, the count at its last change from outside. */
type Read = { readonly value: unknown } | { readonly change: number } | undefined;

/** The reads of one trace. */
export class MemberReads {
  readonly #modules = new Map<object, Map<PropertyKey, Read>>();
  readonly #elements = new Map<object, readonly unknown[]>();
  /** Modules made inside the trace: nothing else changes them. */
  readonly #own = new Set<object>();
  #checked = changes;
  /** Whether the trace can never match again: a tensor, a module or another object has been replaced. */
  lost = false;

  made(module: object): void {
    this.#own.add(module);
  }
  read(module: object, key: PropertyKey): void {
    const fields = this.#fields(module);
    if (!fields || fields.has(key)) return;
    const value = fieldOf(module, key);
    fields.set(key, { value });
    this.#keep(value);
  }
  /** A field that the function sets before reading is ignored. For one that it reads first, only changes from outside count. */
  written(module: object, key: PropertyKey): void {
    const fields = this.#fields(module);
    fields?.set(key, fields.get(key) && { change: 0 });
  }
  #fields(module: object): Map<PropertyKey, Read> | undefined {
    if (this.#own.has(module)) return undefined;
    const known = this.#modules.get(module);
    if (known) return known;
    const fields = new Map<PropertyKey, Read>();
    this.#modules.set(module, fields);
    return fields;
  }
  #keep(x: unknown): void {
    if (!isObject(x) || this.#elements.has(x)) return;
    const elements = elementsOf(x);
    if (!elements) return;
    this.#elements.set(x, [...elements]);
    for (const e of elements) this.#keep(e);
  }

  /** Called after the trace: removes what the function changed itself, as it does not depend on that. */
  settle(): void {
    this.#own.clear();
    this.#checked = changes;
    for (const [list, was] of this.#elements) if (differing(was, elementsOf(list)!) >= 0) this.#elements.delete(list);
    for (const [module, fields] of this.#modules)
      for (const [key, read] of fields) {
        if (read && 'change' in read) {
          const keys = watched.get(module) ?? new Map<PropertyKey, number>();
          watched.set(module, keys);
          keys.set(key, keys.get(key) ?? 0);
          fields.set(key, { change: keys.get(key)! });
        } else if (!read || !Object.is(fieldOf(module, key), read.value)) fields.delete(key);
      }
  }

  /** Whether nothing has changed. Fields are only compared if some module has changed since the last check. */
  isStill(): boolean {
    if (this.lost) return false;
    for (const [list, was] of this.#elements) {
      const i = differing(was, elementsOf(list)!);
      if (i < 0) continue;
      this.lost = isObject(was[i]);
      return false;
    }
    if (this.#checked === changes) return true;
    for (const [module, fields] of this.#modules)
      for (const [key, read] of fields) {
        const isSame =
          'change' in read!
            ? watched.get(module)!.get(key) === read.change
            : Object.is(fieldOf(module, key), read!.value);
        if (isSame) continue;
        this.lost = 'change' in read! || isObject(read!.value);
        return false;
      }
    this.#checked = changes;
    return true;
  }
}
