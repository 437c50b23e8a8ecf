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
  await expect(big.tolist({ numbers: true })).rejects.toThrow(
    'element 0 is 1152921504606846976, which a JavaScript number cannot hold exactly: read it as a bigint: leave { numbers: true } out',
  );
});

test('item is a number; an integer that a number cannot hold is a bigint, if asked', async () => {
  const values: number[] = [
    await tx.tensor(3n).item(),
    await tx.tensor(1.5).item(),
    await tx.tensor(true).item(),
    await tx.tensor([[-7]], { dtype: 'i32' }).item({ numbers: true }),
  ];
  expect(values).toEqual([3, 1.5, 1, -7]);
  const exact: bigint = await tx.tensor(2n ** 60n).item({ bigint: true });
  expect([exact, await tx.tensor(7, { dtype: 'i32' }).item({ bigint: true })]).toEqual([2n ** 60n, 7n]);
  for (const n of [2n ** 53n, -(2n ** 60n)])
    await expect(tx.tensor(n).item()).rejects.toThrow(
      `element 0 is ${n}, which a JavaScript number cannot hold exactly: read it as a bigint: item({ bigint: true })`,
    );
  await expect(tx.tensor(1.5).item({ bigint: true })).rejects.toThrow(
    'is for integers, but this tensor is f32[]: leave it out',
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

test('sizes, and what JavaScript would get wrong in silence', async () => {
  const t = tx.zeros([2, 3]);
  expect([t.ndim, t.numel(), t.size(-1)]).toEqual([2, 6, 3]);
  expect([t.dim(), t.ndimension(), t.nelement(), t.size()]).toEqual([2, 2, 6, [2, 3]]);
  const n = t as unknown as number;
  expect(() => n + 1).toThrow(
    'this f32[2, 3] is not a number: write x.add(y) for x + y, x.eq(y) for x == y. To branch on a value, read it: (await x.item()) == y',
  );
  expect(() => n > 0.5).toThrow(
    'x.gt(y) for x > y. To branch on a value, read it: (await x.item()) > y; in a compiled function: tx.where(x.gt(y), a, b) or tx.cond',
  );
  expect(`${t}`).toBe('tensor(f32[2, 3], not read yet)');
  const f = tx.compile((x: tx.Tensor) => tx.ones([2]).mul((x as unknown as number) * 2));
  expect(() => f.fn(t)).toThrow('is not a number');
  // eslint-disable-next-line tsxla/no-tensor-condition -- the error is tested
  const branch = tx.compile((x: tx.Tensor) => ((x as unknown as number) > 0 ? x : x.neg()));
  await expect(branch(t)).rejects.toThrow(
    'To branch on a value, choose with tx.where(x.gt(y), a, b) or tx.cond', // nothing can be read in there
  );
  expect(() => [...(t as unknown as Iterable<unknown>)]).toThrow('is not a list: use unbind()');
  const how = 'write x.index(0), or x.indexPut_([0], value) to change it';
  expect(() => (t as never as number[])[0]).toThrow(`x[0] of ${t.aval}: ${how}`);
  expect(() => void ((t as never as number[])[0] = 1)).toThrow(how);
  expect(() => JSON.stringify({ t })).toThrow('has no values yet: read it first');
});

/** How many programs it compiles and runs. */
async function programs(run: () => Promise<unknown>): Promise<[compiled: number, executed: number]> {
  const { compiled, executed } = counts;
  await run();
  return [counts.compiled - compiled, counts.executed - executed];
}

test('reads of one tick are one program', async () => {
  const x = tx.tensor([1, 2, 3, 5], { dtype: 'f32' });
  const seen: unknown[] = [];
  const together = () => Promise.all([x.sum().item(), x.mul(2).tolist(), x.gt(2).any().item(), x.sum().data()]);
  expect(await programs(async () => seen.push(...(await together())))).toEqual([1, 1]);
  expect(seen).toEqual([11, [2, 4, 6, 10], 1, Float32Array.of(11)]);
  expect(await programs(together)).toEqual([0, 1]);
});

test('a read that is awaited alone waits for no other, and computes no other', async () => {
  const x = tx.tensor([1, 2, 4], { dtype: 'f32' });
  const [a, b] = [x.sum(), x.prod()];
  expect(await programs(async () => [await a.item(), await b.item()])).toEqual([2, 2]);
});

test('reads with a step asked for in between see what was before and after it', async () => {
  const w = tx.ones([3]);
  const double = tx.compile(() => void w.mul_(2));
  const first = w.sum().item();
  const step = double();
  const second = w.sum().item();
  expect([await first, await second]).toEqual([3, 6]);
  await step;
});

test('a read that fails does not fail those it is read with, nor lose a change', async () => {
  const [x, gone, w] = [tx.tensor([1, 2], { dtype: 'f32' }), tx.ones([2]).add(1), tx.zeros([2])];
  const lost = gone.mul(3);
  await tx.sync(gone); // on the device, where it can be freed
  gone.dispose();
  w.add_(1);
  const reads = [x.mul(7).sum().item(), w.sum().item(), lost.data()];
  w.add_(2);
  const results = await Promise.allSettled([...reads, w.sum().item()]);
  expect(results.map((r) => (r.status === 'fulfilled' ? r.value : r.reason.constructor))).toEqual([
    21,
    2,
    tx.SpentError,
    6,
  ]);
  expect(await w.tolist()).toEqual([3, 3]);
});

test('tx.read gives the values of a tree, by one program', async () => {
  const w = tx.tensor([1, 2], { dtype: 'f32' }).requiresGrad_();
  const b = tx.tensor(3, { dtype: 'f32' }).requiresGrad_();
  const loss = w.square().sum().add(b);
  loss.backward();
  const read = async () => {
    const [value, { grads, none }] = await tx.read(loss, { grads: [w.grad, b.grad], none: null });
    const typed: readonly ArrayLike<number | bigint>[] = [value, grads[0]!]; // arrays, where tensors were
    expect(typed).toEqual([Float32Array.of(8), Float32Array.of(2, 4)]);
    expect([grads[1], none]).toEqual([Float32Array.of(1), null]);
  };
  expect(await programs(read)).toEqual([1, 1]);
  await expect(tx.read(w, { n: 3 })).rejects.toThrow('read, at [1].n is the number 3: it must be a tensor');
  expect(await tx.read()).toEqual([]);
});

test('a gradient that does not fit is refused where it is set', () => {
  const w = tx.ones([3]).requiresGrad_();
  expect(() => (w.grad = tx.ones([3], { dtype: 'i64' }))).toThrow(
    "grad is i64[3], but the tensor is f32[3]: convert it first: x.grad = g.to('f32')",
  );
  expect(() => (w.grad = tx.ones([3], { dtype: 'f64' }))).toThrow(tx.DTypeError);
  expect(() => (w.grad = tx.ones([1, 3]))).toThrow(
    'grad is f32[1, 3], but the tensor is f32[3]: a gradient has the shape of its tensor',
  );
  expect(() => (w.grad = [1, 2, 3] as never)).toThrow('grad is an Array: it must be a tensor');
  expect(w.grad).toBeNull();
  w.grad = tx.full([3], 0.5);
  w.grad = null;
  const half = tx.ones([2], { dtype: 'f16' }).requiresGrad_();
  half.grad = tx.ones([2]); // as GradScaler leaves it
});
