// A compile that takes long says so: on a terminal in one line that keeps up, elsewhere in a line now and then.
import { notice } from '../base/log.js';

const FIRST = 2; // seconds before anything is said on a terminal
const LINES = [30, 60, 120, 300, 600, 1200, 1800, 3600]; // seconds, for logs

export function showProgress(name: string, size: string): { end(): void } {
  const start = performance.now();
  const elapsed = () => Math.round((performance.now() - start) / 1e3);
  const terminal = process.stderr.isTTY && process.env.TSXLA_LOG !== 'quiet';
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
  return {
    end() {
      clearInterval(timer);
      if (terminal && said) process.stderr.write(`\r${' '.repeat(said)}\r`);
    },
  };
}
