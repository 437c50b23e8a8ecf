// Locks between processes. The kernel holds the lock (flock), so it is released when its process ends in any way, and a paused
// process keeps it. The file records the holder: for messages, and for network file systems that do not share kernel locks,
// where a holder on another machine counts as alive while it touches the file.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockError } from './errors.js';
import { object, parseJson, text } from './json.js';
import { lockFile } from './native.js';
import { messageOf } from './thrown.js';

export interface Lock {
  /** Aborted once the lock is known to be lost. */
  readonly lost: AbortSignal;
  /** Whether this process still holds it. */
  isHeld(): boolean;
  /** Throws a LockError if another process has taken or removed the lock. Call it before each protected write. */
  check(): void;
  release(): Promise<void>;
}

/** The process that holds a lock. */
export interface Holder {
  readonly host: string;
  readonly pid: number;
  /** Milliseconds since 1970. */
  readonly since: number;
  readonly token: string;
}

const BEAT = 2_000; // milliseconds between touches
const STALE = 60_000; // a holder on another machine that has not touched the file for this long is dead
const OLD_STALE = 5_000; // locks of earlier versions are folders, touched every second
const MOST = 4096; // bytes of a record

/** The lock file for `thing`. */
export const lockFileOf = (thing: string): string => `${thing}.lock`;

/** Takes the lock of `thing` (a path that need not exist); undefined while another process holds it. */
export const tryLock = async (thing: string): Promise<Lock | undefined> => lockNow(thing);

/** Removes the lock file of a killed process. Does nothing while a process holds the lock. */
export function removeStaleLock(thing: string): void {
  if (fs.existsSync(lockFileOf(thing))) void lockNow(thing)?.release();
}

function lockNow(thing: string): Lock | undefined {
  const file = lockFileOf(thing);
  for (;;) {
    const fd = openLock(file);
    if (fd === undefined) return undefined;
    try {
      if (isHeld(fd, lockFile(fd))) return void fs.closeSync(fd);
      checkLock(file, fd);
      // The previous holder may have removed the file between our open and our lock: then it is no longer the lock.
      if (isSame(file, fd)) return hold(thing, fd);
    } catch (e) {
      fs.closeSync(fd);
      throw e;
    }
    fs.closeSync(fd);
  }
}

/** The same, but waits up to 8 s for a process that is about to end. Undefined if it is still alive then. */
export async function waitForLock(thing: string): Promise<Lock | undefined> {
  for (let tries = 0; tries < 32; tries++) {
    const lock = await tryLock(thing);
    if (lock) return lock;
    await sleep(250);
  }
  return undefined;
}

/** The holder of a lock in words: "process 4711, which is paused". */
export function holderOf(thing: string): string {
  const holder = recordIn(lockFileOf(thing));
  if (!holder) return 'another process';
  const { host, pid } = holder;
  if (host !== os.hostname()) return `process ${pid} on ${host}`;
  return isPaused(pid) ? `process ${pid}, which is paused (kill -CONT ${pid} continues it)` : `process ${pid}`;
}

/** The files of held locks, with their tokens: removed when the process ends, only to clean up. */
const held = new Map<string, string>();
process.once('exit', () => {
  for (const [file, token] of held) if (recordIn(file)?.token === token) fs.rmSync(file, { force: true });
});

function hold(thing: string, fd: number): Lock {
  const file = lockFileOf(thing);
  const lost = new AbortController();
  const holder: Holder = { host: os.hostname(), pid: process.pid, since: Date.now(), token: randomUUID() };
  fs.ftruncateSync(fd);
  fs.writeSync(fd, JSON.stringify(holder), 0);
  const isOurs = () => isSame(file, fd) && recordAt(fd)?.token === holder.token; // does not open files: there may be too many open ones
  const beat = setInterval(() => {
    try {
      if (isOurs()) fs.futimesSync(fd, new Date(), new Date());
      else lost.abort();
    } catch {
      // Another user's file, or a temporary disk error: the kernel's lock is not affected.
    }
  }, BEAT).unref();
  held.set(file, holder.token);
  let released = false;
  return {
    lost: lost.signal,
    isHeld: () => !released && isOurs(),
    check() {
      if (!released && isOurs()) return;
      lost.abort();
      const now = recordIn(file);
      const who = now ? `${holderOf(thing)} has taken it over` : 'the lock was removed';
      throw new LockError(`${file} is no longer held by this process (${who}): nothing more is written`);
    },
    async release() {
      if (released) return;
      released = true;
      clearInterval(beat);
      held.delete(file);
      if (isOurs()) fs.rmSync(file, { force: true });
      fs.closeSync(fd);
    },
  };
}

const { O_CREAT, O_NOFOLLOW = 0, O_NONBLOCK = 0, O_RDONLY, O_RDWR } = fs.constants; // Windows lacks two of them

/** Opens a lock file. Undefined while an earlier version of tsxla, whose locks are folders, holds the lock. */
function openLock(file: string): number | undefined {
  for (;;) {
    try {
      return fs.openSync(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o644);
    } catch (e) {
      const { code } = e as NodeJS.ErrnoException;
      if (code === 'ELOOP') throw new LockError(`${file} is a link, not a lock of tsxla: remove it`, { cause: e });
      if (code !== 'EISDIR') throw new LockError(`cannot lock ${file}: ${messageOf(e)}`, { cause: e });
    }
    const touched = fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
    if (Date.now() - touched < OLD_STALE) return undefined;
    fs.rmSync(file, { recursive: true, force: true });
  }
}

/** Throws for a file that is not a lock, such as the user's yarn.lock, so that it is not overwritten. */
function checkLock(file: string, fd: number): void {
  const isLock = fs.fstatSync(fd).isFile() && (/^\0*$/.test(textAt(fd)) || recordAt(fd)); // zeros: after a power cut
  if (!isLock) throw new LockError(`${file} is not a lock of tsxla: move it away, or use another name`);
}

/** Whether a lock is held: on another machine, if its holder touches the file; on this one, only the kernel's lock counts. */
function isHeld(fd: number, kernel: ReturnType<typeof lockFile>): boolean {
  const holder = recordAt(fd);
  if (kernel === 'held' || !holder) return kernel === 'held';
  if (holder.host !== os.hostname()) return Date.now() - fs.fstatSync(fd).mtimeMs < STALE;
  return kernel === 'unsupported' && isAlive(holder.pid);
}

/** Whether a process of this machine exists, even if paused. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (e) {
    return (e as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function isSame(file: string, fd: number): boolean {
  const [named, opened] = [fs.statSync(file, { throwIfNoEntry: false }), fs.fstatSync(fd)];
  return named?.ino === opened.ino && named.dev === opened.dev;
}

function recordIn(file: string): Holder | undefined {
  let fd: number | undefined;
  try {
    fd = fs.openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    return recordAt(fd);
  } catch {
    return undefined; // not there
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

const HOLDER = object({ host: text, token: text });
function recordAt(fd: number): Holder | undefined {
  try {
    const { host, pid, since, token } = parseJson(textAt(fd), 'a lock', HOLDER);
    return { host, token, pid: Number(pid), since: Number(since) };
  } catch {
    return undefined; // being written, or of another program
  }
}

function textAt(fd: number): string {
  const bytes = Buffer.alloc(MOST);
  return bytes.toString('utf8', 0, fs.readSync(fd, bytes, 0, MOST, 0));
}

/** Whether a process of this machine was stopped by a signal (Linux only). */
function isPaused(pid: number): boolean {
  try {
    return /^\d+ \(.*\) [tT] /s.test(fs.readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}
