// Delays between retries of requests to a cluster.
const LONGEST = 5_000;

/** Milliseconds before the next attempt: twice as long after each failure in a row, 5 s at most. */
export const backoff = (ms: number, failures: number): number => Math.min(ms * 2 ** Math.max(failures - 1, 0), LONGEST);

/** Resolves after a time in milliseconds, or when the signal is aborted: at once if it already is, so a loop must check it. */
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
