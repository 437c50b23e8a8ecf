// The disk cache of compiled programs: a program compiled before, by any process of this machine, is loaded.
import { accessSync, constants, realpathSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { show } from '../base/dtype.js';
import { cacheDir, env } from '../base/env.js';
import { ArgumentError, DisposedError, OutOfMemoryError, PjrtError, PluginVersionError } from '../base/errors.js';
import { makeFolder } from '../base/folder.js';
import { bytes, parseBytes } from '../base/format.js';
import { tryLock } from '../base/lock.js';
import { noticeOnce } from '../base/log.js';
import { messageOf } from '../base/thrown.js';
import { distrustFolder } from '../base/trust.js';
import { mustNameOperations } from '../ir/locations.js';
import type { Api, Client, LoadedExecutable } from '../pjrt/index.js';
import {
  asksForDumps,
  FORMAT,
  type Ingredients,
  keyOf,
  type Surroundings,
  sha256,
  surroundings,
  withoutLocations,
} from './cache-key.js';
import { BadEntryError, readEntry, removeEntry, touch, writeEntry } from './cache-store.js';
import { events } from './events.js';

/** The program to look up in the cache. */
export interface ProgramSource {
  /** StableHLO. */
  readonly text: string;
  /** Compile options and everything else `compile` depends on, as plain JSON. */
  readonly options?: unknown;
  /** A name for messages. */
  readonly name?: string;
}

export interface Obtained {
  readonly executable: LoadedExecutable;
  readonly tier: 'disk' | 'compiled';
  /** The time loading or compiling took. */
  readonly seconds: number;
  readonly key: string;
}

export interface CacheOptions {
  readonly folder?: string;
  readonly readOnly?: boolean;
  /** The largest size of the cache, in bytes. */
  readonly limit?: number;
  /** How long to wait for another process that compiles the same program, before compiling it here too. Default: 1800. */
  readonly waitSeconds?: number;
}

export const programsDir = (): string =>
  path.resolve(env('XLA_PERSISTENT_CACHE_PATH') ?? path.join(cacheDir(), 'programs'));

/** The largest size of the cache folder, in bytes. */
export function cacheLimit(): number {
  const text = env('TSXLA_CACHE_SIZE') ?? '10GiB';
  const limit = parseBytes(text);
  if (limit === undefined) throw new ArgumentError(`TSXLA_CACHE_SIZE=${text} is not a size: write it as 500MB or 2GiB`);
  return limit;
}

const MODES = ['on', 'off', 'readonly'];
function mode(): string {
  const wanted = env('TSXLA_CACHE') ?? 'on';
  if (!MODES.includes(wanted)) throw new ArgumentError(`TSXLA_CACHE=${wanted}: use one of ${MODES.join(', ')}`);
  const readOnly = /^(1|true)$/i.test(env('XLA_PERSISTENT_CACHE_READ_ONLY') ?? '');
  return wanted === 'on' && readOnly ? 'readonly' : wanted;
}

const POLL = 100; // ms between checks of another process's progress
const PATIENCE = 10; // s after which a wait is logged

let current: DiskCache | undefined;
const SETTINGS = ['folder', 'readOnly', 'limit'] as const;

export class DiskCache {
  readonly #surroundings = new WeakMap<Client, Promise<Surroundings>>();
  readonly #flights = new WeakMap<Client, Map<string, Promise<Obtained>>>();
  /** Plugins that cannot store or load executables. */
  readonly #unable = new WeakSet<Api>();
  #complained = false;

  private constructor(
    readonly folder: string,
    readonly readOnly: boolean,
    readonly limit: number,
    readonly waitSeconds: number,
  ) {}

  /** The cache configured by the environment; undefined if it is off or its folder cannot be used (with a notice). */
  static open(options: CacheOptions = {}): DiskCache | undefined {
    const asked = mode();
    if (asked === 'off') return undefined;
    const { readOnly = asked === 'readonly', limit = cacheLimit(), waitSeconds = 1800 } = options;
    const wanted = path.resolve(options.folder ?? programsDir());
    try {
      if (!readOnly) makeFolder(wanted, 0o700);
      const folder = realpathSync(wanted);
      const reason = distrustFolder(folder);
      if (reason) throw new Error(`${reason}. A cached program is code`);
      return new DiskCache(folder, readOnly || !isWritable(folder), limit, waitSeconds);
    } catch (e) {
      noticeOnce(`compiled programs are not cached in ${wanted}: ${messageOf(e)}`);
      return undefined;
    }
  }

  /** The cache of this process. Its state is kept for all programs as long as the environment does not change. */
  static current(): DiskCache | undefined {
    const opened = DiskCache.open();
    const same = opened && current && SETTINGS.every((key) => opened[key] === current![key]);
    return (current = same ? current : opened);
  }

  /** Loads the program if any process has compiled it before, otherwise compiles and stores it. */
  async getOrCompile(
    client: Client,
    source: ProgramSource,
    compile: () => Promise<LoadedExecutable>,
  ): Promise<Obtained> {
    const text = withoutLocations(source.text);
    const { options = {} } = source;
    const around = await this.#around(client).catch((e) => this.#cannotWrite(e)); // the plugin's library was removed from the disk
    if (!around) return { ...(await missed(compile)), key: '' };
    const ingredients = {
      format: FORMAT,
      program: sha256(mustNameOperations() ? `${text}\n// named` : text),
      options,
      ...around,
    };
    const key = keyOf(ingredients);
    const flights = this.#flights.get(client) ?? new Map<string, Promise<Obtained>>();
    this.#flights.set(client, flights);
    let flight = flights.get(key);
    if (!flight) {
      flight = this.#obtain(client, key, compile, { ...source, text, ingredients });
      flights.set(key, flight);
      const landed = () => flights.delete(key);
      flight.then(landed, landed);
    }
    return flight;
  }

  #around(client: Client): Promise<Surroundings> {
    let known = this.#surroundings.get(client);
    if (!known) {
      known = surroundings(client, this.folder, { write: !this.readOnly });
      this.#surroundings.set(client, known);
    }
    return known;
  }

  async #obtain(
    client: Client,
    key: string,
    compile: () => Promise<LoadedExecutable>,
    source: ProgramSource & { readonly ingredients: Ingredients },
  ): Promise<Obtained> {
    const make = async (): Promise<Obtained> => {
      const made = await missed(compile);
      if (!this.readOnly && !this.#unable.has(client.api)) await this.#keep(made, key, source);
      return { ...made, key };
    };
    const began = performance.now();
    for (;;) {
      if (this.#unable.has(client.api)) return make();
      const found = await this.#load(client, key);
      if (found) return found;
      if (this.readOnly) return make();
      const lock = await tryLock(path.join(this.folder, key)).catch((e) => {
        this.#cannotWrite(e);
        return { release: async () => {} };
      });
      if (lock) {
        try {
          return (await this.#load(client, key)) ?? (await make()); // another process may have just stored it
        } finally {
          await lock.release();
        }
      }
      const waited = (performance.now() - began) / 1000;
      if (waited > this.waitSeconds) return make();
      if (waited > PATIENCE) noticeOnce(`another process is compiling ${source.name ?? key}: waiting for it`);
      await sleep(POLL);
    }
  }

  /** The stored program, if there is a valid one. An invalid one is counted and removed. */
  async #load(client: Client, key: string): Promise<Obtained | undefined> {
    const began = performance.now();
    try {
      const stored = await readEntry(this.folder, key);
      if (!stored) return undefined;
      const executable = await client.load(stored.executable);
      const loaded = performance.now();
      events.span('loadFromDisk', began, loaded);
      if (!this.readOnly) await touch(this.folder, key);
      if (asksForDumps())
        noticeOnce(
          'XLA_FLAGS asks for dumps, but cached programs are not compiled: set TSXLA_CACHE=off to dump all programs',
        );
      return { executable, tier: 'disk', seconds: (loaded - began) / 1000, key };
    } catch (e) {
      if (e instanceof OutOfMemoryError || e instanceof DisposedError) throw e; // not the entry's fault
      if (this.#isUnable(client, e)) return undefined;
      events.count('diskCacheError');
      const done = this.readOnly ? 'not used' : 'compiled again';
      const reason = e instanceof BadEntryError ? messageOf(e) : `${key}.program cannot be loaded: ${messageOf(e)}`;
      noticeOnce(`a cached program is ${done}: ${reason}`);
      if (!this.readOnly) await removeEntry(this.folder, key).catch(() => undefined);
      return undefined;
    }
  }

  /** Stores a program. Errors are only reported: the program itself can run anyway. */
  async #keep(
    { executable, seconds }: Omit<Obtained, 'key'>,
    key: string,
    { text, name = executable.name, ingredients }: ProgramSource & { readonly ingredients: Ingredients },
  ): Promise<void> {
    const [inputs, outputs] = [executable.inputs.map(show), executable.outputs.map(show)];
    const about = {
      key,
      name,
      created: new Date().toISOString(),
      compileSeconds: seconds,
      inputs,
      outputs,
      ingredients,
    };
    try {
      const kept = await writeEntry(this.folder, about, text, await executable.serialize(), this.limit);
      if (!kept)
        noticeOnce(`${name} is not cached: it is larger than the limit of the whole cache (${bytes(this.limit)})`);
    } catch (e) {
      if (!this.#isUnable(executable.client, e)) this.#cannotWrite(e);
    }
  }

  #cannotWrite(e: unknown): void {
    if (!this.#complained) noticeOnce(`compiled programs are not cached in ${this.folder}: ${messageOf(e)}`);
    this.#complained = true; // a full disk causes different errors: report only the first
  }

  #isUnable({ api, platform }: Client, e: unknown): boolean {
    const unable = e instanceof PluginVersionError || (e instanceof PjrtError && e.code === 'UNIMPLEMENTED');
    if (unable) {
      this.#unable.add(api);
      noticeOnce(
        `compiled programs are not cached: the ${platform} plugin cannot store or load them (${messageOf(e)})`,
      );
    }
    return unable;
  }
}

/** Compiles, and measures the time. */
export async function timedCompile(compile: () => Promise<LoadedExecutable>): Promise<Omit<Obtained, 'key'>> {
  const began = performance.now();
  const executable = await compile();
  return { executable, tier: 'compiled', seconds: (performance.now() - began) / 1000 };
}
async function missed(compile: () => Promise<LoadedExecutable>): Promise<Omit<Obtained, 'key'>> {
  const made = await timedCompile(compile);
  events.count('diskCacheMiss');
  return made;
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
