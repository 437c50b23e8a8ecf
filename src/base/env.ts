// Environment variables, and locations on this machine that they set.
import os from 'node:os';
import path from 'node:path';
import { checkSeconds } from './check.js';
import { ArgumentError } from './errors.js';

/** An environment variable; empty counts as unset. */
export const env = (name: string): string | undefined => process.env[name] || undefined;

/** A boolean variable: true if set, and not 0, false, no or off. */
export const envFlag = (name: string): boolean => !/^(0|false|no|off)?$/i.test(env(name) ?? '');

/** A variable with a whole number. */
export function envInteger(
  name: string,
  unset: number,
  least = Number.NEGATIVE_INFINITY,
  most = Number.MAX_SAFE_INTEGER,
): number {
  const text = env(name);
  const n = text === undefined ? unset : Number(text);
  if (Number.isSafeInteger(n) && n >= least && n <= most) return n;
  const low = Number.isFinite(least) ? `, ${least} or more` : '';
  const range = most < Number.MAX_SAFE_INTEGER ? `${low}, at most ${most}` : low;
  throw new ArgumentError(`${name}=${text} is not understood: give a whole number${range}`);
}

/** A variable with a number of seconds for a timer; 0 means no timer. */
export function envSeconds(name: string): number | undefined {
  const text = env(name);
  return text === undefined || text === '0' ? undefined : checkSeconds(`${name}=${text}`, Number(text));
}

/** Whether this process prints for all processes of a task on this machine: PJRT_LOCAL_PROCESS_RANK is 0 or unset. */
export const isFirstProcess = (): boolean => envInteger('PJRT_LOCAL_PROCESS_RANK', 0) === 0;

/** The folder for everything tsxla keeps between runs: TSXLA_CACHE_DIR, else the user's cache folder. */
export function cacheDir(): string {
  const dir = env('TSXLA_CACHE_DIR') ?? path.join(env('XDG_CACHE_HOME') ?? path.join(os.homedir(), '.cache'), 'tsxla');
  return path.resolve(dir);
}

/** What runs this program: 'Node 24.21.0', 'Bun 1.4.4', 'Deno 2.9.6'. */
export function runtime(): string {
  const { bun, deno, node } = process.versions as Record<string, string | undefined>;
  return bun ? `Bun ${bun}` : deno ? `Deno ${deno}` : `Node ${node}`;
}

/** This platform in npm's terms: 'linux-x64', 'darwin-arm64'. */
export const platform = (): string => `${process.platform}-${process.arch}`;
