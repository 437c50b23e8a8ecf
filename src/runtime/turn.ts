// Turns: work on the device is started one at a time, in the order of requests.

import type { Client } from '../pjrt/index.js';
import { events } from './events.js';
import { hasGrown, watchMemory } from './memory.js';

let last: Promise<unknown> | undefined;

/** Runs work when all earlier requests have been started; immediately if there are none. */
export function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const asked = performance.now();
  const start = () => {
    events.span('wait', asked, performance.now());
    return work();
  };
  const mine = last ? last.then(start, start) : start();
  const end = () => {
    if (last === turn) last = undefined;
  };
  const turn = mine.then(end, end); // runs before callers that await it, so that their next call need not wait
  last = turn;
  return mine;
}

/** Whether nothing waits for its turn. */
export const isIdle = (): boolean => !last;
/** Identifies the last request, until it has been started. */
export const lastTurn = (): unknown => last;

/** Runs in flight: a few keep the device busy, more would only hold memory. */
const running = new Set<Promise<void>>();
const IN_FLIGHT = 4;

let failed: { readonly error: unknown } | undefined;
export function started(done: Promise<void>): void {
  const settled = done.then(
    () => void running.delete(settled),
    (error: unknown) => {
      running.delete(settled);
      failed ??= { error };
    },
  );
  running.add(settled);
}
/** Throws, once, the error of the first run that failed since the last check. */
export function checkRuns(): void {
  const was = failed;
  failed = undefined;
  if (was) throw was.error;
}
let reported: { readonly error: unknown } | undefined;
let listens = false;
/** Reports an error of work that is not awaited: a step closure, a step of a plain loop. */
export function reportLater(error: unknown): void {
  reported ??= { error };
  if (!listens) process.on('beforeExit', throwReported);
  listens = true;
}
/** Withdraws a report, since the error is awaited after all. */
export function withdrawReport(error: unknown): void {
  if (reported?.error === error) reported = undefined;
}
/** Throws, once, the first reported error: at the next step, read or sync, at the latest when the process ends. */
export function throwReported(): void {
  const was = reported;
  reported = undefined;
  if (was) throw was.error;
}

/** Whether a program can be started now: nothing waits for its turn, and there is room. */
export const isFree = (client: Client): boolean => !last && running.size < IN_FLIGHT && !hasGrown(client);
/** Waits while too many runs are in flight, and collects garbage if memory has grown. */
export async function roomToRun(client: Client): Promise<void> {
  await watchMemory(client);
  while (running.size >= IN_FLIGHT) await Promise.race(running);
}
/** Waits until all runs are done. */
export async function allDone(): Promise<void> {
  while (running.size) await Promise.race(running);
}
