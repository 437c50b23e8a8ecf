// One thing at a time: what runs on the device is started in the order in which it was asked for.

let last: Promise<unknown> | undefined;

/** Runs work when all that was asked for before has been started; at once if there is none. */
export function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const mine = last ? last.then(work, work) : work();
  const turn = mine.then(
    () => {},
    () => {},
  );
  last = turn;
  turn.then(() => {
    if (last === turn) last = undefined;
  });
  return mine;
}

/** Runs that are not done yet: a few keep the device busy, more would only hold memory. */
const IN_FLIGHT = 4;
const running: Promise<void>[] = [];

export function started(done: Promise<void>): void {
  const settled = done.then(
    () => void running.shift(),
    () => void running.shift(),
  );
  running.push(settled);
}
/** Waits while too many runs are under way. */
export async function roomToRun(): Promise<void> {
  while (running.length >= IN_FLIGHT) await running[0];
}
/** Waits until all are done. */
export async function allDone(): Promise<void> {
  while (running.length) await running[0];
}
