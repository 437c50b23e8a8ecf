// Reading tensors: what JavaScript gets, and that printing computes nothing.
import { inspect } from 'node:util';
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { counts } from '../dist/runtime/program.js';

test('i64 comes as bigints, or as numbers when asked, if they can hold it', async () => {
  const t = tx.tensor([[1n, -2n]]);
  expect(await t.data()).toEqual(BigInt64Array.of(1n, -2n));
  expect(await t.tolist()).toEqual([[1n, -2n]]);
  expect(await t.tolist({ numbers: true })).toEqual([[1, -2]]);
  const big = tx.tensor([2n ** 60n]);
  expect(await big.item()).toBe(2n ** 60n);
  await expect(big.item({ numbers: true })).rejects.toThrow(
    'element 0 is 1152921504606846976, which a number cannot hold exactly',
  );
});

test('bool and half floats come as what they mean', async () => {
  expect(await tx.tensor([true, false]).tolist()).toEqual([true, false]);
  expect(await tx.tensor([1.5, -0.25], { dtype: 'bf16' }).tolist()).toEqual([1.5, -0.25]);
  expect(await tx.tensor([1.5], { dtype: 'bf16' }).data()).toEqual(Uint16Array.of(0x3fc0));
});

test('item is for one element', async () => {
  await expect(tx.zeros([2]).item()).rejects.toThrow('item: f32[2] has 2 elements, not one: use tolist()');
});

test('console.log computes nothing', async () => {
  const t = tx.ones([2]).mul(3);
  const before = { ...counts };
  expect(inspect(t)).toBe('tensor(f32[2], not read yet)');
  expect(counts).toEqual(before);
  await t.data();
  expect(inspect(t)).toBe('tensor([3., 3.])');
});

test('the same graph compiles once, whatever its values', async () => {
  const run = (v: number) => tx.tensor([v, v]).mul(2).sum().item();
  expect(await run(1.5)).toBe(6);
  const { compiled, executed } = counts;
  expect(await run(2.5)).toBe(10);
  expect([counts.compiled - compiled, counts.executed - executed]).toEqual([0, 1]);
});

test('sizes, and what JavaScript would get wrong in silence', () => {
  const t = tx.zeros([2, 3]);
  expect([t.ndim, t.numel(), t.size(-1)]).toEqual([2, 6, 3]);
  expect(() => (t as unknown as number) + 1).toThrow(
    'this f32[2, 3] is not a number: write x.add(y) for x + y, or read it: await x.item()',
  );
  expect(`${t}`).toBe('tensor(f32[2, 3], not read yet)');
  const f = tx.compile((x: tx.Tensor) => tx.ones([2]).mul((x as unknown as number) * 2));
  expect(() => f.fn(t)).toThrow('is not a number');
  expect(() => [...(t as unknown as Iterable<unknown>)]).toThrow('is not a list: use unbind()');
  expect(() => JSON.stringify({ t })).toThrow('has no values yet: read it first');
});
