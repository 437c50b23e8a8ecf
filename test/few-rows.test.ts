// Products of few rows with a weight [out, in] on the CPU: the same numbers, in the form that XLA compiles well.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';

const ramp = (shape: number[], from: number) =>
  tx
    .arange(
      shape.reduce((a, b) => a * b, 1),
      { dtype: 'f64' },
    )
    .add(from)
    .sin()
    .reshape(shape);

test.each([
  [1, false],
  [2, true],
  [7, true],
  [128, true],
  [129, false],
])('%i rows: operands swapped: %s', async (rows, isSwapped) => {
  const [x, w] = [ramp([rows, 128], 1), ramp([300, 128], 2)];
  const text = tx.getStablehlo([tx.linear(x, w)]);
  expect(text.includes('optimization_barrier')).toBe(isSwapped);
});

test('more rows than columns, a small matrix, and one that is stored [in, out], stay as they are', () => {
  expect(tx.getStablehlo([tx.linear(ramp([6, 5], 1), ramp([40, 5], 2))])).not.toContain('optimization_barrier');
  expect(tx.getStablehlo([tx.linear(ramp([60, 1024], 1), ramp([40, 1024], 2))])).not.toContain('optimization_barrier');
  expect(tx.getStablehlo([tx.matmul(ramp([6, 1024], 1), ramp([1024, 40], 2))])).not.toContain('optimization_barrier');
});

test.each(['f64', 'f32', 'bf16'] as const)('%s: values and gradients are those of sums of products', async (dtype) => {
  const x = ramp([2, 3, 512], 1).to(dtype).requiresGrad_();
  const w = ramp([80, 512], 2).to(dtype).requiresGrad_();
  const g = ramp([2, 3, 80], 3).to(dtype);
  const y = tx.linear(x, w);
  y.mul(g).sum().backward();
  const wide = (t: tx.Tensor) => t.detach().to('f64');
  const [x1, w1, g1] = [wide(x), wide(w), wide(g)];
  const want = {
    y: x1.unsqueeze(2).mul(w1).sum(-1), // [2, 3, 80]
    dx: g1.unsqueeze(-1).mul(w1).sum(2), // [2, 3, 512]
    dw: g1.unsqueeze(-1).mul(x1.unsqueeze(2)).sum([0, 1]), // [80, 512]
  };
  const got = { y, dx: x.grad!, dw: w.grad! };
  const tolerance = { f64: 1e-13, f32: 1e-5, bf16: 1e-2 }[dtype];
  for (const name of ['y', 'dx', 'dw'] as const)
    expect(await wide(got[name]).sub(want[name]).abs().max().div(want[name].abs().max()).item(), name).toBeLessThan(
      tolerance,
    );
});

test('rows of a batch are what each row is alone', async () => {
  const [x, w] = [ramp([4, 512], 1).to('f32'), ramp([96, 512], 2).to('f32')];
  const together = await tx.linear(x, w).data();
  for (let i = 0; i < 4; i++) {
    const alone = await tx.linear(x.narrow(0, i, 1), w).data();
    alone.forEach((v, j) => expect(Math.abs(Number(v) - Number(together[i * 96 + j]))).toBeLessThan(1e-3)); // of up to 256
  }
});
