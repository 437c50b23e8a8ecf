// The signals that ask a process to stop.

/** Ctrl-C, and the signal that schedulers send before they kill. */
export const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;
/** The same, plus closing of the terminal: for programs that must stop others first (workers, a job on a cluster). */
export const END_SIGNALS = [...STOP_SIGNALS, 'SIGHUP'] as const;

/** Calls `listener` for each of these signals, or once for each kind; returns a function that removes the listeners. */
export function onSignals(
  signals: readonly NodeJS.Signals[],
  listener: (signal: NodeJS.Signals) => void,
  { once = false }: { readonly once?: boolean } = {},
): () => void {
  for (const signal of signals) process[once ? 'once' : 'on'](signal, listener);
  return () => {
    for (const signal of signals) process.off(signal, listener);
  };
}
