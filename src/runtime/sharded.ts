// ShardedArray: an array on several devices, each with a part or a copy of it.

import { blockOf, putBlock } from '../base/blocks.js';
import { type ArrayType, hostArray, sizeOf, type TypedArray } from '../base/dtype.js';
import { ArgumentError } from '../base/errors.js';
import type { Aval } from '../ir/aval.js';
import type { Mesh, Sharding } from '../ir/mesh.js';
import { Buffer, type Client, type Device } from '../pjrt/index.js';

export class ShardedArray {
  /** As in Buffer. */
  shared = false;

  constructor(
    readonly client: Client,
    readonly aval: Aval,
    readonly sharding: Sharding,
    /** The shards on this process's devices, in the order of the mesh. */
    readonly shards: readonly Buffer[],
  ) {}

  /** Splits a host array: every device gets its part. */
  static fromHost(client: Client, data: TypedArray, aval: Aval, sharding: Sharding): ShardedArray {
    const block = sharding.shardShape(aval.shape);
    const type = { dtype: aval.dtype, shape: block };
    return ShardedArray.build(client, aval, sharding, (position, device) =>
      client.bufferFromHost(blockOf(data, aval.shape, sharding.startOf(aval.shape, position), block), type, device),
    );
  }

  /** Copies a buffer to every device. */
  static replicate(buffer: Buffer, aval: Aval, sharding: Sharding): ShardedArray {
    return ShardedArray.build(buffer.client, aval, sharding, (_, device) =>
      device === buffer.device ? buffer : buffer.copyTo(device),
    );
  }

  private static build(
    client: Client,
    aval: Aval,
    sharding: Sharding,
    make: (position: number, device: Device) => Buffer,
  ): ShardedArray {
    const places = placesOf(client, sharding.mesh);
    return new ShardedArray(
      client,
      aval,
      sharding,
      places.map(([position, device]) => make(position, device)),
    );
  }

  get disposed(): boolean {
    return this.shards.some((s) => s.disposed);
  }
  get failure(): Error | undefined {
    return this.shards[0]!.failure;
  }
  set failure(error: Error | undefined) {
    for (const shard of this.shards) shard.failure = error;
  }
  dispose(): void {
    for (const shard of this.shards) shard.dispose();
  }
  async ready(): Promise<void> {
    await Promise.all(this.shards.map((s) => s.ready()));
  }
  describe(): string {
    return `${this.aval} ${this.sharding}`;
  }

  /** The whole array, assembled on the host. */
  async toHost(): Promise<TypedArray> {
    const { aval, sharding } = this;
    if (sharding.isReplicated) return this.shards[0]!.toHost();
    if (!aval.size) return hostArray(aval as ArrayType);
    const block = sharding.shardShape(aval.shape);
    const starts = placesOf(this.client, sharding.mesh).map(([position]) => sharding.startOf(aval.shape, position));
    const first = new Map(starts.map((start, i) => [String(start), i] as const).reverse()); // one shard of each part
    const parts = sizeOf(sharding.parts(aval.rank));
    if (first.size < parts)
      throw new ArgumentError(
        `${aval} is ${sharding}, and this process has ${first.size} of its ${parts} parts: read it after replicate(), or save it with a sharded checkpoint`,
      );
    const whole = hostArray(aval as ArrayType);
    await Promise.all(
      [...first.values()].map(async (i) =>
        putBlock(whole, aval.shape, starts[i]!, block, await this.shards[i]!.toHost()),
      ),
    );
    return whole;
  }
}

/** A node's value on one or several devices. */
export type Stored = Buffer | ShardedArray;
export const isStored = (value: unknown): value is Stored => value instanceof Buffer || value instanceof ShardedArray;

const places = new WeakMap<Client, Map<string, readonly (readonly [position: number, device: Device])[]>>();
/** The devices of a mesh that belong to this process, each with its position in the mesh. */
export function placesOf(client: Client, mesh: Mesh): readonly (readonly [position: number, device: Device])[] {
  const known = places.get(client) ?? new Map();
  places.set(client, known);
  let list = known.get(mesh.key);
  if (!list) {
    checkDevices(client, mesh);
    list = mesh.devices.flatMap((id, position) => {
      const device = client.addressableDevices.find((d) => d.id === id);
      return device ? [[position, device] as const] : [];
    });
    known.set(mesh.key, list);
  }
  return list;
}

/** The devices of a mesh that do not exist in any process. */
export const missingDevices = ({ devices }: Client, mesh: Mesh): number[] =>
  mesh.devices.filter((id) => !devices.some((d) => d.id === id));

function checkDevices(client: Client, mesh: Mesh): void {
  const missing = missingDevices(client, mesh);
  if (!missing.length) return;
  const { devices, platform } = client;
  const needed = Math.max(mesh.size, ...missing.map((id) => id + 1));
  const virtual = platform === 'cpu' ? `: set CPU_NUM_DEVICES=${needed} for that many virtual devices` : '';
  const which = mesh.size <= devices.length ? ` (there is no device ${missing.join(', ')})` : '';
  throw new ArgumentError(
    `the mesh ${mesh} needs ${needed} devices, but ${platform} has ${devices.length}${which}${virtual}`,
  );
}
