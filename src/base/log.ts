// One-line messages to the user, on stderr so that stdout stays the program's own.
import { env } from './env.js';

/** TSXLA_LOG=quiet silences them. */
export function notice(message: string): void {
  if (env('TSXLA_LOG') !== 'quiet') process.stderr.write(`tsxla: ${message}\n`);
}

const said = new Set<string>();
/** A message that is true for the whole run is said once. */
export function noticeOnce(message: string): void {
  if (!said.has(message)) notice(message);
  said.add(message);
}
