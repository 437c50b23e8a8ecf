// Where things are on this machine, as the environment says.
import os from 'node:os';
import path from 'node:path';

/** An environment variable, where empty counts as unset. */
export const env = (name: string): string | undefined => process.env[name] || undefined;

/** The folder for everything tsxla keeps between runs: TSXLA_CACHE_DIR, else the user's cache folder. */
export function cacheDir(): string {
  const dir = env('TSXLA_CACHE_DIR') ?? path.join(env('XDG_CACHE_HOME') ?? path.join(os.homedir(), '.cache'), 'tsxla');
  return path.resolve(dir);
}

/** This platform as npm names it: 'linux-x64', 'darwin-arm64'. */
export const platform = (): string => `${process.platform}-${process.arch}`;
