// Loading onto a mesh: every device is given its parts alone, and each part is read from its own place in the file, once.
process.env.CPU_NUM_DEVICES = '8';

import fs from 'node:fs';
import fsp from 'node:fs/promises';
import path from 'node:path';
import type * as TX from 'tsxla';
import { expect, test, vi } from 'vitest';
import type { ShardedArray } from '../../dist/runtime/sharded.js';
import { folderOf } from '../models/support.js';
import { scratch } from '../scratch.js';

const tx = await import('tsxla');
const { defaultClient } = await import('../../dist/runtime/value.js');
const { loadArrays } = await import('../../dist/models/pretrained.js');
const { Mesh, markSharding } = tx.spmd;
const { newFolder } = scratch('loading');

const mesh = new Mesh([2, 4], ['data', 'model']);
const shardsOf = (t: TX.Tensor) => (t.expr.record!.value as ShardedArray).shards;
const numbers = (n: number) => Float32Array.from({ length: n }, (_, i) => i - n / 3);

class Several extends tx.nn.Module {
  both = new tx.nn.Parameter(tx.zeros([16, 8]));
  rows = new tx.nn.Parameter(tx.zeros([8, 6]));
  columns = new tx.nn.Parameter(tx.zeros([6, 8], { dtype: 'bf16' }));
  everywhere = new tx.nn.Parameter(tx.zeros([5]));
  one = new tx.nn.Parameter(tx.zeros([3]));
  stack = new tx.nn.LayerStack([0, 1, 2, 3].map(() => new tx.nn.Linear(4, 8)));
}
const SPECS: Record<string, TX.spmd.PartitionSpec> = {
  both: ['model', 'data'],
  rows: ['data'], // four devices have the same
  columns: [null, ['data', 'model']],
  everywhere: [],
  'stack.*.weight': [null, 'data', 'model'],
  'stack.*.bias': ['model'], // the layers themselves are split
};

/** How many bytes each read of a file gives while `run` does. */
async function reads(folder: string, run: () => Promise<unknown>): Promise<number[]> {
  const handle = await fsp.open(folder);
  const later = vi.spyOn(Object.getPrototypeOf(handle) as fsp.FileHandle, 'read');
  const now = vi.spyOn(fs, 'readSync');
  await run();
  const results = await Promise.all(later.mock.results.map((r) => r.value as Promise<{ bytesRead: number }>));
  const sizes = [...results.map((r) => r.bytesRead), ...now.mock.results.map((r) => r.value as number)];
  for (const spy of [later, now]) spy.mockRestore();
  await handle.close();
  return sizes;
}

test('each part is read once from its own range, and no device has more', async () => {
  const folder = newFolder();
  await fsp.mkdir(folder);
  const file = path.join(folder, 'model.safetensors');
  const model = new Several();
  const arrays = new Map(
    [...model.stateDict()].map(([name, { shape }]) => {
      const data = numbers(shape.reduce((a, b) => a * b, 1));
      return [name, { dtype: 'f32', shape, data }] as const;
    }),
  );
  await tx.io.writeSafetensors(file, arrays);
  const named = new Map(model.namedParameters());
  for (const [name, spec] of Object.entries(SPECS)) markSharding(named.get(name)!, mesh, spec);
  const client = await defaultClient();
  await using opened = await tx.io.openSafetensors(file);
  const before = client.live.buffers;
  const sizes = await reads(folder, () => loadArrays(model, opened));

  const bytes = [...opened.entries.values()].reduce((n, e) => n + e.byteLength, 0);
  expect(sizes.reduce((a, b) => a + b, 0)).toBe(bytes);
  expect(client.live.buffers - before).toBe(8 * Object.keys(SPECS).length + 1);
  for (const [name, spec] of Object.entries(SPECS)) {
    const tensor = named.get(name)!;
    const sharding = tx.spmd.Sharding.of(mesh, spec, tensor.shape);
    expect([name, shardsOf(tensor).map((s) => [s.device.id, s.type.shape])]).toEqual([
      name,
      mesh.devices.map((id) => [id, sharding.shardShape(tensor.shape)]),
    ]);
  }
  // From what cannot be read in parts, each device is given its part all the same.
  const both = named.get('both')!;
  tx.noGrad(() => both.zero_());
  await loadArrays(model, { entries: opened.entries, read: (name) => opened.read(name) });
  expect(shardsOf(both).map((s) => s.type.shape)).toEqual(Array(8).fill([4, 4]));
  for (const [name, t] of model.stateDict())
    expect([name, await t.to('f32').data()]).toEqual([name, arrays.get(name)!.data]);
});

test('a block of an array: its bytes, and an error where it is not inside', async () => {
  const folder = newFolder();
  await fsp.mkdir(folder);
  const file = path.join(folder, 'a.safetensors');
  await tx.io.writeSafetensors(file, { a: tx.arange(24).reshape([2, 3, 4]).to('i32') });
  await using opened = await tx.io.openSafetensors(file);
  const sizes = await reads(folder, async () => {
    const { data, shape } = await opened.readBlock('a', [0, 1, 2], [2, 2, 2]);
    expect([shape, [...data]]).toEqual([
      [2, 2, 2],
      [6, 7, 10, 11, 18, 19, 22, 23],
    ]);
  });
  expect(sizes).toEqual([8, 8, 8, 8]);
  await expect(opened.readBlock('a', [1, 0, 0], [2, 3, 4])).rejects.toThrow(
    'readBlock: a block [2, 3, 4] at [1, 0, 0] is out of range for i32[2, 3, 4]',
  );
});

test('a pretrained model is placed before its weights are read, and gives what it gives on one device', async () => {
  const { Qwen3ForCausalLM } = tx.models;
  const folder = folderOf('tied');
  const whole = await Qwen3ForCausalLM.fromPretrained(folder, { dtype: 'f32' });
  const split = await Qwen3ForCausalLM.fromPretrained(folder, {
    dtype: 'f32',
    scanLayers: true,
    place: (model) => {
      for (const p of model.parameters()) {
        const largest = p.shape.findIndex((n, d) => d >= p.ndim - 2 && n % 4 === 0);
        markSharding(
          p,
          mesh,
          p.shape.map((_, d) => (d === largest ? 'model' : null)),
        );
      }
    },
  });
  const biggest = split.parameters().reduce((a, b) => (a.numel() > b.numel() ? a : b));
  expect(shardsOf(biggest).map((s) => s.type.shape.reduce((a, b) => a * b, 1))).toEqual(
    Array(8).fill(biggest.numel() / 4),
  );
  const ids = tx.tensor([[1, 2, 3, 4, 5, 6]], { dtype: 'i32' });
  const [a, b] = await Promise.all([whole, split].map(async (m) => (await m.loss(ids)).item()));
  expect(Math.abs(Number(a) - Number(b))).toBeLessThan(1e-5);
});
