// Donation: a step gives the memory of what it changes to the new values, and nothing that anyone still sees is lost.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tx from 'tsxla';
import { readSafetensors, writeSafetensors } from 'tsxla/io';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { defaultClient } from '../../dist/runtime/value.js';
import { aliases, collectGarbage, startCounting } from './support.js';

beforeAll(() => void vi.stubEnv('TSXLA_LOG', 'quiet'));

const f32 = (...values: number[]) => tx.tensor(values, { dtype: 'f32' });

describe('a step', () => {
  test('gives up every tensor that it changes in place: two of them, two inputs', async () => {
    const [a, b] = [f32(1, 2), f32(3, 4)];
    await tx.sync(a, b);
    await startCounting();
    const sum = await tx.step(() => {
      const before = a.add(b);
      a.mul_(2);
      b.add_(2);
      return before;
    });
    expect(aliases()).toBe(2);
    expect(await Promise.all([sum, a, b].map((t) => t.tolist()))).toEqual([
      [4, 6],
      [2, 4],
      [5, 6],
    ]);
  });

  test('again and again: each program that changes a tensor takes its memory over', async () => {
    const t = f32(1, 2, 3);
    await startCounting();
    await tx.step(() => void t.mul_(t));
    expect(aliases()).toBe(1);
    await tx.step(() => void t.mul_(100));
    expect(aliases()).toBe(2);
    expect(await t.tolist()).toEqual([100, 400, 900]);
  });

  test('one tensor changed ten times is one input that is given up', async () => {
    const cache = tx.rand([64, 2, 4]);
    const key = tx.rand([8, 2, 4]);
    const slots = tx.randint(0, 64, [8]);
    await tx.sync(cache, key, slots);
    await startCounting();
    await tx.step(() => {
      for (let i = 0; i < 10; i++) cache.indexCopy_(0, slots, key);
    });
    expect(aliases()).toBe(1);
    const last = Number(((await slots.tolist()) as bigint[]).at(-1));
    expect(((await cache.tolist()) as number[][][])[last]).toEqual(((await key.tolist()) as number[][][]).at(-1));
  });

  test('a hundred times: one compile, and as many live buffers as before', async () => {
    const t = tx.rand([5, 5]);
    const step = tx.compile(() => void t.add_(t.cos().mul(0.3)));
    await tx.sync(t);
    await startCounting();
    const client = await defaultClient();
    await collectGarbage();
    const { buffers } = client.live;
    for (let i = 0; i < 100; i++) await step();
    await tx.sync({ wait: true });
    expect(tx.metrics.metricData('CompileTime')!.total).toBe(1);
    expect(aliases()).toBe(1);
    expect(client.live.buffers).toBe(buffers);
  });

  test('an input that is only read is not given up', async () => {
    const x = f32(1, 2, 3, 4);
    await startCounting();
    const y = await tx.compile((t: tx.Tensor) => t.mul(1.5))(x);
    expect(aliases()).toBe(0);
    expect(await y.tolist()).toEqual([1.5, 3, 4.5, 6]);
    expect(await x.tolist()).toEqual([1, 2, 3, 4]);
  });

  test('an argument that is changed in place is given up, whichever tensor is passed', async () => {
    const double = tx.compile((t: tx.Tensor) => void t.mul_(2));
    const [a, b] = [f32(1, 2, 3, 4, 5), f32(5, 4, 3, 2, 1)];
    await startCounting();
    for (const t of [a, b, a]) await double(t);
    expect(aliases()).toBe(1); // of one program
    expect([await a.tolist(), await b.tolist()]).toEqual([
      [4, 8, 12, 16, 20],
      [10, 8, 6, 4, 2],
    ]);
  });
});

describe('what others see', () => {
  test('a clone has memory of its own when the original is given up', async () => {
    const t = f32(1, 2, 3, 4, 5, 6);
    const clone = t.clone();
    await startCounting();
    await tx.step(() => void t.add_(1));
    expect(aliases()).toBe(1);
    expect(await clone.tolist()).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await t.tolist()).toEqual([2, 3, 4, 5, 6, 7]);
  });

  test('programs that differ in what they give up are two: reading after a change does not lose the tensor', async () => {
    const [one, t] = [tx.tensor([1]), tx.tensor([2])];
    await tx.sync(one, t);
    await startCounting();
    await tx.step(() => void t.add_(one));
    const sum = await tx.step(() => t.add(one)); // the same operation, and t stays
    expect(tx.metrics.counter('UncachedCompile')).toBe(2);
    expect([await t.item(), await sum.item()]).toEqual([3, 4]);
  });

  test('writing the new value to a file leaves what is pending on the old one right', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-save-'));
    const file = path.join(folder, 't.safetensors');
    const [a, t] = [tx.tensor([1]), tx.tensor([2])];
    await tx.sync(a, t);
    const sum = a.add(t); // of the old value
    t.add_(1);
    await writeSafetensors(file, new Map([['t', { dtype: t.dtype, shape: t.shape, data: await t.data() }]]));
    await tx.sync();
    expect(await sum.item()).toBe(3);
    expect((await readSafetensors(file)).get('t')!.data).toEqual(BigInt64Array.of(3n));
    rmSync(folder, { recursive: true });
  });

  test('two tensors made of the same number are two: giving one up leaves the other', async () => {
    const a = tx.tensor(42);
    await tx.sync(a);
    await tx.step(() => void a.add_(1));
    const b = tx.tensor(42);
    await tx.sync(b);
    await tx.step(() => void b.add_(1));
    expect([await a.item(), await b.item()]).toEqual([43, 43]);
  });

  test('outside of steps nothing is given up', async () => {
    const t = f32(1, 2, 3, 4, 5, 6, 7);
    await startCounting();
    const before = t.mul(2); // pending on the old value
    t.add_(1);
    await tx.sync();
    expect(tx.metrics.metricData('InputOutputAliasCount')).toMatchObject({ total: 1, accumulator: 0 });
    expect(await before.tolist()).toEqual([2, 4, 6, 8, 10, 12, 14]);
  });
});

test('gradients that pile up over four steps: two programs, and the second gives one input up', async () => {
  const w = tx.rand([20, 10]).requiresGrad_();
  const [x, label] = [tx.rand([1, 20]), tx.tensor([5])];
  const loss = () => tx.nllLoss(x.matmul(w).logSoftmax({ dim: 1 }), label);
  await tx.sync(w, x, label);
  const [once] = tx.grad([loss()], [w]) as [tx.Tensor];
  const expected = ((await once.mul(4).tolist()) as number[][]).flat();
  await startCounting();
  for (let i = 0; i < 4; i++) await tx.step(() => loss().backward());
  expect(tx.metrics.metricData('InputOutputAliasCount')).toMatchObject({ total: 2, accumulator: 1 });
  const got = ((await w.grad!.tolist()) as number[][]).flat();
  got.forEach((g, i) => expect(g).toBeCloseTo(expected[i]!, 5));
});
