// Messages to the user: one line each on stderr, so that stdout stays the program's own, and files that were asked for.
import { appendFileSync } from 'node:fs';
import { BoundedMap } from './bounded.js';
import { env } from './env.js';

/** A log that cannot be written (its reader has gone, its disk is full) ends no run: from then on nothing is logged. */
export function keepOnWithoutLog(): void {
  if (!process.stderr.listeners('error').includes(ignore)) process.stderr.on('error', ignore);
}
const ignore = (): void => {};
const write = (text: string): void => {
  keepOnWithoutLog();
  process.stderr.write(text);
};

/** TSXLA_LOG=quiet silences them. */
export function notice(message: string): void {
  if (env('TSXLA_LOG') !== 'quiet') say(`tsxla: ${message}\n`);
}

const UP_AND_CLEAR = '\x1b[1A\r\x1b[K';
let standing = '';
/** On a terminal: a line that stays below what is said, as a progress bar does; '' takes it away. */
export function stand(line: string): void {
  write(`${standing && UP_AND_CLEAR}${line && `${line}\n`}`);
  standing = line;
}
/** Whole lines on stderr, above the one that stands. */
export function say(lines: string): void {
  const line = standing;
  if (line) stand('');
  write(lines);
  if (line) stand(line);
}

const MOST_SAID = 1000;
const said = new BoundedMap<string, true>(MOST_SAID);
/** A message that is true for the whole run is said once. */
export function noticeOnce(message: string, key = message): void {
  if (!said.has(key)) notice(message);
  said.set(key, true);
}

/** Appends to the file that an environment variable names. If it cannot be written, that is said once: no run ends for it. */
export function appendTo(variable: string, file: string, text: string): void {
  try {
    appendFileSync(file, text);
  } catch (e) {
    noticeOnce(`${variable}=${file} cannot be written: ${(e as Error).message}`, file);
  }
}
