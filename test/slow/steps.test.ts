// Long loops of steps.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { counts } from '../../dist/runtime/program.js';

test('10,000 steps with a random mix of shapes from 5 buckets: 5 compiles', async () => {
  const w = tx.randn([8, 8]).mul(0.1).requiresGrad_();
  const train = tx.compile((x: tx.Tensor) => {
    w.grad = null;
    const loss = x.matmul(w).square().mean();
    loss.backward();
    tx.noGrad(() => w.sub_(w.grad!.mul(0.01)));
    return loss;
  });
  const buckets = [16, 32, 64, 128, 256].map((n) => tx.randn([n, 8]));
  await tx.sync(w, ...buckets);
  const start = { ...counts };
  let seed = 1;
  for (let i = 0; i < 10_000; i++) {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    (await train(buckets[(seed % 5) | 0]!)).dispose();
  }
  expect(counts.compiled - start.compiled).toBe(5);
  expect(counts.executed - start.executed).toBe(10_000);
  expect(train.programs).toBe(5);
});
