// Messages to the user: notices on stderr, so that stdout belongs to the program, and log files requested by the user.
import { appendFileSync } from 'node:fs';
import { BoundedMap } from './bounded.js';
import { env } from './env.js';

/** Keeps the run going if the log cannot be written (closed pipe, full disk): nothing is logged from then on. */
export function keepOnWithoutLog(): void {
  if (!process.stderr.listeners('error').includes(ignore)) process.stderr.on('error', ignore);
}
const ignore = (): void => {};
const write = (text: string): void => {
  keepOnWithoutLog();
  process.stderr.write(text);
};

/** Prints a notice. TSXLA_LOG=quiet silences notices. */
export function notice(message: string): void {
  if (env('TSXLA_LOG') !== 'quiet') say(`tsxla: ${message}\n`);
}

/** Whether TSXLA_LOG=debug requests details about the set-up. */
export const logsDetails = (): boolean => env('TSXLA_LOG') === 'debug';
/** Prints lines for TSXLA_LOG=debug; they are only made then. */
export function detail(lines: () => readonly string[]): void {
  if (logsDetails())
    say(
      lines()
        .map((line) => `tsxla: ${line}\n`)
        .join(''),
    );
}

const UP_AND_CLEAR = '\x1b[1A\r\x1b[K';
let standing = '';
/** Shows a line on a terminal that stays below all messages, such as a progress bar; '' removes it. */
export function stand(line: string): void {
  write(`${standing && UP_AND_CLEAR}${line && `${line}\n`}`);
  standing = line;
}
/** Prints whole lines on stderr, above the standing line. */
export function say(lines: string): void {
  const line = standing;
  if (line) stand('');
  write(lines);
  if (line) stand(line);
}

const MOST_SAID = 1000;
const said = new BoundedMap<string, true>(MOST_SAID);
/** Prints a notice that holds for the whole run once. */
export function noticeOnce(message: string, key = message): void {
  if (!said.has(key)) notice(message);
  said.set(key, true);
}

/** Appends to the file named by an environment variable. If it cannot be written, prints one notice and continues. */
export function appendTo(variable: string, file: string, text: string): void {
  try {
    appendFileSync(file, text);
  } catch (e) {
    noticeOnce(`${variable}=${file} cannot be written: ${(e as Error).message}`, file);
  }
}
