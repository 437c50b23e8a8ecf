// The folder of a run on this machine: its checkpoints, each written aside and renamed once complete, and its history of reports.
//     runs/first/checkpoint-000003/...              the loop's own files
//                checkpoint-000003/train.json       its number, metrics, and the size of every file
//                history.jsonl                      a line a report
//                events.jsonl                       the run's log (watch.ts)
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import fsp from 'node:fs/promises';
import path from 'node:path';
import * as v from 'valibot';
import { ArgumentError, CheckpointError } from '../base/errors.js';
import { isInside } from '../base/folder.js';
import { plural } from '../base/format.js';
import { jsonOf, object, parseJson, readJsonSync, record, whole } from '../base/json.js';
import { holderOf, type Lock, lockFileOf, tryLock } from '../base/lock.js';
import { notice, noticeOnce } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { WRITER } from '../io/checkpoint-files.js';
import { flushFile, flushFolder, openOutput, writeFlushed } from '../io/file.js';
import type { CheckpointConfig } from './config.js';
import type { ReportCurves } from './curves.js';
import type { PlainResult } from './engine.js';
import { decodeMetrics, type JsonMetrics, type Metrics } from './protocol.js';

interface Kept {
  readonly number: number;
  readonly path: string;
  readonly metrics: Metrics;
  /** Number of lines in the history up to this checkpoint, including its own report. */
  readonly reports: number;
}
interface Manifest extends Omit<Kept, 'path' | 'metrics'> {
  readonly metrics: JsonMetrics;
  /** Size in bytes of each file, by name. */
  readonly files: Readonly<Record<string, number>>;
}

const MetricsSchema = record(v.union([v.number(), v.string()], 'a number'));
const ManifestSchema = object({
  number: whole(1),
  metrics: MetricsSchema,
  reports: whole(),
  files: record(whole()),
});

const FOLDER = /^checkpoint-(\d{6,})$/;
const UNFINISHED = '.unfinished-';
const MANIFEST = 'train.json';
const HISTORY = 'history.jsonl';
/** The folder where workers write checkpoints before they report them. */
export const SAVING = '.saving';

export class RunFolder {
  readonly history: Metrics[] = [];
  #kept: Kept[] = [];
  /** The highest checkpoint number that was ever used. */
  #last = 0;
  /** How many lines of the history are in its file. */
  #written = 0;
  /** Resolves when the last checkpoint is stored. */
  #keeping: Promise<unknown> = Promise.resolve();

  /** Opens the run. Unfinished files are removed; incomplete checkpoints are ignored with a notice. */
  constructor(
    readonly path: string,
    readonly keep: CheckpointConfig,
    readonly lock: Lock,
    readonly curves?: ReportCurves,
  ) {
    const names = fs.existsSync(path) ? fs.readdirSync(path) : [];
    if (names.some((name) => /^checkpoint_\d/.test(name)))
      throw new ArgumentError(
        `${path} has checkpoints of a run on a Ray cluster, which have another format: give the address of the cluster, or use another name`,
      );
    for (const name of names)
      if (name.startsWith(UNFINISHED) || name === SAVING) fs.rmSync(this.#at(name), { recursive: true, force: true });
    const numberOf = (name: string) => Number(FOLDER.exec(name)?.[1]);
    for (const name of names.filter(numberOf).sort((a, b) => numberOf(a) - numberOf(b))) {
      const kept = readKept(this.#at(name));
      this.#last = numberOf(name);
      if (typeof kept === 'string') notice(`${this.#at(name)} ${kept}; this checkpoint is ignored`);
      else this.#kept.push(kept);
    }
    this.#readHistory();
  }
  readonly #at = (name: string): string => path.join(this.path, name);

  #readHistory(): void {
    const file = this.#at(HISTORY);
    const lines = linesIn(file);
    try {
      for (const metrics of metricsOf(lines.slice(0, this.last?.reports ?? 0), file)) this.history.push(metrics);
    } catch (e) {
      notice(`${messageOf(e)}; the history is cut before this line`);
    }
    this.#written = this.history.length;
    if (this.#written === lines.length) return;
    const aside = this.#at(`${UNFINISHED}${randomUUID()}`);
    fs.writeFileSync(aside, linesOf(this.history), { flush: true });
    fs.renameSync(aside, file);
  }

  /** Adds a report of worker 0. Returns the number of reports. */
  add(metrics: Metrics): number {
    this.curves?.add(metrics, this.history.length);
    return this.history.push(metrics);
  }

  get last(): Kept | undefined {
    return this.#kept.at(-1);
  }

  /** Stores a checkpoint whose files are in these folders; those in `.saving` are moved, others copied. One at a time. */
  persist(parts: readonly string[], metrics: Metrics, reports: number): Promise<void> {
    const kept = this.#keeping.then(() => this.#persist(parts, metrics, reports));
    this.#keeping = kept.catch(() => {}); // a rejection surfaces in report()
    return kept;
  }
  async #persist(parts: readonly string[], metrics: Metrics, reports: number): Promise<void> {
    const number = this.#last + 1;
    const name = `checkpoint-${String(number).padStart(6, '0')}`;
    const aside = this.#at(`${UNFINISHED}${randomUUID()}`);
    try {
      const around = parts.find((part) => isInside(part, this.path));
      if (around) throw new Error(`${around} contains the run's own folder: use a folder outside of it`);
      this.lock.check();
      await fsp.mkdir(aside, { recursive: true });
      for (const part of new Set(parts)) await bring(part, aside, path.dirname(part) === this.#at(SAVING));
      const manifest: Manifest = { number, metrics, reports, files: await sizesIn(aside) };
      await writeFlushed(path.join(aside, MANIFEST), 'wx', jsonOf(manifest));
      await this.#flushHistory(reports);
      await flushFolder(aside);
      await fsp.rename(aside, this.#at(name));
      await flushFolder(this.path);
    } catch (e) {
      await fsp.rm(aside, { recursive: true, force: true }).catch(() => {});
      const kept = this.last ? `the last good checkpoint is ${this.last.path}` : 'the run has no checkpoint yet';
      throw new CheckpointError(`cannot store a checkpoint in ${this.path}: ${messageOf(e)}; ${kept}`, { cause: e });
    }
    this.#last = number;
    this.#kept.push({ number, path: this.#at(name), metrics, reports });
    await this.#prune();
  }

  /** Writes the first `reports` reports to the disk. */
  async #flushHistory(reports = this.history.length): Promise<void> {
    const file = this.#at(HISTORY);
    const text = linesOf(this.history.slice(fs.existsSync(file) ? this.#written : 0, reports));
    if (text) await writeFlushed(file, 'a', text);
    this.#written = Math.max(this.#written, reports);
  }

  /** Ends the run after all reported checkpoints are stored. Errors of storing surface in persist(). */
  async close(): Promise<void> {
    await this.#keeping;
    await fsp.rm(this.#at(SAVING), { recursive: true, force: true });
    if (this.last) await this.#flushHistory().catch((e) => notice(`${this.#at(HISTORY)}: ${messageOf(e)}`));
  }

  async #prune(): Promise<void> {
    const { numToKeep = Number.POSITIVE_INFINITY, checkpointScoreAttribute: metric, checkpointScoreOrder } = this.keep;
    const { metrics = {} } = this.last ?? {};
    if (metric !== undefined && metrics[metric] === undefined)
      noticeOnce(
        `checkpointScoreAttribute is '${metric}', but a checkpoint was reported without it (with ${Object.keys(metrics).join(', ') || 'no metrics'}): it counts as the worst`,
      );
    const sign = checkpointScoreOrder === 'min' ? -1 : 1;
    const score = (c: Kept) => {
      const n = metric === undefined ? c.number : sign * (c.metrics[metric] ?? Number.NaN);
      return Number.isNaN(n) ? Number.NEGATIVE_INFINITY : n;
    };
    const best = [...this.#kept].sort((a, b) => score(b) - score(a) || b.number - a.number).slice(0, numToKeep);
    const spared = new Set([...best, this.last]);
    for (const { path: folder } of this.#kept.filter((c) => !spared.has(c))) {
      const aside = this.#at(`${UNFINISHED}${randomUUID()}`); // no reader sees a half-removed checkpoint
      try {
        await fsp.rename(folder, aside);
        await fsp.rm(aside, { recursive: true, force: true });
      } catch (e) {
        if (fs.existsSync(folder)) notice(`${folder} cannot be removed: ${messageOf(e)}`); // else another process removed it
      }
    }
    this.#kept = this.#kept.filter((c) => spared.has(c));
  }

  /** The current state of the run as a result. */
  plain(): PlainResult {
    const there = this.#kept.filter((c) => fs.existsSync(c.path)); // some may have been removed by hand
    const checkpoints = there.map(({ path, metrics }) => ({ path, metrics }));
    return { history: [...this.history], checkpoints, path: this.path };
  }
}

/** The stored reports of a run. Reports after its last checkpoint were removed when the run was opened. */
export function historyOf(run: string): Metrics[] {
  const file = path.join(run, HISTORY);
  return [...metricsOf(linesIn(file), file)];
}
const linesIn = (file: string): string[] =>
  fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
function* metricsOf(lines: readonly string[], file: string): Generator<Metrics> {
  for (const [i, line] of lines.entries())
    yield decodeMetrics(parseJson(line, `${file}: line ${i + 1}`, MetricsSchema));
}
const linesOf = (history: readonly Metrics[]): string => history.map((m) => `${jsonOf(m)}\n`).join('');

/** Locks a run's folder: two programs would remove each other's unfinished files. A run that stores nothing leaves no folder. */
export async function lockRun(folder: string): Promise<Lock & AsyncDisposable> {
  const run = path.join(folder, 'run');
  const opened = await openOutput(folder, 'storagePath').catch((e: unknown) => {
    throw new CheckpointError(messageOf(e), { cause: e });
  });
  const lock = await tryLock(run);
  if (!lock)
    throw new ArgumentError(
      `fit: another run is using ${folder} (${holderOf(run)}): wait for it to end, or use another name`,
    );
  const dispose = async () => {
    await lock.release();
    await opened[Symbol.asyncDispose]();
  };
  return { ...lock, [Symbol.asyncDispose]: dispose };
}

/** Reads a checkpoint, or returns what is wrong with it. */
function readKept(folder: string): Kept | string {
  try {
    const manifest = readJsonSync(path.join(folder, MANIFEST), ManifestSchema);
    if (!manifest) return `is not a complete checkpoint: it has no ${MANIFEST}`;
    const { files, metrics, number, reports } = manifest;
    for (const [name, size] of Object.entries(files)) {
      const found = fs.statSync(path.join(folder, name), { throwIfNoEntry: false });
      if (!found) return `lacks ${name}`;
      if (found.size !== size) return `is damaged: ${name} has ${plural(found.size, 'byte')}, expected ${size}`;
    }
    return { number, reports, metrics: decodeMetrics(metrics), path: folder };
  } catch (e) {
    return `is not a complete checkpoint: ${messageOf(e)}`;
  }
}

/** All files of a folder, as paths relative to it. Links are followed. */
async function filesIn(folder: string, under = ''): Promise<string[]> {
  const names = (await fsp.readdir(path.join(folder, under))).filter((name) => name !== lockFileOf(WRITER));
  const found = names.map(async (entry) => {
    const name = path.join(under, entry);
    const about = await fsp.stat(path.join(folder, name));
    return about.isDirectory() ? filesIn(folder, name) : about.isFile() ? [name] : [];
  });
  return (await Promise.all(found)).flat();
}
async function sizesIn(folder: string): Promise<Record<string, number>> {
  const names = (await filesIn(folder)).sort();
  const sizes = await Promise.all(names.map(async (name) => (await fsp.stat(path.join(folder, name))).size));
  return Object.fromEntries(names.map((name, i) => [name, sizes[i]!]));
}

/** Moves or copies the files of a folder into another and flushes them. */
async function bring(from: string, to: string, move: boolean): Promise<void> {
  const isKept = typeof readKept(from) !== 'string'; // a stored checkpoint: its manifest is not copied
  for (const name of await filesIn(from)) {
    if (isKept && name === MANIFEST) continue;
    if (name === MANIFEST)
      throw new Error(`${from} has a file ${MANIFEST}, a name that the run uses itself: rename your file`);
    const [source, target] = [path.join(from, name), path.join(to, name)];
    if (fs.existsSync(target))
      noticeOnce(
        `the checkpoints of several workers contain ${name}; that of the last worker is kept: use different file names`,
      );
    await fsp.mkdir(path.dirname(target), { recursive: true });
    if (move)
      await fsp.rename(source, target); // written and flushed by CheckpointManager
    else {
      await fsp.copyFile(source, target, fs.constants.COPYFILE_FICLONE);
      await flushFile(target);
    }
    await flushFolder(path.dirname(target));
  }
  if (move) await fsp.rm(from, { recursive: true, force: true });
}
