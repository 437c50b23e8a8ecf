// The streamed text of one sequence, up to a stop string.
import type { TextStream } from './pieces.js';

/** Yields text, but holds back what may be the beginning of a stop string. */
export class StopText {
  #held = '';
  stopped = false;
  constructor(
    private readonly stops: readonly string[],
    private readonly stream: TextStream | undefined,
  ) {}
  push(token: number): string {
    return this.#take(this.stream?.push(token) ?? '');
  }
  end(): string {
    return this.#take(this.stream?.end() ?? '') + (this.stopped ? '' : this.#held);
  }
  #take(more: string): string {
    const text = this.#held + more;
    const ends = this.stops.map((s) => text.indexOf(s)).filter((i) => i >= 0);
    this.stopped = ends.length > 0;
    const sure = this.stopped ? Math.min(...ends) : text.length - this.#startOfStop(text);
    this.#held = text.slice(sure);
    return text.slice(0, sure);
  }
  /** The number of characters at the end that may be the beginning of a stop string. */
  #startOfStop(text: string): number {
    const longest = Math.max(0, ...this.stops.map((s) => s.length - 1));
    for (let n = Math.min(longest, text.length); n > 0; n--)
      if (this.stops.some((s) => s.startsWith(text.slice(-n)))) return n;
    return 0;
  }
}
