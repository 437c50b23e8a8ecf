// How a job is spread over the devices of a slice: data, every device has the model and its own sequences; fsdp, every device has a
// part of each weight, too; model, every product is computed by several devices.
import { ArgumentError } from '../base/errors.js';
import { plural } from '../base/format.js';
import { QWEN3_TENSOR_PARALLEL } from '../models/index.js';
import type { Module } from '../nn/module.js';
import type { Slice } from '../plan/index.js';
import { dataParallel, fsdp, Mesh, shardBatch, tensorParallel } from '../spmd/index.js';

export const AXES = ['data', 'fsdp', 'model'] as const;
type Axis = (typeof AXES)[number];
/** How many devices lie along each axis; none: one device. */
export type MeshSizes = Readonly<Partial<Record<Axis, number>>>;

export const showMesh = (mesh: MeshSizes): string =>
  Object.entries(mesh)
    .map(([axis, size]) => `${axis}=${size}`)
    .join(',');

/** How many groups of devices have sequences of their own. */
export const sharesOf = ({ data = 1, fsdp = 1 }: MeshSizes): number => data * fsdp;

/** 'data=2,fsdp=4' for a slice of 8 devices; -1, once, is what remains. */
export function parseMesh(text: string, slice: Slice): MeshSizes {
  const entries = text.split(',').map((part) => {
    const [, axis, size] = /^\s*([A-Za-z]\w*)=(-1|\d+)\s*$/.exec(part) ?? [];
    if (!axis) throw new ArgumentError(`--mesh ${text}: write data=2,fsdp=4, or auto`);
    if (!AXES.includes(axis as Axis))
      throw new ArgumentError(`--mesh ${text}: there is no axis ${axis}: use ${AXES.join(', ')}`);
    if (Number(size) === 0)
      throw new ArgumentError(`--mesh ${text}: ${axis} is 0: it is a whole number from 1, or -1 for what remains`);
    return [axis as Axis, Number(size)] as const;
  });
  const twice = entries.find(([axis], i) => entries.findIndex(([other]) => other === axis) !== i);
  if (twice) throw new ArgumentError(`--mesh ${text}: ${twice[0]} is there twice`);
  const open = entries.filter(([, size]) => size === -1);
  if (open.length > 1) throw new ArgumentError(`--mesh ${text}: only one axis can be -1, what remains`);
  const fixed = entries.reduce((n, [, size]) => (size === -1 ? n : n * size), 1);
  if (open.length ? slice.devices % fixed : slice.devices !== fixed)
    throw new ArgumentError(
      open.length
        ? `--mesh ${text}: ${slice.accelerator} has ${plural(slice.devices, 'device')}, and ${slice.devices} / ${fixed} is no whole number`
        : `--mesh ${text} is ${plural(fixed, 'device')}, ${slice.accelerator} has ${slice.devices}: one axis may be -1, what remains`,
    );
  const sizes = entries.map(([axis, size]) => [axis, size === -1 ? slice.devices / fixed : size] as const);
  return slice.devices === 1 ? {} : Object.fromEntries(sizes);
}

/** What is tried unless told: what needs the least traffic, and what needs the least memory. */
export function autoMeshes({ devices }: Slice, trains: boolean, keyValueHeads: number): MeshSizes[] {
  if (devices === 1) return [{}];
  if (trains) return [{ data: devices }, { fsdp: devices }];
  const model = [devices, keyValueHeads].find((n) => devices % n === 0 && keyValueHeads % n === 0);
  if (!model || model === 1) return [{ data: devices }];
  return [{ data: devices }, devices === model ? { model } : { data: devices / model, model }];
}

/** Says how a model lies on such a mesh; undefined where it is one device. Before its optimizer is made, whose state follows. */
export function spread(model: Module, sizes: MeshSizes): Mesh | undefined {
  const axes = AXES.filter((axis) => sizes[axis] !== undefined);
  if (!axes.length) return undefined;
  const mesh = new Mesh(
    axes.map((axis) => sizes[axis]!),
    axes,
  );
  if (sizes.data) dataParallel(model, mesh);
  if (sizes.model) tensorParallel(model, mesh, QWEN3_TENSOR_PARALLEL);
  if (sizes.fsdp) fsdp(model, mesh);
  return mesh;
}

/** Tensors of all devices together, [B, ...], each part where it is worked on. */
export const spreadBatch = <T>(batch: T, mesh: Mesh | undefined): T => (mesh ? shardBatch(batch, mesh) : batch);
