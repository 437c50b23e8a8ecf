// What the configurations of a run mean together: how many devices it has, how they are a mesh, and how gradients of several
// workers become one. A contradiction is an error with its arithmetic.

import { findChip } from '../base/chips.js';
import { ArgumentError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { parseTopology, type Slice } from '../base/slices.js';
import { virtualDevices } from '../runtime/device.js';
import { meshFromConfig, type SpmdConfig } from '../spmd/index.js';
import type { ScalingConfig, TorchConfig } from './config.js';

/**
 * How workers come to the same gradients. 'none': there is one. 'xla': by XLA's collectives, inside the program (TPU, CUDA).
 * 'engine': between two programs, by the engine that started the workers (CPU, where XLA's C API has no collectives).
 */
export type Reduce = 'none' | 'xla' | 'engine';

export interface Scale {
  readonly workers: number;
  readonly device: 'tpu' | 'cuda' | 'cpu' | 'auto';
  readonly reduce: Reduce;
  /** The slice of TPUs, and how many of them. */
  readonly slice?: Slice;
  readonly slices?: number;
  /** What each worker has for itself, in Ray's words. */
  readonly resources: Readonly<Record<string, number>>;
  /** A worker's mesh: of all devices where XLA joins them, else of its own; null: all devices along data. */
  readonly mesh: SpmdConfig | null;
}

export function scaleOf(scaling: ScalingConfig, { backend, xlaSpmdConfig }: TorchConfig): Scale {
  const { numWorkers = 1, useTpu = false, useGpu = false, resourcesPerWorker = {} } = scaling;
  const workers = Math.max(1, numWorkers);
  if (backend === 'xla_tpu' && !useTpu)
    throw new ArgumentError(
      "TorchConfig: backend is 'xla_tpu', and ScalingConfig has no useTpu: true: set it, or use 'xla'",
    );
  const { partitioningMode: _, ...mesh } = xlaSpmdConfig ?? {};
  const asked = xlaSpmdConfig ? mesh : null;
  if (useTpu) return tpuScale(scaling, workers, asked);
  const common = { workers, resources: { CPU: 1, ...resourcesPerWorker } };
  if (useGpu) {
    const { GPU = 1 } = resourcesPerWorker;
    if (workers > 1 && !(Number.isSafeInteger(GPU) && GPU))
      throw new ArgumentError(
        `ScalingConfig: ${workers} workers with useGpu, and resourcesPerWorker has GPU: ${GPU}: give each a whole number of GPUs, 1 or more`,
      );
    if (asked && workers > 1) checkMesh(asked, workers * GPU);
    return {
      ...common,
      device: 'cuda',
      reduce: workers > 1 ? 'xla' : 'none',
      resources: { ...common.resources, GPU },
      mesh: asked,
    };
  }
  if (workers === 1) return { ...common, device: 'auto', reduce: 'none', mesh: asked };
  return { ...common, device: 'cpu', reduce: 'engine', mesh: asked && meshOfOne(asked, workers) };
}

/** Says with its arithmetic where sizes do not make a mesh of so many devices. */
const checkMesh = (mesh: SpmdConfig, devices: number) => meshFromConfig(mesh, devices);

/** The part of a mesh that one of several CPU workers has: they share what lies along data, and nothing else. */
function meshOfOne(mesh: SpmdConfig, workers: number): SpmdConfig {
  const each = virtualDevices();
  const whole = checkMesh(mesh, workers * each);
  const sizes = new Map(whole.axisNames.map((axis, i) => [axis, whole.shape[i]!]));
  const data = sizes.get('data') ?? 1;
  if (data % workers)
    throw new ArgumentError(
      `the mesh ${whole} has data ${data} on ${workers} CPU workers, and ${data} / ${workers} is no whole number: workers on ` +
        `CPUs share batches only: make data a multiple of ${workers}, or use one worker with CPU_NUM_DEVICES=${workers * each}`,
    );
  const {
    model: modelParallelSize = 1,
    fsdp: fsdpSize = 1,
    sequence: sequenceParallelSize = 1,
  } = Object.fromEntries(sizes);
  return { dataParallelSize: data / workers, modelParallelSize, fsdpSize, sequenceParallelSize };
}

function tpuScale(scaling: ScalingConfig, workers: number, mesh: SpmdConfig | null): Scale {
  const { topology, acceleratorType, resourcesPerWorker = {} } = scaling;
  const isKnown = acceleratorType || (topology && namesChip(topology));
  if (workers > 1 && !(topology && isKnown)) {
    const missing = [!topology && "topology: '2x2x2'", !isKnown && "acceleratorType: 'TPU-V4'"].filter(Boolean);
    throw new ArgumentError(
      `ScalingConfig: ${workers} workers with useTpu, and no ${missing.join(' and no ').replace(/: '[^']*'/g, '')}: ` +
        `a slice is reserved as a whole: say which, as in ${missing.join(', ')}`,
    );
  }
  const common = { workers, device: 'tpu', reduce: workers > 1 ? 'xla' : 'none', mesh } as const;
  const slice = topology ? sliceOf(topology, acceleratorType) : undefined;
  if (!slice) return { ...common, resources: { TPU: 1, ...resourcesPerWorker } };
  const { chips, slices } = chipsOf(slice, workers, resourcesPerWorker.TPU);
  if (mesh) checkMesh(mesh, slice.devices * slices);
  return { ...common, slice, slices, resources: { ...resourcesPerWorker, TPU: chips } };
}

/** v6e-8 and v4:2x2x2 do, 2x2x2 does not. */
const namesChip = (topology: string): boolean => /^\s*[a-z]\w*[-:]/i.test(topology);
/** '2x2' of a 'TPU-V4' is v4:2x2x1. */
function sliceOf(topology: string, type: string | undefined): Slice {
  const generation = type?.replace(/^tpu-/i, '');
  const chip = generation === undefined ? undefined : findChip(generation);
  if (namesChip(topology)) {
    const slice = parseTopology(topology);
    if (!type || chip === slice.chip) return slice;
    throw new ArgumentError(`ScalingConfig: topology ${topology} is no ${type}: leave acceleratorType out`);
  }
  if (!/^\d+(x\d+)*$/.test(topology))
    throw new ArgumentError(
      `ScalingConfig: topology is '${topology}': it must be sizes in chips, as in '2x2x2', or a slice, as in 'v6e-16'`,
    );
  if (!type)
    throw new ArgumentError(
      `ScalingConfig: topology ${topology} is of no TPU: say of which, as in acceleratorType: 'TPU-V4'`,
    );
  const missing = Math.max(0, (chip?.platform === 'tpu' ? chip.ici.dimensions : 0) - topology.split('x').length);
  return parseTopology(`${generation}:${topology}${'x1'.repeat(missing)}`);
}

/** How many chips each worker has. */
function chipsOf(slice: Slice, workers: number, given: number | undefined): { chips: number; slices: number } {
  const { name, chips: all, hosts } = slice;
  const perHost = all / hosts;
  const refuse = (why: string): never => {
    throw new ArgumentError(
      `ScalingConfig: ${why}: use numWorkers: ${hosts}, one for each host of ${plural(perHost, 'chip')}`,
    );
  };
  const chips = given ?? all / workers;
  if (!Number.isSafeInteger(chips))
    refuse(`${name} has ${plural(all, 'chip')}, and ${all} / ${workers} workers is no whole number`);
  const slices = (chips * workers) / all;
  if (!Number.isSafeInteger(slices))
    refuse(`${plural(workers, 'worker')} x TPU: ${chips} = ${plural(chips * workers, 'chip')}, and ${name} has ${all}`);
  if (perHost % chips)
    refuse(
      `${plural(chips, 'chip')} for each of ${plural(workers, 'worker')}, and a host of ${name} has ${perHost}: a worker's chips are on one host`,
    );
  return { chips, slices };
}

/** One line that says how workers come to the same gradients. */
export function saySync({ workers, reduce }: Pick<Scale, 'workers' | 'reduce'>, engine: string): string | undefined {
  if (reduce === 'none') return undefined;
  return reduce === 'xla'
    ? `${workers} workers: gradients are summed by XLA's collectives, inside the program`
    : `${workers} workers: gradients are averaged by ${engine}, between backward and the update`;
}
