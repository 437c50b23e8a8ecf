// A training loop compiles once and then only dispatches: counted.
import { setImmediate } from 'node:timers/promises';
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { counts } from '../dist/runtime/program.js';
import { defaultClient } from '../dist/runtime/value.js';

/** An MLP with dropout, AdamW by hand, and a learning rate from the host: as an optimizer will write it. */
function network() {
  tx.manualSeed(0);
  const parameters = [
    tx.randn([16, 32]).mul(0.2).requiresGrad_(),
    tx.zeros([32], { requiresGrad: true }),
    tx.randn([32, 4]).mul(0.2).requiresGrad_(),
    tx.zeros([4], { requiresGrad: true }),
  ];
  const state = parameters.map((p) => ({ m: tx.zerosLike(p), v: tx.zerosLike(p) }));
  const steps = tx.zeros([]);
  const lr = tx.tensor(0.5);
  const [w1, b1, w2, b2] = parameters as [tx.Tensor, tx.Tensor, tx.Tensor, tx.Tensor];
  const train = tx.compile(function train(x: tx.Tensor, y: tx.Tensor) {
    for (const p of parameters) p.grad = null;
    const hidden = tx.dropout(x.matmul(w1).add(b1).relu(), { p: 0.1 });
    const loss = tx.crossEntropy(hidden.matmul(w2).add(b2), y);
    loss.backward();
    tx.noGrad(() => {
      steps.add_(1);
      parameters.forEach((p, i) => {
        const { m, v } = state[i]!;
        const g = p.grad!;
        m.lerp_(g, 0.1);
        v.lerp_(g.mul(g), 0.001);
        const [mHat, vHat] = [m.div(tx.sub(1, tx.pow(0.9, steps))), v.div(tx.sub(1, tx.pow(0.999, steps)))];
        p.sub_(mHat.div(vHat.sqrt().add(1e-8)).add(p.mul(0.01)).mul(lr));
        p.grad = null;
      });
    });
    return loss;
  });
  return { train, lr, steps, held: [...parameters, ...state.flatMap(({ m, v }) => [m, v]), steps] };
}

/** Warm-up from 0, cosine to 0; and 1 at the end: the numbers at which PyTorch/XLA compiles again. */
const schedule = (i: number): number =>
  i === 999 ? 1 : 0.01 * (i < 100 ? i / 100 : 0.5 * (1 + Math.cos((Math.PI * (i - 100)) / 898)));

test('1,000 steps: 1 compile, 1,000 executions, all state donated, live buffers constant, memory flat', async () => {
  const { train, lr, steps, held } = network();
  const x = tx.randn([64, 16]);
  const y = tx.randint(0, 4, [64]);
  await tx.sync(x, y, ...held);
  const client = await defaultClient();
  const start = { ...counts };
  let [buffers, resident, first, last] = [0, 0, 0, 0];
  const collect = async () => {
    globalThis.gc!();
    await setImmediate();
  };
  for (let i = 0; i < 1000; i++) {
    lr.copy_(schedule(i));
    using loss = await train(x, y);
    if (i === 10) {
      first = Number(await loss.item());
      await collect();
      buffers = client.live.buffers;
    } else if (i > 10 && i % 100 === 10) {
      last = Number(await loss.item());
      expect(client.live.buffers).toBe(buffers);
    }
    if (i === 200) {
      await collect();
      resident = process.memoryUsage.rss();
    }
  }
  await collect();
  expect(process.memoryUsage.rss() / resident).toBeLessThan(1.5);
  expect({ compiled: counts.compiled - start.compiled, executed: counts.executed - start.executed }).toEqual({
    compiled: 1,
    executed: 1000,
  });
  expect(await steps.item()).toBe(1000);
  expect(last).toBeLessThan(first);
  // Every parameter, moment, the count of steps and the generator's state give their memory to their successors.
  const aliases = tx.metrics.metricData('InputOutputAliasCount')!.samples.at(-1)![1];
  expect(aliases).toBe(held.length + 1);
});
