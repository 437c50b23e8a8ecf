// What the tests of split tensors share: eight virtual devices in one process, two meshes of them, and ways to look.
process.env.CPU_NUM_DEVICES = '8';
process.env.TSXLA_CACHE = 'off';

import * as tx from 'tsxla';
import { afterAll } from 'vitest';
import type { ShardedArray } from '../../dist/runtime/sharded.js';
import { defaultClient } from '../../dist/runtime/value.js';

export type Mesh = InstanceType<typeof tx.spmd.Mesh>;
export type Spec = Parameters<typeof tx.spmd.markSharding>[2];
export const mesh = new tx.spmd.Mesh([2, 4], ['data', 'model']);
export const line = new tx.spmd.Mesh([8], ['all']);
export const client = await defaultClient();
afterAll(async () => void (await tx.sync({ wait: true })));

/** 0, 1, 2, ... */
export const count = (shape: number[], options: object = {}) =>
  tx.fromBuffer(
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => i),
    {
      dtype: 'f32',
      shape,
      ...options,
    },
  );
export const list = async (t: tx.Tensor) => Array.from(await t.data(), Number);
export const upTo = (n: number) => Array.from({ length: n }, (_, i) => i);
const compiled = () => tx.metrics.counter('StableHloCompile') ?? 0;
/** How many programs are compiled while fn runs. */
export async function compiles(fn: () => Promise<unknown>): Promise<number> {
  const before = compiled();
  await fn();
  return compiled() - before;
}
export const settled = async () => {
  await tx.sync({ wait: true });
  // Finalizers run in turns of the event loop, and what they let go is found by the next collection.
  let { buffers } = client.live;
  for (let same = 0, round = 0; same < 4 && round < 40; round++) {
    globalThis.gc!();
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setTimeout(resolve, 5));
    same = client.live.buffers === buffers ? same + 1 : 0;
    ({ buffers } = client.live);
  }
  return buffers;
};
export const stored = (t: tx.Tensor) => t.peek()!.record!.value as ShardedArray;
/** What each device holds. */
export const held = async (t: tx.Tensor) =>
  Object.fromEntries(
    await Promise.all(stored(t).shards.map(async (s) => [s.device.id, Array.from(await s.toHost(), Number)] as const)),
  );
