// Writes Chrome's trace-event format, for Perfetto (ui.perfetto.dev) and chrome://tracing.
import { gzipSync } from 'node:zlib';
import type { ReadPlane } from './xplane.js';

/** Planes become processes, lines become threads; times are in microseconds from the first event. */
export function chromeTrace(planes: readonly ReadPlane[]): Uint8Array {
  const starts = planes.flatMap((p) => p.lines.flatMap((l) => l.events.map((e) => e.start)));
  const first = starts.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const events: object[] = [];
  planes.forEach((plane, p) => {
    const pid = p + 1;
    events.push({ ph: 'M', pid, tid: 0, name: 'process_name', args: { name: plane.name } });
    plane.lines.forEach((line, l) => {
      const tid = l + 1;
      events.push({ ph: 'M', pid, tid, name: 'thread_name', args: { name: line.name } });
      events.push({ ph: 'M', pid, tid, name: 'thread_sort_index', args: { sort_index: tid } });
      for (const e of line.events)
        events.push({ ph: 'X', pid, tid, name: e.name, ts: (e.start - first) * 1e3, dur: e.duration, args: e.stats });
    });
  });
  return gzipSync(JSON.stringify({ displayTimeUnit: 'ms', traceEvents: events }));
}
