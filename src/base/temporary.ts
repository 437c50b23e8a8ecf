// Temporary folders of a process: readable only by its user, with names that cannot be guessed, and removed by the next process
// if this one is killed.
import { existsSync, lstatSync } from 'node:fs';
import fs from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { type Lock, lockFileOf, tryLock } from './lock.js';

export interface TemporaryFolder {
  readonly path: string;
  remove(): Promise<void>;
}

const KINDS = ['train', 'saving', 'list'] as const;
const NAME = new RegExp(`^tsxla-(${KINDS.join('|')})-\\w{6}$`);
const LIFE = 'in-use'; // the process holds the lock of this name
const DEAD = 3_600_000; // ms: no process takes this long between creating a folder and its lock

/** A new folder in the system's temporary folder. Those of dead processes are removed first. */
export async function temporaryFolder(kind: (typeof KINDS)[number]): Promise<TemporaryFolder> {
  await sweep();
  for (;;) {
    const folder = await fs.mkdtemp(path.join(os.tmpdir(), `tsxla-${kind}-`));
    const lock = await tryLock(path.join(folder, LIFE)).catch((e) => {
      if (existsSync(folder)) throw e; // otherwise another process took it for a dead one's before it was locked
    });
    if (lock) return { path: folder, remove: () => removeHeld(folder, lock) };
  }
}

async function sweep(): Promise<void> {
  for (const name of await fs.readdir(os.tmpdir()).catch(() => []))
    if (NAME.test(name)) await removeDead(path.join(os.tmpdir(), name)).catch(() => undefined); // a leftover only takes space
}

async function removeDead(folder: string): Promise<void> {
  if (!isOurs(folder)) return;
  const life = await fs.stat(lockFileOf(path.join(folder, LIFE))).catch(() => undefined);
  if (!life && Date.now() - (await fs.stat(folder)).mtimeMs < DEAD) return;
  const lock = await tryLock(path.join(folder, LIFE));
  if (lock) await removeHeld(folder, lock);
}

/** Removes a folder. The lock is held until the end; a process that sweeps may still put a new lock file into it: hence retries. */
async function removeHeld(folder: string, lock: Lock): Promise<void> {
  await fs.rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 10 });
  await lock.release();
}

/** Whether it is a folder of this user, and not a link. */
function isOurs(folder: string): boolean {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  return Boolean(found?.isDirectory() && found.uid === (process.getuid?.() ?? found.uid));
}
