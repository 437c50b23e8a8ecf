// What the user is told: one-line messages on stderr, so that stdout stays the program's own, and files that were asked for.
import { appendFileSync } from 'node:fs';
import { env } from './env.js';

/** TSXLA_LOG=quiet silences them. */
export function notice(message: string): void {
  if (env('TSXLA_LOG') !== 'quiet') process.stderr.write(`tsxla: ${message}\n`);
}

const said = new Set<string>();
/** A message that is true for the whole run is said once. */
export function noticeOnce(message: string, key = message): void {
  if (!said.has(key)) notice(message);
  said.add(key);
}

/** Appends to the file that an environment variable names. If it cannot be written, that is said once: no run ends for it. */
export function appendTo(variable: string, file: string, text: string): void {
  try {
    appendFileSync(file, text);
  } catch (e) {
    noticeOnce(`${variable}=${file} cannot be written: ${(e as Error).message}`, file);
  }
}
