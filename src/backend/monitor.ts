// MemoryMonitor: samples of memory statistics at intervals, as an async iterator and as a chart.

import { bytes, columns, seconds } from '../base/format.js';
import { stand } from '../base/log.js';
import { log } from './log.js';
import type { MemoryStatistics } from './memory.js';

export interface MonitorOptions {
  /** Seconds between samples. */
  readonly interval?: number;
  /** Seconds to run. */
  readonly duration?: number;
}

/** `time`: in the units of Date.now(). */
export interface MemorySample extends MemoryStatistics {
  readonly time: number;
}

const BARS = ' ▁▂▃▄▅▆▇█';
const ROWS = 6;

export class MemoryMonitor implements AsyncIterable<MemorySample> {
  readonly samples: MemorySample[] = [];
  /** The time of the first sample: the plugin may have to be started before it. */
  #begin: number | undefined;
  readonly #draws = process.stderr.isTTY;
  #timer: NodeJS.Timeout | undefined;
  /** The number of the last sample's interval. */
  #number = 0;
  #done = false;
  #failure: unknown;
  /** Called with each sample, and at the end. */
  #waiting: (() => void)[] = [];

  constructor(
    private readonly measure: () => Promise<MemoryStatistics>,
    private readonly interval: number,
    private readonly duration: number,
  ) {
    void this.#sample();
  }

  async #sample(): Promise<void> {
    try {
      const stats = await this.measure();
      if (this.#done) return;
      this.#begin ??= performance.now();
      this.samples.push({ time: Date.now(), ...stats });
      if (this.#draws) stand(this.#line());
      this.#wake();
      this.#schedule();
    } catch (e) {
      this.#failure = e; // rejects the next sample
      log.error('memory monitoring failed', { error: e });
      this.stop();
    }
  }
  /** Schedules the next sample at a multiple of the interval, so that samples do not drift; missed ones are skipped. */
  #schedule(): void {
    const elapsed = (performance.now() - this.#begin!) / 1e3;
    this.#number = Math.max(this.#number + 1, Math.ceil(elapsed / this.interval)); // a timer may be early
    const next = this.#number * this.interval;
    const isLast = next >= this.duration;
    const then = isLast ? () => this.stop() : () => void this.#sample();
    this.#timer = setTimeout(then, ((isLast ? this.duration : next) - elapsed) * 1e3);
    if (!this.#waiting.length) this.#timer.unref(); // keep the process alive only while someone waits for a sample
  }
  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
  /** Waits for the next sample, or the end. */
  #next(): Promise<void> {
    this.#timer?.ref();
    return new Promise((wake) => this.#waiting.push(wake));
  }

  /** Stops sampling. Samples so far are kept. */
  stop(): void {
    if (this.#done) return;
    this.#done = true;
    clearTimeout(this.#timer);
    if (this.#draws) stand('');
    this.#wake();
  }

  /** All samples, from the first. Breaking out of the loop stops the monitor. */
  async *[Symbol.asyncIterator](): AsyncGenerator<MemorySample, void, void> {
    try {
      for (let i = 0; ; i++) {
        while (i >= this.samples.length && !this.#done) await this.#next();
        if (i >= this.samples.length) break;
        yield this.samples[i]!;
      }
      if (this.#failure) throw this.#failure;
    } finally {
      this.stop();
    }
  }

  /** Waits until the monitor has ended; returns all samples. */
  async all(): Promise<readonly MemorySample[]> {
    while (!this.#done) await this.#next();
    if (this.#failure) throw this.#failure;
    return this.samples;
  }

  /** A chart of allocated memory over time, as wide as the terminal. */
  chart(width = process.stdout.columns ?? 80): string {
    const first = this.samples[0];
    if (!first) return 'no samples yet';
    const { peak, limit } = this.#extremes();
    const labels = Array.from({ length: ROWS }, (_, row) =>
      row === 0 ? bytes(peak.allocatedMemory) : row === ROWS - 1 ? '0 B' : '',
    );
    const margin = Math.max(...labels.map((label) => label.length)) + 2;
    const levels = this.#levels(Math.max(10, width - margin - 2), ROWS);
    const rows = labels.map((label, row) => {
      const below = ROWS - 1 - row;
      return `${label.padStart(margin - 1)} │${levels.map((level) => bar(level - below)).join('')}`.trimEnd();
    });
    const span = (this.samples.at(-1)!.time - first.time) / 1e3;
    const part = `${((100 * peak.allocatedMemory) / limit).toPrecision(2)}%`;
    const at = seconds((peak.time - first.time) / 1e3);
    return [
      ...rows,
      `${' '.repeat(margin)}└${'─'.repeat(levels.length)} ${seconds(span)}`,
      columns([
        ['peak', bytes(peak.allocatedMemory), `after ${at}, ${part} of the limit`],
        ['limit', bytes(limit), `memoryFraction ${first.memoryFraction}`],
      ]),
    ].join('\n');
  }
  #line(): string {
    const { peak, limit } = this.#extremes();
    const text = ` ${bytes(this.samples.at(-1)!.allocatedMemory)}, peak ${bytes(peak.allocatedMemory)}, limit ${bytes(limit)}`;
    const room = (process.stderr.columns ?? 80) - text.length - 'memory '.length - 1;
    return `memory ${this.#levels(Math.max(1, room), 1).map(bar).join('')}${text}`;
  }
  #extremes(): { readonly peak: MemorySample; readonly limit: number } {
    const peak = this.samples.reduce((a, b) => (b.allocatedMemory > a.allocatedMemory ? b : a));
    return { peak, limit: this.samples.at(-1)!.limit };
  }
  /** The samples in `width` columns (the largest of each), scaled from 0 to `height` for the peak. */
  #levels(width: number, height: number): number[] {
    const all = this.samples.map((s) => s.allocatedMemory);
    const at = (column: number) => Math.floor((column * all.length) / width);
    const highest = this.#extremes().peak.allocatedMemory || 1;
    return Array.from({ length: width }, (_, i) => {
      const part = all.slice(at(i), Math.max(at(i) + 1, at(i + 1)));
      return (Math.max(...part) / highest) * height;
    });
  }
}

/** The character for a level within one line. */
const bar = (level: number): string => BARS[Math.round(Math.min(1, Math.max(0, level)) * (BARS.length - 1))]!;
