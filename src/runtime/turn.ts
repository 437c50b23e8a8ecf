// One thing at a time: what runs on the device is started in the order in which it was asked for.

import type { Client } from '../pjrt/index.js';
import { events } from './events.js';
import { hasGrown, watchMemory } from './memory.js';

let last: Promise<unknown> | undefined;

/** Runs work when all that was asked for before has been started; at once if there is none. */
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
  const turn = mine.then(end, end); // before callers that await it: the next call then need not wait
  last = turn;
  return mine;
}

/** Runs that are not done yet: a few keep the device busy, more would only hold memory. */
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
/** Throws, once, what stopped the first run that failed since the last time. */
export function checkRuns(): void {
  const was = failed;
  failed = undefined;
  if (was) throw was.error;
}
/** Whether a program can be started now: nothing waits for its turn, and there is room. */
export const isFree = (client: Client): boolean => !last && running.size < IN_FLIGHT && !hasGrown(client);
/** Waits while too many runs are under way, and sees to memory. */
export async function roomToRun(client: Client): Promise<void> {
  await watchMemory(client);
  while (running.size >= IN_FLIGHT) await Promise.race(running);
}
/** Waits until all are done. */
export async function allDone(): Promise<void> {
  while (running.size) await Promise.race(running);
}
