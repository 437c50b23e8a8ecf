// Numbers that were once wrong.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

test('constants of signed integers compare as signed', async () => {
  expect(await tx.full([1], -1, { dtype: 'i32' }).lt(0).tolist()).toEqual([true]);
  expect(await tx.tensor([5, -5, 7]).remainder(-3).tolist({ numbers: true })).toEqual([-1, -2, -2]);
  expect(await tx.tensor([5, -5, 7]).floorDivide(-3).tolist({ numbers: true })).toEqual([-2, 1, -3]);
  expect(
    await tx
      .tensor([1, 2, 3])
      .index(tx.full([2], -1, { dtype: 'i64' }))
      .tolist({ numbers: true }),
  ).toEqual([3, 3]);
  expect(await tx.ones([1, 1]).triu(-1).tolist()).toEqual([[1]]);
  const looped = tx.foriLoop(-1, 0, (i, c) => c.add(i.lt(0).to('i64')), tx.tensor(0));
  expect(await looped.item()).toBe(1);
});

test('what has nothing to do still gives a tensor of its own to gradients', async () => {
  const calls: ((x: tx.Tensor) => tx.Tensor)[] = [
    (x) => x.clone(),
    (x) => x.reshape(1, 2),
    (x) => x.view(1, 2),
    (x) => x.expand(1, 2),
    (x) => x.squeeze(1),
    (x) => x.permute(0, 1),
    (x) => x.transpose(0, 0),
    (x) => x.index('...'),
    (x) => x.narrow(0, 0, 1),
    (x) => x.split(1)[0]!,
    (x) => x.cumsum(0),
    (x) => x.roll(0, 0),
    (x) => tx.cat([x]),
    (x) => tx.pad(x, [0, 0]),
  ];
  for (const call of calls) {
    const x = tx.tensor([[1.5, 2]], { requiresGrad: true });
    const y = call(x).retainGrad();
    const loss = y.mul(2).add(x.mul(3)).sum();
    expect(await tx.grad(loss, [y])[0]!.tolist(), String(call)).toEqual([[2, 2]]);
    loss.backward();
    expect([await y.grad!.tolist(), y.isLeaf], String(call)).toEqual([[[2, 2]], false]);
  }
});

test('a tensor that is as it should be is given back, as in torch', () => {
  const x = tx.tensor([1.5], { requiresGrad: true });
  const back = [x.to('f32'), x.float(), x.contiguous(), x.positive(), x.flatten(), tx.dropout(x, { training: false })];
  expect(back.every((y) => y === x)).toBe(true);
});

test('gelu vanishes far to the left', async () => {
  const far = await tx.tensor([-100, -1e4, -1e30], { dtype: 'f32' }).gelu().tolist();
  expect((far as number[]).every((v) => v === 0)).toBe(true);
});

test('a number too large for i64 is a float', async () => {
  expect(await tx.tensor([5]).lt(1e19).tolist()).toEqual([true]);
  expect(tx.tensor([5]).mul(1e300).dtype).toBe('f32');
});

test('alpha with plain numbers keeps the dtype', () => {
  expect(tx.tensor(1, { dtype: 'f16' }).add(2.5, { alpha: 2 }).dtype).toBe('f16');
});

test('interpolated to the size it has, an image is the same, infinities too', async () => {
  const x = tx.tensor([
    [
      [
        [1, Infinity],
        [2, 3],
      ],
    ],
  ]);
  for (const mode of ['bilinear', 'bicubic'] as const)
    expect(await x.interpolate({ size: 2, mode }).tolist(), mode).toEqual(await x.tolist());
});

test('the length of a vector has no second derivative at zero, as in torch', async () => {
  const x = tx.tensor(
    [
      [3, 4],
      [0, 0],
    ],
    { dtype: 'f64', requiresGrad: true },
  );
  const [g] = tx.grad(x.norm(2, 1).sum(), x, { createGraph: true });
  expect(await g!.tolist()).toEqual([
    [0.6, 0.8],
    [0, 0],
  ]);
  const [h] = (await tx.grad(g!.index(':', 0).sum(), x)[0]!.tolist()) as number[][];
  expect(h![0]).toBeCloseTo(16 / 125, 12);
  expect(((await tx.grad(g!.sum(), x)[0]!.tolist()) as number[][])[1]).toEqual([NaN, NaN]);
});

test('the gradient is that of the values the forward pass had', async () => {
  const [x, w] = [tx.tensor([2, 3], { dtype: 'f64', requiresGrad: true }), tx.tensor([10, 20], { dtype: 'f64' })];
  const loss = x.mul(w).mul(x).sum();
  w.mul_(100); // torch refuses the backward pass now: w is gone. Here the graph has kept it.
  tx.noGrad(() => x.add_(1));
  loss.backward();
  expect([await loss.item(), await x.grad!.tolist()]).toEqual([220, [40, 120]]);
});

test('NaN in sorted elements lies after all numbers (in torch it depends on the length)', async () => {
  const sorted = tx.tensor([1, 1, 2, NaN]);
  expect(await sorted.searchsorted(tx.tensor([1, 2, 3, NaN])).tolist({ numbers: true })).toEqual([0, 2, 3, 4]);
});

// What torch gives at the kinks: on elements, on borders, where an image is mirrored.
test.each<['zeros' | 'border' | 'reflection', boolean, number[]]>([
  ['zeros', false, [0.5, 0.5, 7, -9, -10, 12, -8, -8]],
  ['zeros', true, [3, 15, 12, 36, 11, 42, -81, -81]],
  ['border', false, [0, 0, 0, 0, 0, 12, 0, 0]],
  ['border', true, [0, 0, 12, 36, 11, 42, 0, 0]],
  ['reflection', false, [0, 0, 0, 0, 0, 12, 0, 0]],
  ['reflection', true, [0, 0, 12, 36, 11, 42, 0, 0]],
])(
  'the gradient of a grid on the elements of an image: %s, alignCorners %s',
  async (paddingMode, alignCorners, want) => {
    const n = alignCorners ? 3 : 2;
    const x = tx
      .arange(1, n * n + 1, { dtype: 'f64' })
      .square()
      .reshape(1, 1, n, n);
    const points = [
      [-1, -1],
      [-0.5, 0.5],
      [0.5, 0],
      [1, 1],
    ];
    const grid = tx.tensor([[points]], { dtype: 'f64', requiresGrad: true });
    tx.gridSample(x, grid, { paddingMode, alignCorners }).sum().backward();
    expect(await grid.grad!.flatten().add(0).tolist()).toEqual(want);
  },
);

test("the points of affineGrid in f32 are torch's to the bit: an identity reads elements, not between them", async () => {
  const theta = tx.tensor(
    [
      [
        [1, 0, 0],
        [0, 1, 0],
      ],
    ],
    { dtype: 'f32' },
  );
  const line = tx.affineGrid(theta, [1, 1, 1, 7]).index(0, 0, ':', 0);
  const want = [-0.8571428656578064, -0.5714285373687744, -0.2857142686843872, -2.554484801464696e-8];
  expect(await line.tolist()).toEqual([...want, 0.2857142686843872, 0.5714285373687744, 0.8571428656578064]);
});

test('whole numbers by 0, all of them constants: at run time, not while XLA compiles, which kills the process', async () => {
  const [ones, zeros] = [tx.ones([2], { dtype: 'i32' }), tx.zeros([2], { dtype: 'i32' })];
  const made = [
    ones.div(zeros, { roundingMode: 'trunc' }),
    tx.cat([ones, ones]).floorDivide(tx.cat([zeros, ones])),
    ones.remainder(0),
    ones.fmod(zeros.add(ones).sub(ones)),
    tx.scan((s, [a, b]) => [s, a!.div(b!, { roundingMode: 'trunc' })], tx.zeros([]), [ones, zeros])[1],
    tx.cond(tx.tensor(true), () => ones.remainder(zeros), () => ones), // biome-ignore format: one line
    tx.kernel((x, y) => y.store(x.load().div(0)), (x) => ({ grid: [1], out: { of: x } }))(ones), // biome-ignore format: one line
  ];
  const found = [];
  for (const x of made) found.push(await x.tolist());
  expect(found).toEqual([[-1, -1], [-1, -1, 1, 1], [1, 1], [1, 1], [-1, -1], [1, 1], [-1, -1]]); // biome-ignore format: one line
});
