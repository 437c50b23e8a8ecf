// The precision of f32 products: what reaches XLA on each device, and when a function is compiled again.
import * as tx from 'tsxla';
import { afterEach, expect, test } from 'vitest';
import { setPrecision } from '../dist/ops/prim/precision.js';

afterEach(() => setPrecision({ matmul: undefined, cudnnTf32: true }));

const a = tx.ones([2, 3]);
const b = tx.ones([3, 4]);
const image = tx.ones([1, 1, 4, 4]);
type Platform = 'cpu' | 'cuda' | 'tpu';
/** The precision of each product in a function's program. */
function precisions(fn: (...xs: tx.Tensor[]) => tx.Tensor, args: tx.Tensor[], platform: Platform): string[] {
  const text = tx.compile(fn).stablehlo(args, { platform });
  const products = text.split('\n').filter((line) => /stablehlo\.(dot_general|convolution)/.test(line));
  return products.map((line) => line.match(/precision (\w+)/)?.[1] ?? 'none');
}
const product = (x: tx.Tensor, y: tx.Tensor) => x.matmul(y);
const on = (platform: Platform, fn = product) => precisions(fn as never, [a, b], platform);

test('default: all bits on a GPU, as in torch; a TPU rounds to bf16, as in PyTorch/XLA; a CPU has no choice', () => {
  expect([on('cpu'), on('cuda'), on('tpu')]).toEqual([['none'], ['HIGHEST'], ['none']]);
  expect(tx.getFloat32MatmulPrecision()).toBe('highest');
  expect(tx.backends.cuda.matmul.allowTf32).toBe(false);
});

test.each([
  ['highest', 'HIGHEST', 'HIGHEST'],
  ['high', 'HIGH', 'HIGH'],
  ['medium', 'none', 'none'],
] as const)('setFloat32MatmulPrecision(%s)', (precision, cuda, tpu) => {
  tx.setFloat32MatmulPrecision(precision);
  expect([on('cpu'), on('cuda'), on('tpu')]).toEqual([['none'], [cuda], [tpu]]);
  expect(tx.getFloat32MatmulPrecision()).toBe(precision);
});

test('only products of f32, and of complex numbers made of them, have one', () => {
  const low = (x: tx.Tensor, y: tx.Tensor) => x.to('bf16').matmul(y.to('bf16'));
  const wide = (x: tx.Tensor, y: tx.Tensor) => x.to('f64').matmul(y.to('f64'));
  tx.setFloat32MatmulPrecision('highest');
  const complex = (x: tx.Tensor, y: tx.Tensor) => x.to('c64').matmul(y.to('c64')).abs();
  expect([on('cuda', low), on('cuda', wide), on('cuda', complex)]).toEqual([['none'], ['none'], ['HIGHEST']]);
});

test('for a scope and for a call; gradients have that of their product', () => {
  const scoped = (x: tx.Tensor, y: tx.Tensor) => tx.matmulPrecision('high', () => x.matmul(y)).matmul(y.t());
  expect(on('cuda', scoped)).toEqual(['HIGH', 'HIGHEST']);
  const called = (x: tx.Tensor, y: tx.Tensor) =>
    tx.add(x.matmul(y, { precision: 'medium' }), tx.linear(x, y.t(), null, { precision: 'high' }));
  expect(on('cuda', called).sort()).toEqual(['HIGH', 'none']);
  const grads = (x: tx.Tensor, y: tx.Tensor) =>
    tx.grad((w: tx.Tensor) => x.matmul(w, { precision: 'high' }).square().sum())(y);
  expect(on('cuda', grads as never)).toEqual(['HIGH', 'HIGH']);
});

test('convolutions: TF32 on a GPU unless it is switched off, as in torch; on a TPU as products are', () => {
  const conv = (x: tx.Tensor) =>
    tx.grad((w: tx.Tensor) => tx.conv2d(x, w).square().sum())(tx.ones([1, 1, 2, 2])) as unknown as tx.Tensor;
  const all = (platform: Platform) => new Set(precisions(conv, [image], platform));
  expect([all('cuda'), all('tpu')]).toEqual([new Set(['none']), new Set(['none'])]);
  tx.setFloat32MatmulPrecision('highest');
  expect([all('cuda'), all('tpu')]).toEqual([new Set(['none']), new Set(['HIGHEST'])]);
  tx.backends.cudnn.allowTf32 = false;
  expect(all('cuda')).toEqual(new Set(['HIGHEST']));
});

test('convolutions of integers are computed in f64 on a GPU, which has none', () => {
  const conv = tx.compile((x: tx.Tensor) => tx.conv2d(x, tx.ones([1, 1, 2, 2], { dtype: 'i64' })));
  const line = (platform: Platform) =>
    conv.stablehlo([image.long()], { platform }).match(/stablehlo\.convolution.*/)![0];
  expect([line('cuda'), line('cpu')]).toEqual([expect.stringContaining('xf64>'), expect.stringContaining('xi64>')]);
});

test('a compiled function is another program under another precision, and the same again under the first', async () => {
  const f = tx.compile(product);
  await f(a, b);
  const before = f.programs;
  tx.setFloat32MatmulPrecision('high');
  await f(a, b);
  expect(f.programs).toBe(before + 1);
  tx.setFloat32MatmulPrecision('highest');
  const y = await f(a, b);
  expect(await y.tolist()).toEqual([
    [3, 3, 3, 3],
    [3, 3, 3, 3],
  ]);
  tx.setFloat32MatmulPrecision('high');
  await f(a, b);
  expect(f.programs).toBe(before + 2);
});

test('decompositions keep all bits whatever is set', () => {
  tx.setFloat32MatmulPrecision('medium');
  const values = (x: tx.Tensor) => tx.svd(x.matmul(x.t(), { precision: 'high' })).S;
  const [first, ...rest] = precisions(values, [tx.ones([4, 4])], 'cuda');
  expect(first).toBe('HIGH');
  expect(new Set(rest)).toEqual(new Set(['HIGHEST']));
});

test('what is no precision is refused', () => {
  expect(() => tx.setFloat32MatmulPrecision('full' as never)).toThrow(
    "setFloat32MatmulPrecision: precision is 'full': use 'highest', 'high' or 'medium'",
  );
  expect(() => a.matmul(b, { precision: 'tf32' as never })).toThrow("matmul: precision is 'tf32'");
  expect(() => tx.matmulPrecision('high', undefined as never)).toThrow('takes a precision and a function');
  expect(() => tx.matmulPrecision('high', (async () => a) as never)).toThrow('matmulPrecision');
  expect(() => {
    tx.backends.cudnn.allowTf32 = 1 as never;
  }).toThrow('backends.cudnn.allowTf32 is 1: it must be true or false');
});
