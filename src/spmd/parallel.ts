// Data, FSDP and tensor parallelism, as shardings of parameters. They can be combined: each splits dimensions that are still
// whole. XLA derives from the shardings where to gather, scatter and reduce.
import { sizeOf } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { describe, flatten } from '../base/tree.js';
import { BATCH_AXES, type Mesh, type PartitionSpec } from '../ir/mesh.js';
import { logShardings } from '../observe/setup.js';
import { Tensor } from '../tensor/tensor.js';
import { gatherAlong } from './gathered.js';
import { checkMesh, mark, replicate, shardingOf } from './sharding.js';
import { batchAxes } from './shares.js';

/** The part of nn.Module that is used here. */
export interface Splittable {
  namedParameters(): Iterable<readonly [name: string, parameter: Tensor]>;
  namedBuffers(): Iterable<readonly [name: string, buffer: Tensor]>;
}

/** Data parallelism: every device has the whole model and a part of the batch; gradients are summed over `axis`. */
export function dataParallel<M extends Splittable>(model: M, mesh: Mesh, { axis = 'data' }: AxisOptions = {}): M {
  split('dataParallel', model, mesh, axis, (_, __, spec) => spec);
  return model;
}

export interface AxisOptions {
  readonly axis?: string;
}
export interface FsdpOptions extends AxisOptions {
  /** Parameters with fewer elements (per layer) are replicated: gathering them would cost more than the memory saved. */
  readonly minSize?: number;
}

/**
 * FSDP (ZeRO-3): splits the largest divisible dimension of each parameter that is not split yet. The parameter is gathered
 * where it is used, its gradient is reduced and scattered, and its optimizer state is split the same way.
 */
export function fsdp<M extends Splittable>(model: M, mesh: Mesh, options: FsdpOptions = {}): M {
  const { axis = 'fsdp', minSize = 2 ** 16 } = options;
  split('fsdp', model, mesh, axis, (name, { shape, size }, spec) => {
    const isSmall = size < minSize || spec.flat().includes(axis);
    const dim = isSmall ? -1 : largestFree(shape, spec, mesh.sizeOf(axis), stacksIn(name));
    return dim < 0 ? spec : withAxis(spec, dim, axis);
  });
  for (const t of [...model.namedParameters(), ...model.namedBuffers()].map(([, t]) => t)) {
    const sharding = shardingOf(t)!;
    if (sharding.axes.some((list) => list.includes(axis))) gatherAlong(t, sharding, axis);
  }
  return model;
}

/**
 * Patterns of parameter names (* matches anything), and the dimension to split; null: none; -1: experts, which are then
 * computed on the device that has them.
 */
export type ParallelTable = Readonly<Record<string, number | null>>;
/**
 * Tensor parallelism: several devices compute each product. A weight [out, in] split along 0 gives each device some of the
 * outputs; the next one, split along 1, takes these, and its results are summed.
 */
export function tensorParallel<M extends Splittable>(
  model: M,
  mesh: Mesh,
  table: ParallelTable,
  { axis = 'model' }: AxisOptions = {},
): M {
  const rows = Object.entries(table).map(([pattern, dim]) => ({
    pattern,
    dim,
    matches: matcher(pattern),
    used: false,
  }));
  split('tensorParallel', model, mesh, axis, (name, { shape }, spec) => {
    const row = rows.find(({ matches }) => matches(name));
    if (!row) return spec;
    row.used = true;
    if (row.dim === null || spec.flat().includes(axis)) return spec;
    const dim = row.dim + stacksIn(name);
    if (dim < 0 || dim >= shape.length)
      throw new ArgumentError(
        `tensorParallel: ${row.pattern} splits dimension ${row.dim}, but ${name} has ${shape.length} dimensions`,
      );
    return withAxis(spec, dim, axis);
  });
  const idle = rows.filter((r) => !r.used).map((r) => r.pattern);
  if (idle.length === rows.length)
    throw new ArgumentError(`tensorParallel: ${idle.join(', ')} match no parameter: the table is for another model`);
  return model;
}

const meshes = new WeakMap<object, Mesh>();
/**
 * Applies all kinds of parallelism for which the mesh has an axis: data, fsdp and, given the table, model. Tensors that are
 * already split are not changed, so it can be called again after adding modules.
 */
export function parallelize<M extends Splittable>(model: M, mesh: Mesh, table?: ParallelTable): M {
  checkMesh('parallelize', mesh);
  const has = (axis: string) => mesh.axisNames.includes(axis);
  const other = mesh.axisNames.find((axis) => ![...PARALLEL_AXES, 'sequence'].includes(axis));
  if (other)
    throw new ArgumentError(
      `parallelize: the mesh ${mesh} has an axis ${other}, but only data, fsdp, sequence and model are supported: use dataParallel, fsdp and tensorParallel, which take { axis }`,
    );
  if (has('model') && !table)
    throw new ArgumentError('parallelize: the axis model needs a table, such as model.architecture.tensorParallel');
  if (has('model')) tensorParallel(model, mesh, table!);
  if (has('fsdp')) fsdp(model, mesh);
  if (!has('model') && !has('fsdp')) dataParallel(model, mesh, { axis: mesh.axisNames[0]! });
  meshes.set(model, mesh);
  return model;
}

/** Splits a batch over the mesh of a parallelized model, if it is divisible; otherwise returns it unchanged. */
export function batchFor<T>(model: Splittable, batch: T): T {
  const mesh = meshes.get(model);
  if (!mesh) return batch;
  const shares = mesh.sizeOf(batchAxes(mesh));
  return tensorsIn(batch).every((t) => t.ndim && t.shape[0]! % shares === 0) ? shardBatch(batch, mesh) : batch;
}

/** Replicates a result over the mesh of a parallelized model, so that every process can read it. */
export function readableFor(model: Splittable, result: Tensor): Tensor {
  const mesh = meshes.get(model);
  return mesh ? replicate(result, mesh) : result;
}

/** Splits the tensors of a tree over a mesh: dimension 0 along the data axes, sequences along their own axis. */
export function shardBatch<T>(batch: T, mesh: Mesh, { axes, sequence }: BatchOptions = {}): T {
  checkMesh('shardBatch', mesh);
  const shared = axes ?? batchAxes(mesh);
  const spec: PartitionSpec = sequence ? [shared, sequence] : [shared];
  for (const t of tensorsIn(batch)) mark('shardBatch: the tensor', t, mesh, spec.slice(0, t.ndim));
  return batch;
}
const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;
const tensorsIn = (batch: unknown): readonly Tensor[] =>
  flatten('the batch', batch, isTensor, 'a tensor, or nested arrays and objects of those').leaves;
export interface BatchOptions {
  /** The axes to split the batch along. Default: data and fsdp, if the mesh has them. */
  readonly axes?: readonly string[];
  /** The axis along which sequences (dimension 1) are split. */
  readonly sequence?: string;
}
/** Axes that `parallelize` or `batchFor` split along: along any other axis, devices would repeat the same work. */
export const PARALLEL_AXES: readonly string[] = [...BATCH_AXES, 'model'];

// ---- finding parameters

function split<M extends Splittable>(
  what: string,
  model: M,
  mesh: Mesh,
  axis: string,
  specOf: (
    name: string,
    /** `size`: of one layer's. */
    parameter: { readonly shape: Shape; readonly size: number },
    spec: PartitionSpec,
  ) => PartitionSpec,
): void {
  if (typeof model?.namedParameters !== 'function')
    throw new ArgumentError(`${what}: takes a module, got ${describe(model)}`);
  checkMesh(what, mesh);
  if (!mesh.axisNames.includes(axis))
    throw new ArgumentError(
      `${what}: the mesh ${mesh} has no axis ${axis}: rename one of its axes, or pass { axis: '${mesh.axisNames[0]}' }`,
    );
  for (const [name, p] of [...model.namedParameters(), ...model.namedBuffers()]) {
    const known = shardingOf(p);
    const spec = known && known.mesh.key === mesh.key ? known.spec : [];
    const size = p.numel() / sizeOf(p.shape.slice(0, stacksIn(name)));
    mark(`${what}: ${name}`, p, mesh, specOf(name, { shape: p.shape, size }, spec));
  }
  logShardings(`${what} along ${axis}`, mesh, () =>
    [...model.namedParameters(), ...model.namedBuffers()].map(([name, t]) => ({
      name,
      aval: t.aval,
      sharding: shardingOf(t),
    })),
  );
}

/** The parameters of a LayerStack hold those of all layers, along a first dimension that a loop goes through; so do experts. */
const stacksIn = (name: string): number => name.split('.').filter((part) => part === '*').length;

const isFree = (spec: PartitionSpec, dim: number): boolean => spec[dim] === undefined || spec[dim] === null;

function largestFree(shape: Shape, spec: PartitionSpec, parts: number, stacks: number): number {
  let best = -1;
  for (let d = stacks; d < shape.length; d++)
    if (isFree(spec, d) && shape[d]! % parts === 0 && shape[d]! > (shape[best] ?? 1)) best = d;
  return best;
}

const withAxis = (spec: PartitionSpec, dim: number, axis: string): PartitionSpec =>
  Array.from({ length: Math.max(spec.length, dim + 1) }, (_, d) => (d === dim ? axis : (spec[d] ?? null)));

const matcher = (pattern: string): ((name: string) => boolean) => {
  const parts = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  const regex = new RegExp(`^(?:.*\\.)?${parts.join('.*')}$`);
  return (name) => regex.test(name);
};
