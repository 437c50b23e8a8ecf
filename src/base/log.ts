// One-line messages to the user, on stderr so that stdout stays the program's own.
import { env } from './env.js';

/** TSXLA_LOG=quiet silences notices; warnings always show. */
export function notice(message: string): void {
  if (env('TSXLA_LOG') !== 'quiet') process.stderr.write(`tsxla: ${message}\n`);
}

export function warn(message: string): void {
  process.stderr.write(`tsxla: warning: ${message}\n`);
}
