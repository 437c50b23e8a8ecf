// `tsxla board`: shows training runs as a live page in the browser, or writes them as a report.
import { writeFileSync } from 'node:fs';
import { Command } from 'commander';
import { ArgumentError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { onSignals, STOP_SIGNALS } from '../base/signals.js';
import { messageOf } from '../base/thrown.js';
import { whole } from './numbers.js';

export function boardCommand(): Command {
  return new Command('board')
    .argument('[folders...]', 'run folders, or folders that contain them (default: runs)')
    .option('--port <n>', 'port of the page on 127.0.0.1 (default: 6070, or a free port if it is taken)', whole)
    .option('--export <file>', 'write the runs as one self-contained HTML file, and exit')
    .option('--title <text>', 'title of the HTML file')
    .option('--svg <file>', 'draw curves of the runs as one SVG picture, and exit')
    .option(
      '--metrics <names>',
      'metrics to draw with --svg. Default: those of loss,perplexity,lr,gradNorm that the runs have',
    )
    .action(run);
}

interface Flags {
  readonly port?: number;
  readonly export?: string;
  readonly title?: string;
  readonly svg?: string;
  readonly metrics?: string;
}

async function run(given: readonly string[], { port, export: file, title, svg, metrics }: Flags): Promise<void> {
  const { chartRuns, serveBoard, writeReport } = await import('../board/index.js');
  const folders = given.length ? given : ['runs'];
  if (metrics !== undefined && svg === undefined)
    throw new ArgumentError('--metrics has no effect without --svg: leave it out');
  if (svg !== undefined) {
    const other = Object.entries({ port, export: file, title }).find(([, value]) => value !== undefined)?.[0];
    if (other) throw new ArgumentError(`--svg and --${other} cannot be used together: leave one out`);
    const picture = await chartRuns(folders, metrics === undefined ? {} : { metrics: metrics.split(',') });
    try {
      writeFileSync(svg, picture.svg);
    } catch (e) {
      throw new ArgumentError(`cannot write ${svg}: ${messageOf(e)}`, { cause: e });
    }
    process.stdout.write(`${svg}: ${picture.summary}\n`);
    return;
  }
  if (file !== undefined) {
    if (port !== undefined) throw new ArgumentError('--export and --port: a file has no port; leave one out');
    const count = await writeReport(file, folders, { ...(title !== undefined && { title }) });
    process.stdout.write(`${file}: ${plural(count, 'run')}\n`);
    return;
  }
  if (title !== undefined) throw new ArgumentError('--title has no effect without --export: leave it out');
  const board = await serveBoard(folders, { ...(port !== undefined && { port }) });
  process.stdout.write(`${board.url}\n`);
  process.stderr.write('Press Ctrl-C to stop\n');
  await new Promise<void>((resolve) => onSignals(STOP_SIGNALS, () => resolve()));
  await board.close();
}
