// Joining very many tensors: XLA compiles programs of a thousand parameters for minutes, so there are none.
import * as tx from 'tsxla';
import { expect, test, vi } from 'vitest';
import { MOST_JOINED } from '../dist/runtime/join.js';
import { counts, Program } from '../dist/runtime/program.js';

/** What was compiled and run meanwhile, and the most parameters of a program that was run. */
async function counted<T>(work: () => Promise<T>) {
  const before = { ...counts };
  const runs = vi.spyOn(Program.prototype, 'run');
  try {
    const value = await work();
    const inputs = runs.mock.calls.map(([, args]) => args.length);
    const [compiled, executed] = [counts.compiled - before.compiled, counts.executed - before.executed];
    return { value, compiled, executed, parameters: Math.max(0, ...inputs) };
  } finally {
    runs.mockRestore();
  }
}
const N = 5000;
const indices = Array.from({ length: N }, (_, i) => i);

test.each([0, 1, -1])('tensors of the host, along dim %i: on the host, without a program', async (dim) => {
  const parts = indices.map((i) => tx.tensor([[[i, -i]], [[i + 0.5, 1]]])); // [2, 1, 2]
  const { value, ...counts } = await counted(async () => (await tx.cat(parts, dim).tolist()) as number[][][]);
  expect(counts).toEqual({ compiled: 0, executed: 0, parameters: 0 });
  const rows = (i: number) => [[i, -i], [i + 0.5, 1]]; // biome-ignore format: as a matrix
  if (dim === 0) expect(value).toEqual(indices.flatMap((i) => rows(i).map((row) => [row])));
  if (dim === 1) expect(value).toEqual([0, 1].map((k) => indices.map((i) => rows(i)[k])));
  if (dim === -1) expect(value).toEqual([0, 1].map((k) => [indices.flatMap((i) => rows(i)[k]!)]));
});

test('numbers that are stacked, and what is computed from them', async () => {
  const parts = indices.map((i) => tx.tensor(i, { dtype: 'f32' }));
  const { value, parameters } = await counted(() => tx.stack(parts).mul(2).sum().item());
  expect(value).toBe(N * (N - 1));
  expect(parameters).toBe(1);
});

test('bools, empty ones among them, and another dtype in between', async () => {
  const parts = Array.from({ length: 100 }, (_, i) => tx.tensor(i % 3 ? [true, false] : [], { dtype: 'bool' }));
  expect(await tx.cat(parts).sum().item()).toBe(66);
  const mixed = indices.slice(0, 200).map((i) => tx.tensor([i], { dtype: i === 100 ? 'i32' : 'f32' }));
  const { value, parameters } = await counted(() => tx.cat(mixed).tolist());
  expect(value).toEqual(indices.slice(0, 200));
  expect(parameters).toBeLessThanOrEqual(MOST_JOINED);
});

test.each(['i32', 'bf16'] as const)('tensors that went through %s and back are rounded', async (dtype) => {
  const parts = indices.slice(0, 100).map((i) =>
    tx
      .tensor([i + 0.7])
      .to(dtype)
      .to('f32'),
  );
  const few = await Promise.all([0, 50].map((at) => tx.cat(parts.slice(at, at + 50)).tolist() as Promise<number[]>));
  expect(await tx.cat(parts).tolist()).toEqual(few.flat());
  expect(few[1]![49]).toBe(dtype === 'i32' ? 99 : 99.5);
});

test('tensors of the device: in pieces, whose program is compiled once', async () => {
  const parts: tx.Tensor[] = [];
  for (const i of indices.slice(0, 300)) {
    const x = tx.tensor([i, i]).add(1);
    await tx.sync(x);
    parts.push(x);
  }
  const { value, compiled, executed, parameters } = await counted(() => tx.cat(parts).tolist());
  expect(value).toEqual(indices.slice(0, 300).flatMap((i) => [i + 1, i + 1].map(BigInt)));
  expect(parameters).toBe(MOST_JOINED);
  expect(compiled).toBe(3); // of 64, of the rest, and of the pieces
  expect(executed).toBe(Math.ceil(300 / MOST_JOINED) + 1);
});

test('gradients pass', async () => {
  const parts = indices.slice(0, 100).map((i) => tx.tensor([i + 0.5], { requiresGrad: true }));
  const all = tx.cat(parts);
  await tx.sync(all);
  all.mul(all).sum().backward();
  expect(await parts[7]!.grad!.tolist()).toEqual([15]);
  expect(await parts[99]!.grad!.tolist()).toEqual([199]);
});

test('a deleted tensor among them is reported', async () => {
  const parts = indices.slice(0, 100).map((i) => tx.tensor([i]));
  await tx.sync(parts[3]!.add(0));
  await parts[3]!.add(0).tolist();
  parts[3]!.dispose();
  await expect((async () => tx.cat(parts).tolist())()).rejects.toThrow(/disposed|no value any more/);
});
