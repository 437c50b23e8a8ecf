// Compiles for TPUs with a cache on disk, keyed by everything that the answer depends on.
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { CHIPS, type Chip } from '../base/chips.js';
import { cacheDir, env } from '../base/env.js';
import { CompileError, FileError, OutOfMemoryError } from '../base/errors.js';
import { makeFolder } from '../base/folder.js';
import { anyObject, parseJson } from '../base/json.js';
import { parseTopology } from '../base/slices.js';
import { type FoundPlugin, findPlugin } from '../plugins/index.js';
import { FORMAT, flagsNow, type Ingredients, keyOf, sha256 } from '../runtime/cache-key.js';
import { BadEntryError, readEntry, touch, writeEntry } from '../runtime/cache-store.js';
import { type AheadOfTime, type CompileAheadOptions, compileAhead, memoryShortage } from './aot.js';

export interface Answer extends AheadOfTime {
  /** Whether the answer came from the cache. */
  readonly cached: boolean;
}

/** The version of the stored answers: a new number invalidates older ones. */
const ANSWERS = 5;
const LIMIT = 256 * 2 ** 20; // bytes of the folder

export const plansDir = (): string => path.join(cacheDir(), 'plans');

export interface AskOptions {
  /** The topology by libtpu's name: 'v6e:2x4'. */
  readonly topology: string;
  readonly timeoutSeconds?: number | undefined;
  /** Compile again, even if the answer is in the cache. */
  readonly fresh?: boolean | undefined;
}

/** Compiles StableHLO for a TPU that is not attached, unless the answer is in the cache. The program may need too much memory. */
export async function ask(
  name: string,
  text: string,
  { topology, timeoutSeconds, fresh }: AskOptions,
): Promise<Answer> {
  const plugin = await findPlugin('tpu');
  const ingredients = await ingredientsOf(plugin, text, topology);
  const key = keyOf(ingredients);
  const usable = env('TSXLA_CACHE') !== 'off';
  const known = usable && !fresh && (await recall(key));
  if (known) return { ...known, cached: true };
  const compiled = await compileOrWeigh(text, { topology, ...(timeoutSeconds !== undefined && { timeoutSeconds }) });
  if (usable) {
    const about = { key, name, created: new Date().toISOString(), inputs: [], outputs: [], ingredients };
    makeFolder(plansDir(), 0o700);
    const written = { ...about, compileSeconds: compiled.seconds };
    await writeEntry(plansDir(), written, text, Buffer.from(JSON.stringify(compiled)), LIMIT).catch(() => undefined); // a full disk does not fail the plan
  }
  return { ...compiled, cached: false };
}

/**
 * For some programs that are too large for the chip the compiler only reports an invalid program (seen on a v5e; cause unknown).
 * Without `evenIfTooLarge` it fails earlier and reports the needed memory. The buffers are then taken from a compile for the
 * generation with the most memory, whose layouts are similar.
 */
async function compileOrWeigh(text: string, options: CompileAheadOptions): Promise<AheadOfTime> {
  const start = performance.now();
  const compiled = await compileAhead(text, { ...options, evenIfTooLarge: true }).catch((e: unknown) => {
    if (e instanceof CompileError) return e;
    throw e;
  });
  if (!(compiled instanceof CompileError)) return compiled;
  const refusal = await compileAhead(text, options).catch((e: unknown) => e);
  const shortage = refusal instanceof OutOfMemoryError && memoryShortage(refusal);
  if (!shortage) throw compiled;
  const topology = roomiest(parseTopology(options.topology).devices);
  const seen = await compileAhead(text, { ...options, topology, evenIfTooLarge: true }).catch(() => {
    throw refusal; // the best known error
  });
  const { needed: peak } = shortage;
  const seconds = (performance.now() - start) / 1000;
  return { ...seen, topology: options.topology, seconds, memory: { ...seen.memory, peak } };
}

/** A slice with at least this number of devices, of the generation with the most memory. */
function roomiest(devices: number): string {
  const [{ name, slices }] = CHIPS.filter((c) => c.platform === 'tpu').sort(
    (a, b) => b.hbm.available - a.hbm.available,
  ) as [Chip];
  return slices.map((shape) => parseTopology(`${name}:${shape}`)).find((slice) => slice.devices >= devices)!.name;
}

async function recall(key: string): Promise<AheadOfTime | undefined> {
  try {
    const stored = await readEntry(plansDir(), key);
    if (!stored) return undefined;
    const answer = parseJson(stored.executable, key, anyObject) as unknown as AheadOfTime;
    await touch(plansDir(), key);
    return answer;
  } catch (e) {
    if (e instanceof BadEntryError || e instanceof FileError) return undefined; // the entry is written again
    throw e;
  }
}

async function ingredientsOf(plugin: FoundPlugin, text: string, topology: string): Promise<Ingredients> {
  const { mtimeMs } = await stat(plugin.path);
  return {
    format: FORMAT,
    program: sha256(text), // includes source locations, which are part of the answer
    options: { topology, answers: ANSWERS },
    defaults: {},
    flags: flagsNow(),
    plugin: {
      platform: 'tpu',
      version: plugin.version ?? String(mtimeMs),
      api: '',
      size: plugin.size,
      sha256: plugin.sha256 ?? '',
    },
    devices: {},
  };
}
