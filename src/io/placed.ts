// Reads arrays of files onto several devices: each part is read from its position in the file and sent to its devices.

import type { DType, HostArray, TypedArray } from '../base/dtype.js';
import { hostArray, sizeOf } from '../base/dtype.js';
import { decodeFloats, encodeNumbers } from '../base/float.js';
import type { Shape } from '../base/shape.js';
import { unravel } from '../base/shape.js';
import type { Aval } from '../ir/aval.js';
import type { Sharding } from '../ir/mesh.js';
import type { Buffer, Client } from '../pjrt/index.js';
import { collectGarbage } from '../runtime/memory.js';
import { placesOf, ShardedArray } from '../runtime/sharded.js';

/** Reads the block of an array that begins there. */
export type ReadBlock = (start: Shape, block: Shape) => Promise<TypedArray>;

/** Whether devices have different parts. */
export const isSplit = (sharding: Sharding | undefined, shape: Shape): sharding is Sharding =>
  sharding?.parts(shape.length).some((n) => n > 1) ?? false;

const GARBAGE = 256 * 2 ** 20; // bytes of parts that are on their devices: the collector by itself would wait for more
let garbage = 0;

/** Reads an array onto the devices of a mesh. Replicated parts are read once; one part at a time is on the host. */
export async function readParts(
  client: Client,
  aval: Aval,
  sharding: Sharding,
  read: ReadBlock,
): Promise<ShardedArray> {
  const block = sharding.shardShape(aval.shape);
  const places = placesOf(client, sharding.mesh);
  const starts = places.map(([position]) => sharding.startOf(aval.shape, position));
  const shards: Buffer[] = [];
  for (const [i, start] of starts.entries()) {
    if (shards[i]) continue;
    const data = await read(start, block);
    places.forEach(([, device], k) => {
      if (String(starts[k]) === String(start))
        shards[k] = client.bufferFromHost(data, { dtype: aval.dtype, shape: block }, device);
    });
    garbage += data.byteLength;
    if (garbage < GARBAGE) continue;
    await collectGarbage();
    garbage = 0;
  }
  return new ShardedArray(client, aval, sharding, shards);
}

/** Blocks of an array whose rows are arrays of their own. */
export const ofRows =
  (dtype: DType, counts: Shape, readRow: (row: number, start: Shape, block: Shape) => Promise<TypedArray>): ReadBlock =>
  async (start, shape) => {
    const n = counts.length;
    const rows = hostArray({ dtype, shape });
    const wanted = sizeOf(shape.slice(0, n));
    for (let i = 0; i < wanted; i++) {
      const row = unravel(i, shape.slice(0, n)).reduce((row, at, d) => row * counts[d]! + start[d]! + at, 0);
      rows.set((await readRow(row, start.slice(n), shape.slice(n))) as never, (i * rows.length) / wanted);
    }
    return rows;
  };

/** An array's elements in another dtype. On the host: a program for each shape would take longer. */
export function converted({ dtype, data }: HostArray, to: DType): TypedArray {
  if (dtype === to) return data;
  const isLarge = data instanceof BigInt64Array || data instanceof BigUint64Array;
  const numbers = isLarge ? Float64Array.from(data as BigInt64Array, Number) : decodeFloats(dtype, data);
  return to === 'f32' && numbers instanceof Float32Array ? numbers : encodeNumbers(to, numbers as ArrayLike<number>);
}
