// Progress of long compiles: on a terminal as one line that is rewritten, otherwise as a line now and then.
import { bytes } from '../base/format.js';
import { notice } from '../base/log.js';
import type { Program, Request } from '../runtime/program.js';

const FIRST = 2; // seconds before anything is shown on a terminal
const LINES = [30, 60, 120, 300, 600, 1200, 1800, 3600]; // seconds, for logs

/** Functions that end the progress of each program being compiled. */
const ends = new WeakMap<Program, () => void>();

export function beginProgress(program: Program, text: string, { name = 'a program' }: Request): void {
  const start = performance.now();
  const elapsed = () => Math.round((performance.now() - start) / 1e3);
  const terminal = process.stderr.isTTY && process.env.TSXLA_LOG !== 'quiet';
  const size = bytes(text.length);
  let said = 0;
  const timer = setInterval(() => {
    const text = `compiling ${name} (${size} of StableHLO): ${elapsed()} s`;
    if (terminal && elapsed() >= FIRST) {
      process.stderr.write(`\r${text}`);
      said = text.length;
    } else if (!terminal && elapsed() >= LINES[said]!) {
      notice(text);
      said++;
    }
  }, 500);
  timer.unref();
  ends.set(program, () => {
    clearInterval(timer);
    if (terminal && said) process.stderr.write(`\r${' '.repeat(said)}\r`);
  });
}

export function endProgress(program: Program): void {
  ends.get(program)?.();
  ends.delete(program);
}
