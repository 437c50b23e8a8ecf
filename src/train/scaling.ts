// Derives the scale of a run from its configurations: the number of devices, their mesh, and how gradients of several workers are
// reduced. Contradictions are errors that show the arithmetic.

import { findChip } from '../base/chips.js';
import { ArgumentError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { parseTopology, type Slice } from '../base/slices.js';
import { virtualDevices } from '../runtime/device.js';
import { meshFromConfig, type SpmdConfig } from '../spmd/index.js';
import type { ScalingConfig, TorchConfig } from './config.js';

/**
 * How gradients are reduced over workers. 'none': there is one worker. 'xla': by XLA's collectives, inside the program (TPU,
 * CUDA). 'engine': between programs, by the engine that started the workers (CPU, where XLA's C API has no collectives).
 */
export type Reduce = 'none' | 'xla' | 'engine';

export interface Scale {
  readonly workers: number;
  readonly device: 'tpu' | 'cuda' | 'cpu' | 'auto';
  readonly reduce: Reduce;
  /** The TPU slice, and the number of slices. */
  readonly slice?: Slice;
  readonly slices?: number;
  /** The resources of each worker, by Ray's names. */
  readonly resources: Readonly<Record<string, number>>;
  /** The mesh: of all devices if XLA joins the workers, else of each worker's own; null: all devices on the data axis. */
  readonly mesh: SpmdConfig | null;
}

export function scaleOf(scaling: ScalingConfig, { backend, xlaSpmdConfig }: TorchConfig): Scale {
  const { numWorkers = 1, useTpu = false, useGpu = false, resourcesPerWorker = {} } = scaling;
  const workers = Math.max(1, numWorkers);
  if (backend === 'xla_tpu' && !useTpu)
    throw new ArgumentError(
      "TorchConfig: backend is 'xla_tpu', but ScalingConfig has no useTpu: true: set it, or use 'xla'",
    );
  const { partitioningMode: _, ...mesh } = xlaSpmdConfig ?? {};
  const asked = xlaSpmdConfig ? mesh : null;
  if (useTpu) return tpuScale(scaling, workers, asked);
  const common = { workers, resources: { CPU: 1, ...resourcesPerWorker } };
  if (useGpu) {
    const { GPU = 1 } = resourcesPerWorker;
    if (workers > 1 && !(Number.isSafeInteger(GPU) && GPU))
      throw new ArgumentError(
        `ScalingConfig: ${workers} workers with useGpu, but resourcesPerWorker has GPU: ${GPU}: give each worker a whole number of GPUs, 1 or more`,
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

/** Throws if the sizes of the mesh do not match the number of devices. */
const checkMesh = (mesh: SpmdConfig, devices: number) => meshFromConfig(mesh, devices);

/** The mesh of one of several CPU workers: only the data axis is split over workers. */
function meshOfOne(mesh: SpmdConfig, workers: number): SpmdConfig {
  const each = virtualDevices();
  const whole = checkMesh(mesh, workers * each);
  const sizes = new Map(whole.axisNames.map((axis, i) => [axis, whole.shape[i]!]));
  const data = sizes.get('data') ?? 1;
  if (data % workers)
    throw new ArgumentError(
      `the mesh ${whole} has data ${data} on ${workers} CPU workers, and ${data} / ${workers} is not a whole number. CPU workers ` +
        `split only the data axis: make data a multiple of ${workers}, or use one worker with CPU_NUM_DEVICES=${workers * each}`,
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
      `ScalingConfig: ${workers} workers with useTpu, but no ${missing.join(' and no ').replace(/: '[^']*'/g, '')}: ` +
        `a whole slice is reserved: add ${missing.join(', ')}`,
    );
  }
  const common = { workers, device: 'tpu', reduce: workers > 1 ? 'xla' : 'none', mesh } as const;
  const slice = topology ? sliceOf(topology, acceleratorType) : undefined;
  if (!slice) return { ...common, resources: { TPU: 1, ...resourcesPerWorker } };
  const { chips, slices } = chipsOf(slice, workers, resourcesPerWorker.TPU);
  if (mesh) checkMesh(mesh, slice.devices * slices);
  return { ...common, slice, slices, resources: { ...resourcesPerWorker, TPU: chips } };
}

/** Whether a topology names its chip: v6e-8 and v4:2x2x2 do, 2x2x2 does not. */
const namesChip = (topology: string): boolean => /^\s*[a-z]\w*[-:]/i.test(topology);
/** '2x2' of a 'TPU-V4' is v4:2x2x1. */
function sliceOf(topology: string, type: string | undefined): Slice {
  const generation = type?.replace(/^tpu-/i, '');
  const chip = generation === undefined ? undefined : findChip(generation);
  if (namesChip(topology)) {
    const slice = parseTopology(topology);
    if (!type || chip === slice.chip) return slice;
    throw new ArgumentError(`ScalingConfig: topology ${topology} is not of type ${type}: leave acceleratorType out`);
  }
  if (!/^\d+(x\d+)*$/.test(topology))
    throw new ArgumentError(
      `ScalingConfig: topology is '${topology}': it must be sizes in chips, as in '2x2x2', or a slice, as in 'v6e-16'`,
    );
  if (!type)
    throw new ArgumentError(
      `ScalingConfig: topology ${topology} does not say which TPU it is: add acceleratorType, as in 'TPU-V4'`,
    );
  const missing = Math.max(0, (chip?.platform === 'tpu' ? chip.ici.dimensions : 0) - topology.split('x').length);
  return parseTopology(`${generation}:${topology}${'x1'.repeat(missing)}`);
}

/** The number of chips of each worker, and the number of slices. */
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
    refuse(`${name} has ${plural(all, 'chip')}, and ${all} / ${workers} workers is not a whole number`);
  const slices = (chips * workers) / all;
  if (!Number.isSafeInteger(slices))
    refuse(`${plural(workers, 'worker')} x TPU: ${chips} = ${plural(chips * workers, 'chip')}, and ${name} has ${all}`);
  if (perHost % chips)
    refuse(
      `${plural(chips, 'chip')} for each of ${plural(workers, 'worker')}, but a host of ${name} has ${perHost}, and a worker's chips are on one host`,
    );
  return { chips, slices };
}

/** A log line that says how gradients are reduced over workers. */
export function describeSync(
  { workers, reduce }: Pick<Scale, 'workers' | 'reduce'>,
  engine: string,
): string | undefined {
  if (reduce === 'none') return undefined;
  return reduce === 'xla'
    ? `${workers} workers: gradients are summed by XLA's collectives, inside the program`
    : `${workers} workers: gradients are averaged by ${engine}, between backward and the update`;
}
