// The key of a compiled program in the disk cache: everything that would make XLA build another program, and nothing else.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { env } from '../base/env.js';
import type { Api, Client, Device } from '../pjrt/index.js';
import { rememberedSha256 } from '../plugins/hash.js';

/** The version of the cache's files and keys: a new number invalidates all older entries. */
export const FORMAT = 1;

export const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex');

/** Everything that makes compiled programs differ. The key is its hash; it is stored in the entry for explanations. */
export interface Ingredients extends Surroundings {
  readonly format: number;
  /** SHA-256 of the StableHLO text without source locations. */
  readonly program: string;
  readonly options: unknown;
}

/** The part that does not change while a client lives. */
export interface Surroundings {
  /** The client's own compile options, applied to every program. */
  readonly defaults: unknown;
  readonly flags: Readonly<Record<string, readonly string[]>>;
  readonly plugin: {
    readonly platform: string;
    readonly version: string;
    readonly api: string;
    readonly size: number;
    readonly sha256: string;
  };
  /** The number of devices of each kind and position. */
  readonly devices: Readonly<Record<string, number>>;
  /** Only on the CPU: code is compiled for this processor's instructions and number of cores. */
  readonly machine?: { readonly model: string; readonly cores: number; readonly features: string };
}

export const keyOf = (ingredients: Ingredients): string => sha256(JSON.stringify(sorted(ingredients)));

/** The same value with the fields of all objects sorted by name. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(fields.map(([name, v]) => [name, sorted(v)]));
}

/** MLIR without its `loc(...)` and `#loc = loc(...)`; strings and comments are kept. */
export function withoutLocations(text: string): string {
  if (!text.includes('loc(')) return text;
  const token = /"[^"\\]*(?:\\.[^"\\]*)*"|\/\/[^\n]*|(?:^#loc\w* *= *|\s*(?<![\w@%#.$-]))loc\(|[()]/gm;
  let [kept, from, depth] = ['', 0, 0]; // depth: of parentheses since a location began
  for (let m = token.exec(text); m; m = token.exec(text)) {
    const opens = m[0].endsWith('(') && !m[0].startsWith('/');
    if (depth) {
      depth += opens ? 1 : m[0] === ')' ? -1 : 0;
      if (!depth) from = token.lastIndex;
    } else if (opens && m[0] !== '(') {
      kept += text.slice(from, m.index);
      depth = 1;
    }
  }
  return depth ? text : (kept + text.slice(from)).trim().replace(/\n+/g, '\n'); // removes the empty lines they leave
}

/**
 * Flags sorted by name: their order has no effect, except between two of the same name. Dump flags are left out, since
 * they do not change a program.
 */
export const sortFlags = (text: string): string[] =>
  [...text.matchAll(/-(?:"[^"]*"|'[^']*'|(?!\s-)[\s\S])+/g)]
    .map(([flag]) => flag.trim())
    .filter((flag) => !isDump(flag))
    .sort((a, b) => (flagName(a) < flagName(b) ? -1 : flagName(a) > flagName(b) ? 1 : 0));
const flagName = (flag: string): string => flag.replace(/^-+/, '').replace(/=.*/s, '');
const isDump = (flag: string): boolean => /^-+xla_(\w+_)?dump_/.test(flag);

/** Variables that the plugins read when they start, and that change what they compile. */
const VARIABLES = ['XLA_FLAGS', 'LIBTPU_INIT_ARGS', 'TPU_MEGACORE'];

/** The flags in the environment now, for a library that has not started yet. */
export function flagsNow(): Surroundings['flags'] {
  const lists = VARIABLES.map((name) => [name, split(flagText(name))] as const);
  return Object.fromEntries(lists.filter(([, list]) => list.length));
}

const flagsOf = new WeakMap<Api, Surroundings['flags']>();
/** The flags a library has read: it reads them once, and later changes have no effect. */
function flags(api: Api): Surroundings['flags'] {
  const known = flagsOf.get(api) ?? flagsNow();
  flagsOf.set(api, known);
  return known;
}

const split = (text: string): string[] => (!text || text.startsWith('-') ? sortFlags(text) : [text]);

/** XLA_FLAGS may name a file with the flags in it. */
function flagText(name: string): string {
  const text = env(name)?.trim() ?? '';
  if (name !== 'XLA_FLAGS' || !text || text.startsWith('-')) return text;
  try {
    return readFileSync(text, 'utf8').trim();
  } catch {
    return text;
  }
}
export const asksForDumps = (): boolean => /--?xla_(\w+_)?dump_(to|hlo)/.test(flagText('XLA_FLAGS'));

/** The surroundings of a client. The plugin's hash, which takes a second to compute, is recorded in `folder`. */
export async function surroundings(
  client: Client,
  folder: string,
  options: { readonly write: boolean },
): Promise<Surroundings> {
  const { api, platform, platformVersion, devices, defaults } = client;
  const { size } = await stat(api.path);
  const record = path.join(folder, `plugin-${sha256(api.path).slice(0, 32)}`);
  return {
    defaults,
    flags: flags(api),
    plugin: {
      platform,
      version: platformVersion,
      api: `${api.version.major}.${api.version.minor}`,
      size,
      sha256: await rememberedSha256(api.path, record, options),
    },
    devices: tally(devices.map(describe)),
    ...(platform === 'cpu' && { machine: await machine() }),
  };
}

/** The kind and position of a device, without attributes that identify a single device. */
function describe({ kind, processIndex, attributes }: Device): string {
  const parts = Object.entries({ ...attributes, ...(processIndex && { process: processIndex }) })
    .filter(([name]) => !/uuid|host|address/.test(name))
    .map(([name, value]) => `${name}=${value}`);
  return [kind, ...parts.sort()].join(' ');
}

function tally(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

const PROCESSOR =
  /^(vendor_id|cpu family|model|model name|flags|Features|CPU implementer|CPU variant|CPU part)\s*:.*/gm;

async function machine(): Promise<NonNullable<Surroundings['machine']>> {
  const text = await readFile('/proc/cpuinfo', 'utf8').catch(() => ''); // Linux only
  const lines = new Set(text.match(PROCESSOR) ?? os.cpus().map((cpu) => cpu.model));
  const features = sha256([process.arch, ...lines].join('\n')).slice(0, 16);
  return { model: os.cpus()[0]?.model ?? process.arch, cores: os.availableParallelism(), features };
}
