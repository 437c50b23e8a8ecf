// The folder of a run: its checkpoints, each written aside and renamed when it is whole, and what was reported up to them.
//     runs/first/checkpoint-000003/...              the loop's own files
//                checkpoint-000003/train.json       its number, metrics, and the size of every file
//                history.jsonl                      a line a report
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import fsp from 'node:fs/promises';
import path from 'node:path';
import { CheckpointError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { jsonOf } from '../base/json.js';
import { notice } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { flushFolder } from '../io/file.js';
import type { CheckpointConfig } from './config.js';
import type { PlainResult } from './engine.js';
import { decodeMetrics, type JsonMetrics, type Metrics } from './link.js';

interface Kept {
  readonly number: number;
  readonly path: string;
  readonly metrics: Metrics;
  /** How many lines of the history came before, with its own. */
  readonly reports: number;
}
interface Manifest extends Omit<Kept, 'path' | 'metrics'> {
  readonly metrics: JsonMetrics;
  /** Bytes, by the names of files. */
  readonly files: Readonly<Record<string, number>>;
}

const FOLDER = /^checkpoint-(\d{6,})$/;
const UNFINISHED = '.unfinished-';
const MANIFEST = 'train.json';
const HISTORY = 'history.jsonl';
/** Where workers write what they are about to report. */
export const SAVING = '.saving';

export class RunFolder {
  readonly history: Metrics[] = [];
  #kept: Kept[] = [];
  /** The highest number that was ever given. */
  #last = 0;
  /** How many lines of the history are in its file. */
  #written = 0;

  /** What is there of the run. What was left unfinished is removed, and a checkpoint that is not whole is left out. */
  constructor(
    readonly path: string,
    readonly keep: CheckpointConfig,
  ) {
    checkWritable(path);
    const names = fs.existsSync(path) ? fs.readdirSync(path) : [];
    for (const name of names)
      if (name.startsWith(UNFINISHED) || name === SAVING) fs.rmSync(this.#at(name), { recursive: true, force: true });
    for (const name of names.filter((n) => FOLDER.test(n)).sort()) {
      const kept = readKept(this.#at(name));
      this.#last = Math.max(this.#last, Number(FOLDER.exec(name)![1]));
      if (typeof kept === 'string') notice(`${this.#at(name)} ${kept}; it is left out`);
      else this.#kept.push(kept);
    }
    this.#readHistory();
  }
  readonly #at = (name: string): string => path.join(this.path, name);

  #readHistory(): void {
    const file = this.#at(HISTORY);
    const lines = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
    this.history.push(...lines.slice(0, this.last?.reports ?? 0).map((line) => decodeMetrics(JSON.parse(line))));
    if (this.history.length < lines.length) fs.writeFileSync(file, linesOf(this.history));
    this.#written = this.history.length;
  }

  get last(): Kept | undefined {
    return this.#kept.at(-1);
  }

  /** What was reported behind the last checkpoint is forgotten: it will be again. */
  rollBack(): void {
    this.history.length = this.last?.reports ?? 0;
  }

  /** Keeps a checkpoint whose files are in these folders; those in `.saving` are moved, others copied. */
  async persist(parts: readonly string[], metrics: Metrics, reports: number): Promise<void> {
    const number = this.#last + 1;
    const name = `checkpoint-${String(number).padStart(6, '0')}`;
    const aside = this.#at(`${UNFINISHED}${randomUUID()}`);
    try {
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
      const kept = this.last ? `the last good one is ${this.last.path}` : 'there is none yet';
      throw new CheckpointError(`cannot keep a checkpoint in ${this.path}: ${messageOf(e)}; ${kept}`, { cause: e });
    }
    this.#last = number;
    this.#kept.push({ number, path: this.#at(name), metrics, reports });
    await this.#prune();
  }

  /** The first of the reports, on the disk. */
  async #flushHistory(reports = this.history.length): Promise<void> {
    const lines = linesOf(this.history.slice(this.#written, reports));
    if (lines) await writeFlushed(this.#at(HISTORY), 'a', lines);
    this.#written = Math.max(this.#written, reports);
  }

  /** The end of the run. A disk that is full has been told of. */
  async close(): Promise<void> {
    await fsp.rm(this.#at(SAVING), { recursive: true, force: true });
    if (this.last) await this.#flushHistory().catch((e) => notice(`${this.#at(HISTORY)}: ${messageOf(e)}`));
  }

  async #prune(): Promise<void> {
    const { numToKeep = Number.POSITIVE_INFINITY, checkpointScoreAttribute: metric, checkpointScoreOrder } = this.keep;
    const sign = checkpointScoreOrder === 'min' ? -1 : 1;
    const score = (c: Kept) => {
      const n = metric === undefined ? c.number : sign * (c.metrics[metric] ?? Number.NaN);
      return Number.isNaN(n) ? Number.NEGATIVE_INFINITY : n;
    };
    const best = [...this.#kept].sort((a, b) => score(b) - score(a) || b.number - a.number).slice(0, numToKeep);
    const spared = new Set([...best, this.last]);
    for (const { path: folder } of this.#kept.filter((c) => !spared.has(c))) {
      const aside = this.#at(`${UNFINISHED}${randomUUID()}`); // half of one is never seen
      await fsp.rename(folder, aside);
      await fsp.rm(aside, { recursive: true, force: true });
    }
    this.#kept = this.#kept.filter((c) => spared.has(c));
  }

  /** What there is of the run now. */
  plain(): PlainResult {
    const checkpoints = this.#kept.map(({ path, metrics }) => ({ path, metrics }));
    return { history: [...this.history], checkpoints, path: this.path };
  }
}

const linesOf = (history: readonly Metrics[]): string => history.map((m) => `${jsonOf(m)}\n`).join('');

/** Said before training begins, and not at the first checkpoint. Nothing is made: a run may have nothing to keep. */
function checkWritable(folder: string): void {
  let there = path.resolve(folder);
  while (!fs.existsSync(there)) there = path.dirname(there);
  try {
    if (!fs.statSync(there).isDirectory()) throw new Error(`${there} is a file`);
    fs.accessSync(there, fs.constants.W_OK);
  } catch (e) {
    throw new CheckpointError(`${folder} cannot keep checkpoints: ${messageOf(e)}: choose another storagePath`, {
      cause: e,
    });
  }
}

/** A checkpoint, or what is wrong with it. */
function readKept(folder: string): Kept | string {
  try {
    const { files, metrics, ...rest } = JSON.parse(fs.readFileSync(path.join(folder, MANIFEST), 'utf8')) as Manifest;
    for (const [name, size] of Object.entries(files)) {
      const found = fs.statSync(path.join(folder, name), { throwIfNoEntry: false });
      if (!found) return `lacks ${name}`;
      if (found.size !== size) return `has ${plural(found.size, 'byte')} of ${name}, and it had ${size}`;
    }
    return { ...rest, metrics: decodeMetrics(metrics), path: folder };
  } catch (e) {
    return `is no whole checkpoint: ${messageOf(e)}`;
  }
}

const filesIn = async (folder: string): Promise<string[]> => {
  const entries = await fsp.readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((e) => e.isFile()).map((e) => path.relative(folder, path.join(e.parentPath, e.name)));
};
async function sizesIn(folder: string): Promise<Record<string, number>> {
  const names = (await filesIn(folder)).sort();
  const sizes = await Promise.all(names.map(async (name) => (await fsp.stat(path.join(folder, name))).size));
  return Object.fromEntries(names.map((name, i) => [name, sizes[i]!]));
}

/** The files of a folder, moved or copied into another and flushed. */
async function bring(from: string, to: string, move: boolean): Promise<void> {
  for (const name of await filesIn(from)) {
    const [source, target] = [path.join(from, name), path.join(to, name)];
    await fsp.mkdir(path.dirname(target), { recursive: true });
    if (move)
      await fsp.rename(source, target); // written and flushed by CheckpointManager
    else {
      await fsp.copyFile(source, target, fs.constants.COPYFILE_FICLONE);
      const handle = await fsp.open(target);
      await handle.sync().finally(() => handle.close());
    }
    await flushFolder(path.dirname(target));
  }
  if (move) await fsp.rm(from, { recursive: true, force: true });
}

async function writeFlushed(file: string, flag: string, text: string): Promise<void> {
  const handle = await fsp.open(file, flag);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}
