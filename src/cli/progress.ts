// Progress on stderr: a bar on a terminal, otherwise a line now and then.
import { bytes } from '../base/format.js';
import { stand } from '../base/log.js';

export type Progress = (done: number, total: number) => void;

/**
 * `show` formats an amount, as in `fetching the plugin: 12 MiB of 60 MiB`; `rest` gives the text after it. It ends when done
 * reaches total. Without a terminal, a line is written for every tenth; with `steps`, for every change (for steps that take
 * minutes each).
 */
export function progress(
  label: string,
  show: (amount: number) => string = bytes,
  rest = () => '',
  { steps = false } = {},
): Progress {
  return process.stderr.isTTY ? bar(label, show, rest) : lines(label, show, rest, steps);
}

/** A bar for each file that is fetched. */
export function fetchProgress(): (p: { readonly file: string; readonly done: number; readonly total: number }) => void {
  const bars = new Map<string, Progress>();
  return ({ file, done, total }) => {
    if (!bars.has(file)) bars.set(file, progress(`fetching ${file}`));
    bars.get(file)!(done, total);
  };
}

/** Each state is a whole line, so that an error printed after it starts on a new line, without stopping the bar first. */
function bar(label: string, show: (amount: number) => string, rest: () => string): Progress {
  return (done, total) => {
    const text = ` ${show(done)} of ${show(total)}${rest()}`;
    const room = (process.stderr.columns || 120) - 1; // a line that wraps could not be erased
    const size = Math.min(30, room - label.length - text.length - 1);
    const full = Math.round(size * Math.min(1, done / total || 0)); // done may exceed total, and total may be 0
    const drawn = size < 5 ? '' : ` ${'█'.repeat(full)}${'░'.repeat(size - full)}`;
    stand(done < total ? `${label}${drawn}${text}`.slice(0, room) : '');
  };
}

const QUIET_MS = 3000;

function lines(label: string, show: (amount: number) => string, rest: () => string, steps: boolean): Progress {
  let printed: number | string = -1;
  let printedAt = 0;
  return (done, total) => {
    const news = steps ? `${done}${rest()}` : Math.floor((10 * done) / total);
    if (news === printed || (Date.now() - printedAt < QUIET_MS && done < total)) return;
    printed = news;
    printedAt = Date.now();
    process.stderr.write(`${label}: ${show(done)} of ${show(total)}${rest()}\n`);
  };
}
