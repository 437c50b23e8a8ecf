// Records the host's work as spans: from runtime events, the user's annotations, and the garbage collector. Listens only while a
// trace is running.
import { type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import type { Source } from '../ir/source.js';
import { addSink, type SpanKind } from '../runtime/events.js';
import type { Program, Request } from '../runtime/program.js';
import type { Lane, Span, StatValue } from './xplane.js';

/** The lines of a profile, in order, by their content. tsxla profile finds them by these names. */
export const LANES = {
  step: 'Steps',
  annotation: 'Annotations',
  trace: 'Trace',
  compile: 'Compile',
  transfer: 'Transfer',
  execute: 'Execute',
  read: 'Read',
  loader: 'Loader wait',
  host: 'Runtime',
  gc: 'Garbage collection',
} as const;
export type LaneName = keyof typeof LANES;

const KINDS: Readonly<Record<SpanKind, readonly [LaneName, string]>> = {
  trace: ['trace', 'trace'],
  wait: ['host', 'wait for earlier steps'],
  gatherInputs: ['host', 'gather inputs'],
  placeResults: ['host', 'place results'],
  upload: ['transfer', 'upload'],
  read: ['read', 'read'],
  loadFromDisk: ['compile', 'load from disk'],
  loaderWait: ['loader', 'wait for a batch'],
};
/** node:perf_hooks' constants.NODE_PERFORMANCE_GC_*. */
const GC: Readonly<Record<number, string>> = {
  1: 'scavenge',
  2: 'minor mark-sweep',
  4: 'mark-sweep',
  8: 'incremental marking',
  16: 'weak callbacks',
};
/** Shorter waits are ignored: every call takes a turn. */
const SHORTEST_WAIT = 0.01; // ms
/** The most spans kept, in case a trace is never stopped. */
const MOST_SPANS = 2_000_000;

interface Recorded {
  readonly lane: LaneName;
  readonly name: string;
  /** In the units of performance.now(). */
  readonly start: number;
  readonly end: number;
  readonly stats?: Stats;
  /** Converted to text when the trace has ended, since that is the slowest part. */
  readonly source?: Source | undefined;
}
type Stats = Readonly<Record<string, StatValue>> | undefined;

const nameOf = ({ name = 'a program' }: Request): string => name;

export class Recorder {
  readonly #spans: Recorded[] = [];
  readonly #compiling = new Map<Program, number>();
  readonly #sink: Disposable;
  readonly #collections: PerformanceObserver;

  constructor() {
    this.#sink = addSink({
      span: (kind, start, end, bytes, request) => {
        if (kind === 'wait' && end - start < SHORTEST_WAIT) return;
        const [lane, name] = KINDS[kind];
        this.add(lane, name, start, end, bytes === undefined ? undefined : { bytes }, request?.source);
      },
      compilerStarted: (program) => void this.#compiling.set(program, performance.now()),
      compiled: (program, _, request) => this.#compileEnded(program, request),
      compileFailed: (program) => void this.#compiling.delete(program),
      ran: (program, request, start, end) =>
        this.add('execute', nameOf(request), start, end, { program: program.hash }, request.source),
    });
    this.#collections = new PerformanceObserver((list) => this.#addCollections(list.getEntries()));
    this.#collections.observe({ entryTypes: ['gc'] });
  }

  add(lane: LaneName, name: string, start: number, end: number, stats?: Stats, source?: Source): void {
    if (this.#spans.length < MOST_SPANS) this.#spans.push({ lane, name, start, end, stats, source });
  }
  #compileEnded(program: Program, request: Request): void {
    const start = this.#compiling.get(program);
    if (!this.#compiling.delete(program)) return; // loaded from disk
    const stats = { program: program.hash, operations: program.key.nodeCount };
    this.add('compile', nameOf(request), start!, performance.now(), stats, request.source);
  }
  #addCollections(entries: readonly PerformanceEntry[]): void {
    for (const { startTime, duration, detail } of entries as (PerformanceEntry & { detail?: { kind?: number } })[])
      this.add('gc', GC[detail?.kind ?? 0] ?? 'collection', startTime, startTime + duration);
  }

  /** Stops listening, and returns the spans, by lines. */
  finish(): Lane[] {
    this.#sink[Symbol.dispose]();
    this.#addCollections(this.#collections.takeRecords());
    this.#collections.disconnect();
    const { timeOrigin } = performance;
    return (Object.keys(LANES) as LaneName[]).flatMap((lane) => {
      const spans = this.#spans
        .filter((s) => s.lane === lane)
        .map(({ name, start, end, stats, source }) => ({
          ...{ name, start: timeOrigin + start, end: timeOrigin + end },
          stats: source?.frames.length ? { ...stats, source: String(source) } : stats,
        }));
      return sideBySide(spans).map((part, i) => ({ name: i ? `${LANES[lane]} ${i + 1}` : LANES[lane], spans: part }));
    });
  }
}

/** Distributes spans over as few lines as possible: spans of a line are nested or disjoint, as viewers require. */
export function sideBySide(spans: readonly Span[]): Span[][] {
  const lines: { readonly spans: Span[]; open: number[] }[] = [];
  for (const span of [...spans].sort((a, b) => a.start - b.start || b.end - a.end)) {
    const place = lines.find((line) => {
      while (line.open.length && line.open.at(-1)! <= span.start) line.open.pop();
      return !line.open.length || line.open.at(-1)! >= span.end;
    });
    const line = place ?? { spans: [], open: [] };
    if (!place) lines.push(line);
    line.spans.push(span);
    line.open.push(span.end);
  }
  return lines.map((line) => line.spans);
}
