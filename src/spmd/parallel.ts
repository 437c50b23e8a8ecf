// Ways of training on many devices, as data: which dimension of which parameter is split along which axis. They combine: each
// splits further what those before it left whole. XLA finds from it where to gather, scatter and reduce.
import { ArgumentError } from '../base/errors.js';
import type { Shape } from '../base/shape.js';
import { describe, flatten } from '../base/tree.js';
import type { Mesh, PartitionSpec } from '../ir/mesh.js';
import { Tensor } from '../tensor/tensor.js';
import { gatherAlong } from './gathered.js';
import { checkMesh, mark, replicate, shardingOf } from './sharding.js';
import { BATCH_AXES, batchAxes } from './shares.js';

/** A module, as far as it matters here. */
export interface Splittable {
  namedParameters(): Iterable<readonly [name: string, parameter: Tensor]>;
  namedBuffers(): Iterable<readonly [name: string, buffer: Tensor]>;
}

/** Every device has the whole model and a part of the batch: gradients are summed over `axis` on their way. */
export function dataParallel<M extends Splittable>(model: M, mesh: Mesh, { axis = 'data' }: AxisOptions = {}): M {
  split('dataParallel', model, mesh, axis, (_, __, spec) => spec);
  return model;
}

export interface AxisOptions {
  readonly axis?: string;
}
export interface FsdpOptions extends AxisOptions {
  /** Parameters with fewer elements, in one layer, stay whole: gathering them would cost more than they take. */
  readonly minSize?: number;
}

/**
 * Every device has a part of each parameter (ZeRO-3): of its largest dimension that divides and is not split yet. It is
 * gathered where it is used, its gradient is reduced and scattered, and an optimizer's state of it lies beside it.
 */
export function fsdp<M extends Splittable>(model: M, mesh: Mesh, options: FsdpOptions = {}): M {
  const { axis = 'fsdp', minSize = 2 ** 16 } = options;
  split('fsdp', model, mesh, axis, (name, { shape, size }, spec) => {
    const isSmall = size < minSize || spec.flat().includes(axis);
    const dim = isSmall ? -1 : largestFree(shape, spec, mesh.sizeOf(axis), isStacked(name));
    return dim < 0 ? spec : withAxis(spec, dim, axis);
  });
  for (const t of [...model.namedParameters(), ...model.namedBuffers()].map(([, t]) => t)) {
    const sharding = shardingOf(t)!;
    if (sharding.axes.some((list) => list.includes(axis))) gatherAlong(t, sharding, axis);
  }
  return model;
}

/** Parameters by patterns of their names (* stands for anything), and the dimension that is split; null: none is. */
export type ParallelTable = Readonly<Record<string, number | null>>;
/**
 * Each product is computed by several devices. A weight [out, in] that is split along 0 gives each of them some of the
 * outputs; one along 1 takes those, and the results are summed.
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
    const dim = row.dim + (isStacked(name) ? 1 : 0);
    if (dim >= shape.length)
      throw new ArgumentError(
        `tensorParallel: ${row.pattern} splits dimension ${row.dim}, and ${name} has ${shape.length}`,
      );
    return withAxis(spec, dim, axis);
  });
  const idle = rows.filter((r) => !r.used).map((r) => r.pattern);
  if (idle.length === rows.length)
    throw new ArgumentError(
      `tensorParallel: none of ${idle.join(', ')} is the name of a parameter: it is another model's table`,
    );
  return model;
}

const meshes = new WeakMap<object, Mesh>();
/**
 * All the ways whose axes the mesh has: data, fsdp, and, by the table, model. What was split already stays so: it can be called
 * again for what was added.
 */
export function parallelize<M extends Splittable>(model: M, mesh: Mesh, table?: ParallelTable): M {
  checkMesh('parallelize', mesh);
  const has = (axis: string) => mesh.axisNames.includes(axis);
  const other = mesh.axisNames.find((axis) => ![...PARALLEL_AXES, 'sequence'].includes(axis));
  if (other)
    throw new ArgumentError(
      `parallelize: the mesh ${mesh} has an axis ${other}, and data, fsdp, sequence and model are known: use dataParallel, fsdp and tensorParallel, which take { axis }`,
    );
  if (has('model') && !table)
    throw new ArgumentError('parallelize: for the axis model it takes a table, such as QWEN3_TENSOR_PARALLEL');
  if (has('model')) tensorParallel(model, mesh, table!);
  if (has('fsdp')) fsdp(model, mesh);
  if (!has('model') && !has('fsdp')) dataParallel(model, mesh, { axis: mesh.axisNames[0]! });
  meshes.set(model, mesh);
  return model;
}

/** A batch, split over the mesh of a model that was parallelized, if that divides it; any other as it is. */
export function batchFor<T>(model: Splittable, batch: T): T {
  const mesh = meshes.get(model);
  if (!mesh) return batch;
  const shares = mesh.sizeOf(batchAxes(mesh));
  return tensorsIn(batch).every((t) => t.ndim && t.shape[0]! % shares === 0) ? shardBatch(batch, mesh) : batch;
}

/** A result that every process can read: whole on all devices of the mesh of a model that was parallelized. */
export function readableFor(model: Splittable, result: Tensor): Tensor {
  const mesh = meshes.get(model);
  return mesh ? replicate(result, mesh) : result;
}

/** Splits tensors, in any tree, over a mesh: the batch (dimension 0) along the axes that share work, a sequence along its own. */
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
  /** data and fsdp, those that the mesh has, unless told. */
  readonly axes?: readonly string[];
  /** The axis along which sequences (dimension 1) are split. */
  readonly sequence?: string;
}
/** Axes along which `parallelize` or `batchFor` splits something: along a further one, devices would do the same twice. */
export const PARALLEL_AXES: readonly string[] = [...BATCH_AXES, 'model'];

// ---- how they are found

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
      `${what}: the mesh ${mesh} has no axis ${axis}: name one of its axes so, or pass { axis: '${mesh.axisNames[0]}' }`,
    );
  for (const [name, p] of [...model.namedParameters(), ...model.namedBuffers()]) {
    const known = shardingOf(p);
    const spec = known && known.mesh.key === mesh.key ? known.spec : [];
    const size = p.numel() / (isStacked(name) ? p.shape[0]! : 1);
    mark(`${what}: ${name}`, p, mesh, specOf(name, { shape: p.shape, size }, spec));
  }
}

/** The parameters of a LayerStack hold those of all layers, along a first dimension that a loop goes through. */
const isStacked = (name: string): boolean => name.split('.').includes('*');

const isFree = (spec: PartitionSpec, dim: number): boolean => spec[dim] === undefined || spec[dim] === null;

function largestFree(shape: Shape, spec: PartitionSpec, parts: number, stacked: boolean): number {
  let best = -1;
  for (let d = stacked ? 1 : 0; d < shape.length; d++)
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
