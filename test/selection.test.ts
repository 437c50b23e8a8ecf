// Results whose size depends on values: read outside of compiled functions, of a given size inside them.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const grid = tx.tensor([
  [1, 0, 2],
  [0, 0, 3],
]);

test('nonzero and argwhere read how many there are', async () => {
  const places = await grid.nonzero();
  expect(places.shape).toEqual([3, 2]);
  expect(await places.tolist()).toEqual([
    [0n, 0n],
    [0n, 2n],
    [1n, 2n],
  ]);
  expect(await (await tx.argwhere(grid)).tolist()).toEqual(await places.tolist());
  const [rows, columns] = await grid.nonzero({ asTuple: true });
  expect([await rows!.tolist(), await columns!.tolist()]).toEqual([
    [0n, 0n, 1n],
    [0n, 2n, 2n],
  ]);
  expect((await tx.tensor(5).nonzero()).shape).toEqual([1, 0]);
  expect((await tx.zeros([2, 2]).nonzero()).shape).toEqual([0, 2]);
  expect(await (await tx.tensor([Number.NaN, 0, -0]).nonzero()).tolist()).toEqual([[0n]]); // NaN is not zero
});

test('maskedSelect reads the mask, broadcasts, and has its gradient', async () => {
  const x = tx.tensor(
    [
      [1.5, -2, 3],
      [-4, 5, -6.5],
    ],
    { requiresGrad: true },
  );
  const y = await x.maskedSelect(x.gt(0));
  expect(await y.tolist()).toEqual([1.5, 3, 5]);
  y.mul(y).sum().backward();
  expect(await x.grad!.tolist()).toEqual([
    [3, 0, 6],
    [0, 10, 0],
  ]);
  const column = await tx.maskedSelect(x, tx.tensor([[true], [false]]));
  expect(await column.tolist()).toEqual([1.5, -2, 3]);
  expect((await x.maskedSelect(x.gt(9))).shape).toEqual([0]);
});

test('unique reads values, places and counts, of elements and of rows', async () => {
  const x = tx.tensor([
    [3, 1, 3],
    [0, 1, 1],
  ]);
  expect(await (await x.unique()).tolist()).toEqual([0n, 1n, 3n]);
  const [values, inverse, counts] = await x.unique({ returnInverse: true, returnCounts: true });
  expect(await values.tolist()).toEqual([0n, 1n, 3n]);
  expect(await inverse.tolist()).toEqual([
    [2n, 1n, 2n],
    [0n, 1n, 1n],
  ]);
  expect(await counts.tolist()).toEqual([1n, 3n, 2n]);
  const rows = tx.tensor(
    [
      [1, 2],
      [0.5, 9],
      [1, 2],
      [0.5, 3],
    ],
    { dtype: 'bf16' },
  );
  const [different, of] = await rows.unique({ dim: 0, returnInverse: true });
  expect(await different.tolist()).toEqual([
    [0.5, 3],
    [0.5, 9],
    [1, 2],
  ]);
  expect(await of.tolist()).toEqual([2n, 1n, 2n, 0n]);
  expect(
    await (
      await tx.unique(
        tx.tensor([
          [1, 2, 1],
          [3, 4, 3],
        ]),
        { dim: 1 },
      )
    ).tolist(),
  ).toEqual([
    [1n, 2n],
    [3n, 4n],
  ]);
  const nans = await tx.tensor([Number.NaN, 1, Number.NaN]).unique(); // no two of them are equal, as in torch
  expect(await nans.tolist()).toEqual([1, Number.NaN, Number.NaN]);
  const [runs, lengths] = await tx.uniqueConsecutive(tx.tensor([1, 1, 2, 2, 3, 1]), { returnCounts: true });
  expect([await runs.tolist(), await lengths.tolist()]).toEqual([
    [1n, 2n, 3n, 1n],
    [2n, 2n, 1n, 1n],
  ]);
  expect((await tx.zeros([0]).unique()).shape).toEqual([0]);
});

test('bincount reads the largest value, and refuses what has no bin where the host can see it', async () => {
  const x = tx.tensor([1, 4, 1]);
  expect(await (await x.bincount()).tolist()).toEqual([0n, 2n, 0n, 0n, 1n]);
  expect(await (await tx.bincount(x.add(0), tx.tensor([1, 2, 3]))).tolist()).toEqual([0, 4, 0, 0, 2]);
  expect(await (await x.bincount({ minlength: 0 })).tolist()).toEqual([0n, 2n, 0n, 0n, 1n]);
  expect(await x.bincount({ minlength: 6 }).tolist()).toEqual([0n, 2n, 0n, 0n, 1n, 0n]);
  expect(() => tx.tensor([1, 4]).bincount({ minlength: 2 })).toThrow(
    'bincount: i64[2] has the value 4, but there are 2 bins: pass { minlength: 5 }, or await bincount(x)',
  );
  await expect(x.sub(3).bincount()).rejects.toThrow('bincount: i64[3] has the value -2: values must not be negative');
});

test('inside a compiled function they take a size, and say so', async () => {
  const sized = tx.compile((x: tx.Tensor) => [
    x.nonzero({ size: 2, fill: 9 }),
    x.unique({ size: 4 }),
    x.maskedSelect(x.gt(1), { size: 3, fill: -1 }),
    x.flatten().bincount({ minlength: 4 }),
    x.indexPut([x.gt(1)], 7),
  ]);
  const [places, values, selected, counts, put] = await sized(grid);
  expect(await places!.tolist()).toEqual([
    [0n, 0n],
    [0n, 2n],
  ]);
  expect(await values!.tolist()).toEqual([0n, 1n, 2n, 3n]);
  expect(await selected!.tolist()).toEqual([2n, 3n, -1n]);
  expect(await counts!.tolist()).toEqual([3n, 1n, 1n, 1n]);
  expect(await put!.tolist()).toEqual([
    [1n, 0n, 7n],
    [0n, 0n, 7n],
  ]);
  const misuses: [(x: tx.Tensor) => unknown, string][] = [
    [
      (x) => x.nonzero(),
      'nonzero: the size of the result depends on the values of i64[2, 3], which a compiled function does not have: pass the largest possible size, nonzero(x, { size: n })',
    ],
    [(x) => x.maskedSelect(x.gt(0)), 'pass the largest possible size, maskedSelect(x, mask, { size: n })'],
    [(x) => x.unique(), 'pass the size of the result, unique(x, { size: 16, fill: 0 })'],
    [(x) => x.flatten().bincount(), 'pass the number of bins, bincount(x, { minlength: 10 })'],
  ];
  for (const [misuse, text] of misuses)
    await expect((async () => tx.compile(misuse as (x: tx.Tensor) => tx.Tensor)(grid))()).rejects.toThrow(text);
});

test('a mask that the host has is an index, as in torch', async () => {
  const x = tx.arange(6).reshape([2, 3]);
  expect(await x.index(tx.tensor([false, true])).tolist()).toEqual([[3n, 4n, 5n]]);
  expect(await x.index(':', tx.tensor([true, false, true])).tolist()).toEqual([
    [0n, 2n],
    [3n, 5n],
  ]);
  const both = tx.tensor([
    [true, false, false],
    [false, true, true],
  ]);
  expect(await x.index(both).tolist()).toEqual([0n, 4n, 5n]);
  expect(await x.index('...', tx.tensor([false, false, true]), null).tolist()).toEqual([[[2n]], [[5n]]]);
  expect(x.index(tx.tensor([false, false])).shape).toEqual([0, 3]);
  // What the error of a mask that is computed says:
  const computed = x.gt(1);
  expect(await x.index(...(await computed.nonzero({ asTuple: true }))).tolist()).toEqual([2n, 3n, 4n, 5n]);
  const f = tx.compile((t: tx.Tensor) => t.index(tx.tensor([false, true])));
  await expect(async () => f(x)).rejects.toThrow('selects depends on its values');
});

test('masks change tensors in place', async () => {
  const x = tx.tensor([1.5, -2, 3]);
  x.maskedFill_(x.lt(0), 0);
  expect(await x.tolist()).toEqual([1.5, 0, 3]);
  x.indexPut_([x.gt(2)], -1);
  expect(await x.tolist()).toEqual([1.5, 0, -1]);
  x.maskedScatter_(tx.tensor([true, false, true]), tx.tensor([8.5, 9.5]));
  expect(await x.tolist()).toEqual([8.5, 0, 9.5]);
});

test('to takes a dtype, another tensor, or the device that is there', async () => {
  const x = tx.tensor([1.5, 2]);
  const device = tx.device();
  expect(x.to(tx.tensor([1])).dtype).toBe('i64');
  expect(x.to(device)).toBe(x);
  expect(x.to('xla')).toBe(x);
  expect(x.to({ device, dtype: 'f64' }).dtype).toBe('f64');
  expect(x.to(device, 'bf16').dtype).toBe('bf16');
  const other = device === 'tpu' ? 'cpu' : 'tpu';
  expect(() => x.to(other)).toThrow(`to: this process computes on ${device} and cannot move tensors to '${other}'`);
  expect(() => x.to('float32' as never)).toThrow("dtype 'float32' is written 'f32'");
});

test('unfold and fold of nn.functional are of images, meshgrid takes vectors one by one', async () => {
  const image = tx.arange(16, { dtype: 'f32' }).reshape(1, 1, 4, 4);
  const columns = tx.nn.functional.unfold(image, 2, { stride: 2 });
  expect(columns.shape).toEqual([1, 4, 4]);
  expect(await tx.nn.functional.fold(columns, 4, 2, { stride: 2 }).tolist()).toEqual(await image.tolist());
  const [rows, across] = tx.meshgrid(tx.tensor([1, 2]), tx.tensor([3, 4, 5]));
  expect([rows!.shape, await across!.tolist()]).toEqual([
    [2, 3],
    [
      [3n, 4n, 5n],
      [3n, 4n, 5n],
    ],
  ]);
  const w = tx.ones([2], { requiresGrad: true });
  expect(tx.inferenceMode(() => w.mul(2)).requiresGrad).toBe(false);
});
