// The keys, values and waiting gets of a key-value store (key-value.ts). Limits keep a process from filling process 0's memory.
import { STATUS_CODES, type StatusCode } from '../base/errors.js';
import type { Answer } from './key-value.js';

export type Reply = Pick<Answer, 'code' | 'message' | 'value'>;
export const NOTHING = new Uint8Array();
export const ok = (value: Uint8Array = NOTHING): Reply => ({ code: 0, message: '', value });
export const failed = (code: StatusCode, message: string): Reply => ({
  code: STATUS_CODES.indexOf(code),
  message,
  value: NOTHING,
});

export interface Limits {
  /** The total size of keys and values. */
  readonly bytes: number;
  readonly keys: number;
  /** The most gets one process may wait for. */
  readonly waiting: number;
}
const LIMITS: Limits = { bytes: 2 ** 30, keys: 2 ** 20, waiting: 2 ** 16 };

type Waiter = (reply: Reply) => void;

/** `Owner`: the connection that asks. */
export class KeyValueMap<Owner> {
  readonly #values = new Map<string, Uint8Array>();
  readonly #waiting = new Map<string, { readonly owner: Owner; readonly answer: Waiter }[]>();
  readonly #waits = new Map<Owner, number>();
  #bytes = 0;

  constructor(readonly limits: Limits = LIMITS) {}

  put(key: string, value: Uint8Array): Reply {
    const { bytes: most, keys } = this.limits;
    const before = this.#values.get(key);
    const bytes = this.#bytes + value.length - (before ? before.length : -key.length);
    if (bytes > most || (!before && this.#values.size === keys))
      return failed(
        'RESOURCE_EXHAUSTED',
        `${key} (${value.length} bytes) does not fit into the store: it has ${this.#values.size} keys and ${this.#bytes} bytes, and its limits are ${keys} and ${most}`,
      );
    this.#bytes = bytes;
    this.#values.set(key, value);
    const waiting = this.#waiting.get(key) ?? [];
    this.#waiting.delete(key);
    for (const { owner, answer } of waiting) {
      this.#waits.set(owner, this.#waits.get(owner)! - 1);
      answer(ok(value));
    }
    return ok();
  }

  tryGet(key: string): Reply {
    const known = this.#values.get(key);
    return known ? ok(known) : failed('NOT_FOUND', `${key} was never put`);
  }

  /** Answers as soon as there is a value. */
  get(key: string, owner: Owner, answer: Waiter): void {
    const known = this.#values.get(key);
    const waits = this.#waits.get(owner) ?? 0;
    if (known) answer(ok(known));
    else if (waits >= this.limits.waiting)
      answer(failed('RESOURCE_EXHAUSTED', `a process waits for ${waits} keys, which is the limit`));
    else {
      this.#waits.set(owner, waits + 1);
      const waiting = this.#waiting.get(key) ?? [];
      waiting.push({ owner, answer });
      this.#waiting.set(key, waiting);
    }
  }

  /** Drops the waiting gets of an owner. */
  forget(owner: Owner): void {
    if (!this.#waits.delete(owner)) return;
    for (const [key, waiting] of this.#waiting) {
      const others = waiting.filter((one) => one.owner !== owner);
      if (others.length) this.#waiting.set(key, others);
      else this.#waiting.delete(key);
    }
  }
}
