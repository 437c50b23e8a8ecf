// Convolutions that are products on the CPU (ops/prim/convolution-product.ts): the same numbers, and no plain loop of XLA's.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

interface Case {
  readonly x: readonly number[]; // [batch, features, ...space]
  readonly w: readonly number[]; // [output features, features, ...window]
  readonly stride?: readonly number[];
  readonly padding?: readonly number[];
  readonly dilation?: readonly number[];
}
const CASES: Readonly<Record<string, Case>> = {
  'a window larger than the operand': { x: [3, 4, 2, 2], w: [5, 4, 3, 3], padding: [1, 1] },
  'one position': { x: [3, 4, 1, 1], w: [5, 4, 3, 3], padding: [1, 1] },
  strides: { x: [2, 3, 3, 2], w: [4, 3, 3, 3], stride: [2, 1], padding: [1, 1] },
  'elements of the window apart': { x: [2, 3, 2, 4], w: [4, 3, 3, 3], padding: [2, 3], dilation: [2, 3] },
  'more padding than operand': { x: [2, 3, 1, 2], w: [4, 3, 2, 5], padding: [3, 4] },
  'one dimension': { x: [2, 3, 4], w: [6, 3, 5], padding: [2] },
  'three dimensions': { x: [1, 2, 2, 1, 3], w: [3, 2, 3, 2, 2], padding: [1, 1, 0] },
  'many weights, few positions': { x: [2, 24, 4, 4], w: [32, 24, 3, 3], padding: [1, 1] },
  'few features, many positions': { x: [2, 3, 11, 10], w: [4, 3, 5, 5], stride: [2, 2], padding: [2, 2] },
  'one feature, positions between strides': { x: [2, 1, 13, 14], w: [4, 1, 3, 2], stride: [3, 2], dilation: [2, 1] },
  'few features in one dimension': { x: [2, 5, 40], w: [3, 5, 6], stride: [4], padding: [2] },
  'few features in three dimensions': { x: [2, 2, 5, 6, 4], w: [3, 2, 3, 2, 2], stride: [1, 2, 1], padding: [1, 0, 1] },
  'a window of one': { x: [2, 24, 3, 3], w: [32, 24, 1, 1], stride: [2, 2] },
};
const sizeOf = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
const ramp = (shape: readonly number[], from: number) =>
  Array.from({ length: sizeOf(shape) }, (_, i) => Math.sin(i + from));

/** Each pair of an element of x and one of w, and the result it adds to: the definition. */
function* terms({ x, w, stride, padding, dilation }: Case) {
  const rank = x.length - 2;
  const at = (list: readonly number[] | undefined, i: number, or: number) => list?.[i] ?? or;
  const space = Array.from({ length: rank }, (_, i) => {
    const total = x[2 + i]! + 2 * at(padding, i, 0) - at(dilation, i, 1) * (w[2 + i]! - 1) - 1;
    return Math.floor(total / at(stride, i, 1)) + 1;
  });
  const shape = [x[0]!, w[0]!, ...space];
  const indices = (sizes: readonly number[]) =>
    sizes.reduce<number[][]>((all, n) => all.flatMap((a) => Array.from({ length: n }, (_, i) => [...a, i])), [[]]);
  const flat = (index: readonly number[], sizes: readonly number[]) => index.reduce((a, i, d) => a * sizes[d]! + i, 0);
  for (const [n, o, ...to] of indices(shape) as [number, number, ...number[]][])
    for (const [c, ...k] of indices(w.slice(1)) as [number, ...number[]][]) {
      const from = to.map((p, i) => p * at(stride, i, 1) + k[i]! * at(dilation, i, 1) - at(padding, i, 0));
      if (from.some((p, i) => p < 0 || p >= x[2 + i]!)) continue;
      yield { y: flat([n, o, ...to], shape), x: flat([n, c, ...from], x), w: flat([o, c, ...k], w), shape };
    }
}
function convolution(c: Case): (x: tx.Tensor, w: tx.Tensor) => tx.Tensor {
  const conv = [tx.nn.functional.conv1d, tx.nn.functional.conv2d, tx.nn.functional.conv3d][c.x.length - 3]!;
  const options = Object.fromEntries(Object.entries(c).filter(([name]) => name !== 'x' && name !== 'w'));
  return (x, w) => conv(x, w, options as never);
}
const isProduct = (tensors: readonly tx.Tensor[]) => !tx.getStablehlo([...tensors]).includes('stablehlo.convolution');

test.each(Object.entries(CASES))('%s: values and gradients are those of sums of products', async (_, c) => {
  const [xs, ws] = [ramp(c.x, 1), ramp(c.w, 2)];
  const x = tx.tensor(xs, { dtype: 'f64', shape: c.x, requiresGrad: true });
  const w = tx.tensor(ws, { dtype: 'f64', shape: c.w, requiresGrad: true });
  const y = convolution(c)(x, w);
  expect(isProduct([y])).toBe(true);
  const gs = ramp(y.shape, 3);
  const [dx, dw] = tx.autograd.grad(y, [x, w], { gradOutputs: tx.tensor(gs, { dtype: 'f64', shape: y.shape }) });
  const want = { y: gs.map(() => 0), dx: xs.map(() => 0), dw: ws.map(() => 0) };
  for (const term of terms(c)) {
    expect(term.shape).toEqual([...y.shape]);
    want.y[term.y]! += xs[term.x]! * ws[term.w]!;
    want.dx[term.x]! += gs[term.y]! * ws[term.w]!;
    want.dw[term.w]! += gs[term.y]! * xs[term.x]!;
  }
  const [gotY, gotDx, gotDw] = await tx.read(y, dx, dw);
  for (const [name, got] of Object.entries({ y: gotY, dx: gotDx, dw: gotDw }) as [
    'y' | 'dx' | 'dw',
    ArrayLike<unknown>,
  ][])
    for (const [i, v] of want[name].entries())
      expect(Math.abs(Number(got[i]) - v), `${name}[${i}]`).toBeLessThan(1e-12);
});

test('second derivatives, and a transposed convolution', async () => {
  const [x, w] = [
    tx.tensor(ramp([1, 2, 2, 2], 1), { shape: [1, 2, 2, 2] }),
    tx.tensor(ramp([2, 2, 3, 3], 2), { shape: [2, 2, 3, 3] }),
  ];
  const wide = [x, w].map((t) => t.to('f64').requiresGrad_()) as [tx.Tensor, tx.Tensor];
  const gradients = (a: tx.Tensor, b: tx.Tensor) => {
    const y = tx.nn.functional.conv2d(a, b, { padding: 1 }).pow(3).sum();
    return tx.autograd.grad(y, [a, b], { createGraph: true });
  };
  expect(await tx.autograd.gradcheck(gradients, wide)).toBe(true);
  const turned = (a: tx.Tensor, b: tx.Tensor) => tx.nn.functional.convTranspose2d(a, b, { stride: 2, padding: 1 });
  expect(await tx.autograd.gradcheck(turned, wide)).toBe(true);
});

test('deep layers on small images, forward and backward, have no convolution that XLA turns into a loop', () => {
  for (const size of [1, 2, 3]) {
    const x = tx.zeros([16, 256, size, size], { requiresGrad: true });
    const w = tx.zeros([256, 256, 3, 3], { requiresGrad: true });
    const y = tx.nn.functional.conv2d(x, w, { padding: 1 });
    expect(isProduct([y, ...tx.autograd.grad(y.sum(), [x, w])]), `${size} x ${size}`).toBe(true);
  }
});

test('few features: values and the gradient of the kernel are products, which share their patches', () => {
  const w = tx.zeros([8, 3, 7, 7], { requiresGrad: true });
  const y = tx.nn.functional.conv2d(tx.zeros([2, 3, 32, 32]), w, { stride: 2, padding: 3 });
  const [gw] = tx.autograd.grad(y.sum(), [w]);
  const text = tx.getStablehlo([y, gw!]);
  expect(text).not.toContain('stablehlo.convolution');
  const patches = text.split('\n').filter((line) => line.includes('concatenate'));
  const withoutNames = patches.map((line) => line.replace(/.*-> /, ''));
  expect(withoutNames).toEqual([withoutNames[0], withoutNames[0]]);
});

test('large images stay convolutions', () => {
  const y = tx.nn.functional.conv2d(tx.zeros([4, 16, 32, 32]), tx.zeros([16, 16, 3, 3]), { padding: 1 });
  expect(isProduct([y])).toBe(false);
});

test.each(['f16', 'bf16'] as const)(
  'few features in %s: gradients of examples are rounded once, after their sum',
  async (dtype) => {
    const shape = [64, 1, 8, 8];
    const w = tx.zeros([1, 1, 3, 3], { dtype, requiresGrad: true });
    const y = tx.nn.functional.conv2d(tx.full(shape, 1.125, { dtype }), w, { padding: 1 });
    const gradOutputs = tx.full(shape, 1.0625, { dtype });
    const [gw] = tx.autograd.grad(y, [w], { gradOutputs });
    expect(isProduct([gw!])).toBe(true);
    const want = [7, 8, 7].flatMap((rows) => [7, 8, 7].map((columns) => 64 * rows * columns * 1.125 * 1.0625));
    const rounded = tx.tensor(want, { dtype: 'f64' }).to(dtype);
    const [got, exact] = await tx.read(gw!.reshape([-1]), rounded);
    expect(Array.from(got, Number)).toEqual(Array.from(exact, Number));
  },
);

test('few features: kernels are not copied for each example where copies are larger than the operands', async () => {
  const run = tx.compile((x: tx.Tensor, w: tx.Tensor) => {
    const y = tx.nn.functional.conv1d(x, w);
    return [y, ...tx.grad(y.square().sum(), [w])];
  });
  const [x, w] = [tx.zeros([1024, 8, 16]), tx.zeros([256, 8, 16], { requiresGrad: true })];
  const { memory } = await run.prepare([x, w]);
  expect(memory.temporaries).toBeLessThan(1024 * 256 * 8 * 16); // an eighth of the copies, in bytes
});
