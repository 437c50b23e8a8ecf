// Arrays of files on several devices: each part is read from its own place in the file, and goes to the devices that have it.
import type { DType, HostArray, TypedArray } from '../base/dtype.js';
import { hostArray } from '../base/dtype.js';
import { decodeFloats, encodeNumbers } from '../base/float.js';
import type { Shape } from '../base/shape.js';
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

/** An array, read onto the devices of a mesh. A part that several have is read once; one part at a time is on the host. */
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
  (dtype: DType, readRow: (row: number, start: Shape, block: Shape) => Promise<TypedArray>): ReadBlock =>
  async ([first, ...start], shape) => {
    const [count, ...block] = shape;
    const rows = hostArray({ dtype, shape });
    for (let i = 0; i < count!; i++)
      rows.set((await readRow(first! + i, start, block)) as never, (i * rows.length) / count!);
    return rows;
  };

/** An array's elements in another dtype. On the host: a program for each shape would take longer. */
export function converted({ dtype, data }: HostArray, to: DType): TypedArray {
  if (dtype === to) return data;
  const isLarge = data instanceof BigInt64Array || data instanceof BigUint64Array;
  const numbers = isLarge ? Float64Array.from(data as BigInt64Array, Number) : decodeFloats(dtype, data);
  return to === 'f32' && numbers instanceof Float32Array ? numbers : encodeNumbers(to, numbers as ArrayLike<number>);
}
