// Several processes that run one program: the index of this one, and its part of each batch.

import { blockOf } from '../base/blocks.js';
import type { ArrayType, TypedArray } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import { flatten, leafName } from '../base/tree.js';
import { Aval } from '../ir/aval.js';
import { type Mesh, type PartitionSpec, Sharding } from '../ir/mesh.js';
import { input } from '../ops/prim/variable.js';
import type { Client, Device } from '../pjrt/index.js';
import { fetchArray } from '../runtime/evaluate.js';
import { processesOf } from '../runtime/processes.js';
import { placesOf, ShardedArray } from '../runtime/sharded.js';
import { defaultClient, nodeValue, setValue } from '../runtime/value.js';
import { Tensor } from '../tensor/tensor.js';
import type { BatchOptions } from './parallel.js';
import { checkMesh, markSharding } from './sharding.js';
import { batchAxes } from './shares.js';

/** The index of this process among those that compute together. */
export const processIndex = async (): Promise<number> => (await defaultClient()).processIndex;
export const processCount = async (): Promise<number> => processesOf(await defaultClient());

/** The index of one of `count` equal parts of every batch. */
export interface Share {
  readonly index: number;
  readonly count: number;
}

/**
 * The part of each batch that this process must load, for `new DistributedSampler(size, { rank: index, world: count })`.
 * Processes whose devices work on the same examples (along axes that split the model) load the same part.
 */
export async function batchShare(mesh: Mesh, { axes }: Pick<BatchOptions, 'axes'> = {}): Promise<Share> {
  checkMesh('batchShare', mesh);
  return shareIn(await defaultClient(), mesh, axes ?? batchAxes(mesh));
}

/**
 * Global tensors from a tree of local ones: every process gives its own rows, and dimension 0 of the result is that of all
 * shares together. Default spec: rows are split along data and fsdp. In a single process the same as shardBatch.
 */
export async function fromLocal<T>(local: T, mesh: Mesh, spec?: PartitionSpec): Promise<T> {
  checkMesh('fromLocal', mesh);
  const isTensor = (x: unknown): x is Tensor => x instanceof Tensor;
  const flat = flatten('fromLocal: the batch', local, isTensor, 'a tensor, or nested arrays and objects of those');
  const known = spec ?? [batchAxes(mesh)];
  const whole = flat.leaves.map((t, i) =>
    wholeOf(t, mesh, known.slice(0, spec ? undefined : t.ndim), leafName('fromLocal: the batch', flat.paths[i]!)),
  );
  return flat.rebuild(await Promise.all(whole)) as T;
}

/** The same for one tensor, whose name in errors is `what`. */
export async function wholeOf(t: Tensor, mesh: Mesh, spec: PartitionSpec, what: string): Promise<Tensor> {
  const client = await defaultClient();
  const [first = []] = spec;
  const share = shareIn(client, mesh, typeof first === 'string' ? [first] : (first ?? []));
  const { count } = share;
  const shape = [...t.shape];
  if (count > 1) shape[0]! *= count;
  const rows = count > 1 ? `${what}, ${t.shape[0]} rows from each of ${count} processes:` : `${what},`;
  const sharding = Sharding.of(mesh, spec, shape, rows);
  if (count === 1) return markSharding(t, mesh, spec);
  const value = nodeValue(t.expr);
  const data = ArrayBuffer.isView(value) ? (value as TypedArray) : await fetchArray(t.expr, { cause: 'read' });
  const aval = Aval.of(t.dtype, shape);
  const shards = localShards(client, data, aval, sharding, share, placesOf(client, mesh));
  const whole = input(aval);
  setValue(whole, new ShardedArray(client, aval, sharding, shards));
  return new Tensor(whole);
}

/** The parts of an array that lie at these places, from the rows that are this process's share of it. */
export function localShards(
  client: Client,
  rows: TypedArray,
  { dtype, shape }: Aval,
  sharding: Sharding,
  { index, count }: Share,
  places: readonly (readonly [position: number, device: Device])[],
) {
  const own = [shape[0]! / count, ...shape.slice(1)];
  const block = sharding.shardShape(shape);
  return places.map(([position, device]) => {
    const [row, ...rest] = sharding.startOf(shape, position);
    const part = blockOf(rows, own, [row! - index * own[0]!, ...rest], block);
    return client.bufferFromHost(part, { dtype, shape: block } as ArrayType, device);
  });
}

function shareIn(client: Client, mesh: Mesh, axes: readonly string[]): Share {
  placesOf(client, mesh); // says which devices are not there
  const processOf = new Map(client.devices.map(({ id, processIndex }) => [id, processIndex]));
  return shareOf(
    mesh,
    axes,
    mesh.devices.map((id) => processOf.get(id)!),
    client.processIndex,
  );
}

/** The share of process `me`, where `owners` has the process of each position of the mesh. */
export function shareOf(mesh: Mesh, axes: readonly string[], owners: readonly number[], me: number): Share {
  const total = mesh.sizeOf(axes);
  const partsOf = (process: number) =>
    [...new Set(owners.flatMap((owner, p) => (owner === process ? [mesh.along(axes, p)] : [])))].sort((a, b) => a - b);
  const mine = partsOf(me);
  if (!mine.length)
    throw new ArgumentError(`process ${me} has no device of the mesh ${mesh}, so it has no part of the batch`);
  const size = mine.length;
  for (const process of new Set(owners)) {
    const parts = partsOf(process);
    const together = parts.at(-1)! - parts[0]! + 1 === parts.length;
    if (together && parts.length === size && parts[0]! % size === 0) continue;
    throw new ArgumentError(
      `the mesh ${mesh} gives process ${process} the parts ${parts.join(', ')} of ${total} along ${axes.join(', ')}` +
        `${parts.length === size ? '' : `, and process ${me} ${size} of them`}: processes load equal parts that lie together: ` +
        'order the devices of the mesh so that those of a process are neighbours',
    );
  }
  return { index: mine[0]! / size, count: total / size };
}
