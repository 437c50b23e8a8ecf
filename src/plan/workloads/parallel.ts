// Splits a workload over the devices of a slice. data: every device has the model and its own sequences; fsdp: in addition every
// device has only a part of each weight; model: every product is computed by several devices.
import type { DecoderForCausalLM } from '../../models/index.js';
import { BATCH_AXES, type Mesh, meshOf, type ParallelSizes, parallelize, parseSizes } from '../../spmd/index.js';
import { PARALLEL_AXES } from '../../spmd/parallel.js';
import type { Slice } from '../index.js';

export const showMesh = (sizes: ParallelSizes): string =>
  Object.entries(sizes)
    .map(([axis, size]) => `${axis}=${size}`)
    .join(',');

const product = (sizes: ParallelSizes, among: readonly string[] = Object.keys(sizes)): number =>
  among.reduce((n, axis) => n * (sizes[axis as keyof ParallelSizes] ?? 1), 1);

/** The number of groups of devices with different sequences. */
export const sharesOf = (sizes: ParallelSizes): number => product(sizes, BATCH_AXES);

/** Parses 'data=2,fsdp=4' or 'data=2,fsdp=-1' for a slice of 8 devices; empty for a single device. */
export function parseMesh(text: string, slice: Slice): ParallelSizes {
  const sizes = parseSizes(text, '--mesh', PARALLEL_AXES);
  const mesh = meshOf(sizes, slice.devices, `--mesh ${text} on ${slice.accelerator}`, { fixed: true });
  return mesh.size === 1 ? {} : Object.fromEntries(mesh.axisNames.map((axis) => [axis, mesh.sizeOf(axis)]));
}

/** The meshes that 'auto' tries: the one with the least traffic, and the one with the least memory. */
export function autoMeshes({ devices }: Slice, trains: boolean, keyValueHeads: number): ParallelSizes[] {
  if (devices === 1) return [{}];
  if (trains) return [{ data: devices }, { fsdp: devices }];
  const model = [devices, keyValueHeads].find((n) => devices % n === 0 && keyValueHeads % n === 0);
  if (!model || model === 1) return [{ data: devices }];
  return [{ data: devices }, devices === model ? { model } : { data: devices / model, model }];
}

/** Shards a model over a mesh; undefined for one device. Call it before creating the optimizer, whose state follows. */
export function spread(model: DecoderForCausalLM, sizes: ParallelSizes): Mesh | undefined {
  const devices = product(sizes);
  if (devices === 1) return undefined;
  const mesh = meshOf(sizes, devices);
  parallelize(model, mesh, model.architecture.tensorParallel);
  return mesh;
}
