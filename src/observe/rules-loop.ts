// Rules checked while a loop runs: values read at every step, and steps that end before the next one is started. Counted in
// windows of steps, and judged when the next window begins: costs less than 0.5 us a step.
import { seconds } from '../base/format.js';
import { placeOf, type Source } from '../ir/source.js';
import type { Program, Request } from '../runtime/program.js';
import { who } from './explain.js';
import { ByGroup } from './groups.js';
import { broken, isChecked } from './rules.js';

const WINDOW = 50;
/** Device time in ms: a shorter step ends before the host has started the next one... */
const TINY = 0.2;
/** ...if the host does nothing else. Step time in ms: a loop that takes longer waits for data, or for people. */
const PROMPT = 2;
/** Milliseconds that a finding must have cost before it is reported. */
const WORTH_SAYING = 1000;

/** The steps of one function, since the window began; times in milliseconds. */
class Loop {
  steps = 0;
  began = 0;
  /** Steps that are done, and how long the device worked on them. */
  done = 0;
  busy = 0;
  /** Time spent describing steps. */
  traced = 0;
  /** Steps after which something was read, the time spent waiting for it, and the longest wait. */
  reads = 0;
  waited = 0;
  slowest: { readonly source: Source | undefined; readonly time: number } | undefined;
  /** Whether something was read since the last step. */
  hasRead = false;
  /** The cost of each rule so far, over all windows. */
  readonly lost = { reads: 0, dispatch: 0 };

  begin(now: number): void {
    this.began = now;
    this.steps = this.done = this.busy = this.traced = this.reads = this.waited = 0;
    this.slowest = undefined;
  }
}

const loops = new ByGroup<Loop>();
/** The time when all windows were restarted. */
let cleared = 0;
/** The loop of the last started step: reads are counted for it. */
let latest: Loop | undefined;
/** The time when the device finished its last run. */
let lastEnd = 0;
/** Time spent describing the next step: it is traced right before it runs. */
let traced = 0;
let closures = 0;

/** A program is about to run. */
export function noteRun(program: Program, request: Request): void {
  if (request.cause !== 'compile' || !isChecked()) return;
  if (request.internal) {
    latest = undefined; // reads are the library's own now
    return;
  }
  const now = performance.now();
  let loop = loops.get(request);
  if (!loop) loops.set(request, (loop = new Loop()));
  if (loop.began <= cleared) loop.begin(now);
  if (loop.steps === WINDOW) {
    try {
      judge(loop, now, program, request);
    } finally {
      loop.begin(now);
    }
  }
  loop.traced += traced;
  traced = 0;
  loop.steps++;
  loop.hasRead = false;
  latest = loop;
}

/** A step was described. */
export const noteTrace = (time: number): void => void (traced += time);

/** A run is done. */
export function noteEnd(request: Request, start: number, now: number): void {
  const loop = request.cause === 'compile' && loops.get(request);
  if (loop) {
    loop.done++;
    loop.busy += now - Math.max(start, lastEnd); // until then, the device worked on an earlier run
  }
  lastEnd = now;
}

/** A value was read, after waiting for `time`. */
export function noteRead(source: Source | undefined, time: number): void {
  if (!latest || closures) return;
  if (!latest.hasRead) latest.reads++;
  latest.hasRead = true;
  latest.waited += time;
  if (!(latest.slowest && latest.slowest.time >= time)) latest.slowest = { source, time };
}

/** Runs a step closure, whose reads are not counted: values are ready, and the loop does not wait. */
export async function offLoop<T>(run: () => T): Promise<Awaited<T>> {
  closures++;
  try {
    return await run();
  } finally {
    closures--;
  }
}

/** Restarts every window. */
export const beginWindows = (): void => void (cleared = performance.now());

function judge(loop: Loop, now: number, program: Program, request: Request): void {
  const place = placeOf(request.source);
  const name = who(request, place);
  const time = now - loop.began;
  const changesState = program.donated > 0; // otherwise it is called only for its results
  if (loop.reads * 2 > WINDOW && changesState) {
    loop.lost.reads += loop.waited;
    const finding = {
      rule: 'reads',
      place: placeOf(loop.slowest!.source),
      what: `${name}: values are read after ${loop.reads} of ${WINDOW} steps`,
      cost: `${show(loop.waited / WINDOW)} of waiting a step, ${percent(loop.waited / time)} of the loop's time`,
      fix: 'read every 50th step, or let afterStep(fn, loss) call fn when the value is ready, without blocking the loop',
    } as const;
    broken(finding, name, loop.lost.reads < WORTH_SAYING);
  }
  const step = time / WINDOW;
  const busy = loop.done ? loop.busy / loop.done : step;
  if (busy * 2 > step) return;
  const isTraced = loop.traced * 2 > time;
  if (!isTraced && (busy > TINY || step > PROMPT)) return;
  loop.lost.dispatch += (step - busy) * WINDOW;
  const tracing = isTraced ? `, ${show(loop.traced / WINDOW)} of it to describe the step again` : '';
  const finding = {
    rule: 'dispatch',
    place,
    what: `${name}: the device works ${show(busy)} a step`,
    cost: `a step takes ${show(step)}${tracing}: the device waits for ${percent(1 - busy / step)} of the time`,
    fix: `${isTraced ? 'compile(fn), which describes it once' : 'a larger batch'}, or several steps in one program: tx.scan over batches`,
  } as const;
  broken(finding, name, loop.lost.dispatch < WORTH_SAYING);
}

const show = (ms: number): string => seconds(ms / 1e3);
const percent = (share: number): string => `${Math.min(100, Math.round(share * 100))}%`;
