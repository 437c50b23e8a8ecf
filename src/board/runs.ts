// Finds the runs in folders, also those that are created later.
import fs from 'node:fs/promises';
import path from 'node:path';
import { noticeOnce } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { FILES, Run } from './run.js';

const DEEPEST = 3; // folders below the one that was named
const MOST_RUNS = 100;
const MOST_LOOKED_AT = 5000; // entries
/** Folders inside a run are not searched. */
const NO_RUNS = /^(checkpoints?|checkpoint-\d+|adapters|best|node_modules|\..*)$/;

export class Runs {
  readonly #runs = new Map<string, Run>();
  #next = 1;

  constructor(readonly folders: readonly string[]) {}

  get all(): Run[] {
    return [...this.#runs.values()];
  }

  /** Finds new runs, in the order of their names. */
  async find(): Promise<void> {
    const looked = { left: MOST_LOOKED_AT };
    for (const root of this.folders) {
      const place = path.resolve(root);
      for (const folder of await runsIn(place, DEEPEST, looked)) {
        if (this.#runs.has(folder) || this.#runs.size >= MOST_RUNS) continue;
        const name = this.folders.length === 1 ? path.relative(place, folder) : path.relative(process.cwd(), folder);
        const shown = !name || name.startsWith('..') ? path.basename(folder) : name;
        this.#runs.set(folder, new Run(String(this.#next++), shown, folder));
      }
    }
  }
  async poll(): Promise<void> {
    for (const run of this.all)
      await run
        .poll()
        .catch((e) => noticeOnce(`cannot read ${run.folder}: ${messageOf(e)}; the board shows what it has of it`));
  }
}

async function runsIn(folder: string, depth: number, looked: { left: number }): Promise<string[]> {
  const entries = await fs.readdir(folder, { withFileTypes: true }).catch(() => []);
  looked.left -= entries.length;
  const own = entries.some((e) => FILES.includes(e.name) && !e.isDirectory()) ? [folder] : [];
  if (!depth || looked.left < 0) return own;
  const inner: string[] = [];
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1)))
    if (entry.isDirectory() && !NO_RUNS.test(entry.name))
      inner.push(...(await runsIn(path.join(folder, entry.name), depth - 1, looked)));
  return [...own, ...inner];
}
