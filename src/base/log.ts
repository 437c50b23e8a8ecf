// One-line messages to the user, on stderr so that stdout stays the program's own.
import { env } from './env.js';

/** TSXLA_LOG=quiet silences them. */
export function notice(message: string): void {
  if (env('TSXLA_LOG') !== 'quiet') process.stderr.write(`tsxla: ${message}\n`);
}
