// Random choices that depend on a text alone: the same target, seed and case number give the same file on every machine.
import { createHash } from 'node:crypto';

export class Random {
  #state: number;
  constructor(seed: string) {
    this.#state = createHash('sha256').update(seed).digest().readUInt32LE(0);
  }

  /** A whole number from 0 to n - 1 (mulberry32). 0 if n is 0. */
  below(n: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * n);
  }
  /** True once in n times. */
  once(n: number): boolean {
    return this.below(n) === 0;
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
  bytes(n: number): Buffer {
    return Buffer.from(Array.from({ length: n }, () => this.below(256)));
  }
}
