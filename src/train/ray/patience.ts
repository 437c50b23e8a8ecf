// How long to wait before a cluster that fails is asked again.
const LONGEST = 5_000;

/** Milliseconds before the next attempt: twice as long after each failure in a row, 5 s at most. */
export const backoff = (ms: number, failures: number): number => Math.min(ms * 2 ** Math.max(failures - 1, 0), LONGEST);

/** Resolves after so many milliseconds, or as soon as the signal comes: at once if it has come, so no loop may rely on it. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
    signal.addEventListener('abort', done);
  });
