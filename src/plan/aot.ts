// Compiles for TPUs that are not attached, in a separate process, because libtpu prints to the terminal and may abort.

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
  /** The compiler's name of the chip, such as "TPU v6 lite". */
  readonly kind: string;
  readonly devices: number;
  /** The number of devices that the program runs on. */
  readonly used: number;
  readonly seconds: number;
  /** Bytes on one device. */
  readonly memory: MemoryStats;
  readonly cost: Readonly<Record<string, number>>;
  /** The work of one device, including all iterations of loops; `estimate` converts it to time. */
  readonly work: Cost;
  /** The buffers that are live at the memory peak. */
  readonly live: Liveness;
}

export interface CompileAheadOptions extends CompileOptions {
  /** The topology by libtpu's name, such as 'v6e:2x2'. */
  readonly topology: string;
  readonly timeoutSeconds?: number;
  /** Compile a program that needs more memory than the chip has, to see its buffers. */
  readonly evenIfTooLarge?: boolean;
}

/** Compiles a program with XLA's TPU compiler: whether it fits, its memory, its cost. */
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

/** The part of `compileAhead` that runs in the child process. */
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

/** Asks libtpu about topologies, by its names. The value of an unknown topology is the error message. */
export async function askTopologies(names: readonly string[]): Promise<ReadonlyMap<string, KnownTopology | string>> {
  const { path } = await findPlugin('tpu');
  return isolated(import.meta.url, 'topologiesHere', [path, names], { what: 'libtpu', env: LIBTPU_WITHOUT_TPU });
}

/** The part of `askTopologies` that runs in the child process. */
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

/** Checked here because libtpu takes an empty name for a v2, and aborts if a side has 0 chips. */
function checkTopology(name: string): void {
  if (name.trim() && !/[:=_x]0+(?!\d)/.test(name)) return;
  throw new ArgumentError(
    `there is no topology '${name}': write the chip and the number of chips along each side, as v6e:2x2 or v5p:2x2x1`,
  );
}

const openTopology = (path: string, name: string): Topology =>
  Topology.create(path, name, findChip(name.split(':')[0]!)?.options);

const UNITS: Readonly<Record<string, number>> = { K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 };

/** The memory that a rejected program needed, and the available memory, parsed from the compiler's message. */
export function memoryShortage(
  error: OutOfMemoryError,
): { readonly needed: number; readonly available: number } | undefined {
  const figure = (match: RegExpMatchArray | null) => (match ? Number(match[1]) * (UNITS[match[2]!] ?? 1) : undefined);
  const needed = figure(error.message.match(/(?:total memory required[^(]*|Used )\(?([\d.]+)([KMGT]?)/));
  const available = figure(error.message.match(/(?:available HBM \(|of )([\d.]+)([KMGT]?)/));
  return needed && available ? { needed: Math.round(needed), available: Math.round(available) } : undefined;
}
