// Writes runs as a self-contained HTML report.
import fs from 'node:fs/promises';
import path from 'node:path';
import { ArgumentError } from '../base/errors.js';
import { messageOf } from '../base/thrown.js';
import type { Change } from './data.js';
import { boardPage } from './page.js';
import { Runs } from './runs.js';

export interface ReportOptions {
  readonly title?: string;
  /** The largest number of points of a series; longer ones are reduced to extremes of equal parts. Default: 20000. */
  readonly points?: number;
}

/** Writes a report of the runs in these folders. Returns the number of runs. */
export async function writeReport(
  file: string,
  folders: readonly string[],
  options: ReportOptions = {},
): Promise<number> {
  const { title, points = 20_000 } = options;
  const runs = new Runs(folders);
  await runs.find();
  await runs.poll();
  if (!runs.all.length)
    throw new ArgumentError(
      `no run in ${folders.join(', ')}: a run's folder has a metrics.jsonl, history.jsonl or events.jsonl`,
    );
  const changes = runs.all.map(
    ({ id, name, data }): Change => ({ run: id, name, reset: true, patch: data.whole(points) }),
  );
  const { html } = boardPage({ live: false, changes, written: Date.now() }, title ?? 'tsxla report');
  try {
    await fs.mkdir(path.dirname(path.resolve(file)), { recursive: true });
    await fs.writeFile(file, html);
  } catch (e) {
    throw new ArgumentError(`cannot write ${file}: ${messageOf(e)}`, { cause: e });
  }
  return runs.all.length;
}
