// Locks between processes: a folder beside the thing, touched every second while its holder lives.
import { setTimeout as sleep } from 'node:timers/promises';

export interface Lock {
  readonly lost: AbortSignal; // the process was stopped so long that another took the lock
  release(): Promise<void>;
}

/** The lock of `file` (which need not exist), or undefined while another has it. A killed holder's goes stale in 5 s. */
export async function tryLock(file: string): Promise<Lock | undefined> {
  const lost = new AbortController();
  // Imported here only: it takes over Ctrl-C, which would then do nothing while XLA has the main thread.
  const { default: lockfile } = await import('proper-lockfile');
  try {
    const release = await lockfile.lock(file, {
      realpath: false,
      stale: 5000,
      update: 1000,
      onCompromised: () => lost.abort(),
    });
    return { lost: lost.signal, release: () => release().catch(() => undefined) };
  } catch (e) {
    if ((e as NodeJS.ErrnoException).code !== 'ELOCKED') throw e;
    return undefined;
  }
}

/** The same, after as long as the lock of a killed process takes to go stale; undefined: its holder lives. */
export async function waitForLock(file: string): Promise<Lock | undefined> {
  for (let tries = 0; tries < 32; tries++) {
    const lock = await tryLock(file);
    if (lock) return lock;
    await sleep(250);
  }
  return undefined;
}
