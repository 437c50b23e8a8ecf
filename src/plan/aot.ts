// Compiling for devices that are not here, in a process of its own: libtpu prints freely and may abort.

import { findChip } from '../base/chips.js';
import { ArgumentError, type OutOfMemoryError } from '../base/errors.js';
import { isolated } from '../base/isolated.js';
import { messageOf } from '../base/thrown.js';
import type { CompileOptions, MemoryStats, Program } from '../pjrt/index.js';
import { Topology } from '../pjrt/index.js';
import { findPlugin } from '../plugins/index.js';
import { LIBTPU_WITHOUT_TPU } from '../runtime/device.js';
import { type Cost, costOf } from './hlo/cost.js';
import { type Liveness, livenessOf } from './hlo/liveness.js';

export interface AheadOfTime {
  readonly topology: string;
  /** As the compiler names the chip, such as "TPU v6 lite". */
  readonly kind: string;
  readonly devices: number;
  /** Of those, how many the program runs on. */
  readonly used: number;
  readonly seconds: number;
  /** Bytes on one device. */
  readonly memory: MemoryStats;
  readonly cost: Readonly<Record<string, number>>;
  /** What one device does, loops counted: see `estimate` for the time. */
  readonly work: Cost;
  /** What fills a device's memory at the worst moment. */
  readonly live: Liveness;
}

export interface CompileAheadOptions extends CompileOptions {
  /** Such as 'v6e:2x2': libtpu's own names. */
  readonly topology: string;
  readonly timeoutSeconds?: number;
  /** Compile a program that needs more memory than the chip has, to see what fills it. */
  readonly evenIfTooLarge?: boolean;
}

/** What XLA's compiler for TPUs says of a program: whether it fits, what memory it takes, what it costs. */
export async function compileAhead(program: Program, options: CompileAheadOptions): Promise<AheadOfTime> {
  const { topology, timeoutSeconds, evenIfTooLarge, ...compile } = options;
  checkTopology(topology);
  const xlaFlags = { ...compile.xlaFlags, ...(evenIfTooLarge && { xla_tpu_no_crash_on_oom: true }) };
  const { path } = await findPlugin('tpu');
  return isolated<AheadOfTime>(import.meta.url, 'compileHere', [path, topology, program, { ...compile, xlaFlags }], {
    what: `libtpu compiling for ${topology}`,
    env: LIBTPU_WITHOUT_TPU,
    ...(timeoutSeconds !== undefined && { timeoutSeconds }),
  });
}

/** The child's side of `compileAhead`. */
export async function compileHere(
  path: string,
  name: string,
  program: Program,
  options: CompileOptions,
): Promise<AheadOfTime> {
  using topology = openTopology(path, name);
  const start = performance.now();
  const executable = await topology.compile(program, options);
  const seconds = (performance.now() - start) / 1000;
  const module = await executable.optimizedModule();
  return {
    topology: name,
    kind: topology.devices[0]!.kind,
    devices: topology.devices.length,
    used: executable.numReplicas * executable.numPartitions,
    seconds,
    memory: executable.memory(),
    cost: executable.cost(),
    work: costOf(module),
    live: livenessOf(module),
  };
}

export interface KnownTopology {
  readonly kind: string;
  readonly devices: number;
  /** Bytes of a device's memory that a program may use. */
  readonly available: number;
}

/** What libtpu itself says of topologies, by its names for them; of one it does not know, the reason. */
export async function askTopologies(names: readonly string[]): Promise<ReadonlyMap<string, KnownTopology | string>> {
  const { path } = await findPlugin('tpu');
  return isolated(import.meta.url, 'topologiesHere', [path, names], { what: 'libtpu', env: LIBTPU_WITHOUT_TPU });
}

/** The child's side of `askTopologies`. */
export function topologiesHere(path: string, names: readonly string[]): ReadonlyMap<string, KnownTopology | string> {
  const ask = (name: string): KnownTopology | string => {
    try {
      using topology = openTopology(path, name);
      const { kind, attributes } = topology.devices[0]!;
      return { kind, devices: topology.devices.length, available: Number(attributes['device_memory_bytes_limit']) };
    } catch (e) {
      return messageOf(e);
    }
  };
  return new Map(names.map((name) => [name, ask(name)]));
}

/** libtpu takes an empty name for a v2 of its own, and dies of a side without chips. */
function checkTopology(name: string): void {
  if (name.trim() && !/[:=_x]0+(?!\d)/.test(name)) return;
  throw new ArgumentError(
    `there is no topology '${name}': write its chip and chips along each side, as v6e:2x2 or v5p:2x2x1`,
  );
}

const openTopology = (path: string, name: string): Topology =>
  Topology.create(path, name, findChip(name.split(':')[0]!)?.options);

const UNITS: Readonly<Record<string, number>> = { K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 };

/** How much memory a refused program needed, and how much there was, as the compiler's message tells it. */
export function memoryShortage(
  error: OutOfMemoryError,
): { readonly needed: number; readonly available: number } | undefined {
  const figure = (match: RegExpMatchArray | null) => (match ? Number(match[1]) * (UNITS[match[2]!] ?? 1) : undefined);
  const needed = figure(error.message.match(/(?:total memory required[^(]*|Used )\(?([\d.]+)([KMGT]?)/));
  const available = figure(error.message.match(/(?:available HBM \(|of )([\d.]+)([KMGT]?)/));
  return needed && available ? { needed: Math.round(needed), available: Math.round(available) } : undefined;
}
