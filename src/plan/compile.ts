// What the TPU's compiler says of a program, asked once: answers are kept on disk, by all that they depend on.
import { mkdirSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { cacheDir, env } from '../base/env.js';
import { type FoundPlugin, findPlugin } from '../plugins/index.js';
import { FORMAT, type Ingredients, keyOf, sha256, sortFlags } from '../runtime/cache-key.js';
import { BadEntryError, readEntry, touch, writeEntry } from '../runtime/cache-store.js';
import { type AheadOfTime, compileAhead } from './aot.js';

export interface Answer extends AheadOfTime {
  /** It was asked before. */
  readonly cached: boolean;
}

/** Of what is asked of the compiled program: a new number leaves older answers unused. */
const ANSWERS = 2;
const LIMIT = 256 * 2 ** 20; // bytes of the folder

export const plansDir = (): string => path.join(cacheDir(), 'plans');

export interface AskOptions {
  /** As libtpu names it: 'v6e:2x4'. */
  readonly topology: string;
  readonly timeoutSeconds?: number | undefined;
  /** Ask again, though the answer may be known. */
  readonly fresh?: boolean | undefined;
}

/** Compiles StableHLO for a TPU that is not here, unless the answer is known. It may take more memory than there is. */
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
  const limit = timeoutSeconds && { timeoutSeconds };
  const compiled = await compileAhead(text, { topology, evenIfTooLarge: true, ...limit });
  if (usable) {
    const about = { key, name, created: new Date().toISOString(), inputs: [], outputs: [], ingredients };
    mkdirSync(plansDir(), { recursive: true, mode: 0o700 });
    const written = { ...about, compileSeconds: compiled.seconds };
    await writeEntry(plansDir(), written, text, Buffer.from(JSON.stringify(compiled)), LIMIT).catch(() => undefined); // a full disk stops no plan
  }
  return { ...compiled, cached: false };
}

async function recall(key: string): Promise<AheadOfTime | undefined> {
  const stored = await readEntry(plansDir(), key).catch((e: unknown) => {
    if (e instanceof BadEntryError) return undefined; // it is written again
    throw e;
  });
  if (!stored) return undefined;
  await touch(plansDir(), key);
  return JSON.parse(Buffer.from(stored.executable).toString()) as AheadOfTime;
}

async function ingredientsOf(plugin: FoundPlugin, text: string, topology: string): Promise<Ingredients> {
  const { mtimeMs } = await stat(plugin.path);
  const flags = ['XLA_FLAGS', 'LIBTPU_INIT_ARGS'].map((name) => [name, sortFlags(env(name) ?? '')] as const);
  return {
    format: FORMAT,
    program: sha256(text), // with the places in the user's code, which are part of the answer
    options: { topology, answers: ANSWERS },
    defaults: {},
    flags: Object.fromEntries(flags),
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
