// Numbers of an index that change from iteration to iteration, and loops that end no step: neither may compile or keep more
// with each iteration.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';
import { addSink } from '../../dist/runtime/events.js';
import { counts } from '../../dist/runtime/program.js';
import { wave } from './loops.js';
import { collected } from './measure.js';

const STEPS = 8;
/** An iteration: a part of what a layer gives, chosen by i. */
const PARTS: Readonly<Record<string, (y: tx.Tensor, i: number) => tx.Tensor>> = {
  'index(i)': (y, i) => y.index(i),
  'narrow(1, i, 2)': (y, i) => y.narrow(1, i % 6, 2),
  'index of a list': (y, i) => y.index([i, (i * 3) % 8]),
  'several of one line': (y, i) => tx.stack([0, 1, 2].map((k) => y.index(k, (i + k) % 8))),
  'indexPut([i], 0)': (y, i) => y.indexPut([i], 0),
};
test.each(Object.entries(PARTS))('%s of what is not computed yet: no program for each i', async (_, part) => {
  const w = wave([6, 8], 1).requiresGrad_();
  const optimizer = new tx.optim.SGD([w], { lr: 0.1 });
  const compiled: number[] = [];
  for (let i = 0; i < STEPS; i++) {
    const before = counts.compiled;
    const x = wave([8, 6], i, 1);
    optimizer.zeroGrad();
    const y = x.matmul(w);
    const found = part(y, i);
    found.square().sum().backward();
    const [of, values, gradient] = await Promise.all([y, found, w.grad!].map((t) => t.tolist()));
    compiled.push(counts.compiled - before);
    const there = tx.tensor(of as number[][], { dtype: 'f32' }).requiresGrad_();
    const expected = part(there, i);
    expected.square().sum().backward();
    expect(values).toEqual(await expected.tolist());
    const difference = x
      .t()
      .matmul(there.grad!)
      .sub(tx.tensor(gradient as number[][], { dtype: 'f32' }));
    expect(await difference.abs().amax().item()).toBeLessThan(1e-5);
    await optimizer.step();
  }
  expect(compiled.slice(3)).toEqual(Array(STEPS - 3).fill(0));
});
test('the steps of a sequence stay constants', async () => {
  const w = wave([6, 8], 1).requiresGrad_();
  for (let i = 0; i < 5; i++) {
    const y = wave([8, 6], i, 1).matmul(w);
    await tx
      .stack([0, 1, 2, 3].map((t) => y.select(0, t).tanh()))
      .sum()
      .item();
  }
  expect(tx.explain().at(-1)).toMatchObject({ inputs: 2 }); // x and w
});

describe('a loop without an optimizer keeps nothing of its iterations', () => {
  const READS: Readonly<Record<string, (loss: tx.Tensor, w: tx.Tensor) => Promise<unknown>>> = {
    'the loss in another form': (loss) => loss.to('f64').reshape([1]).item(),
    'the parameter': (_, w) => w.data(),
  };
  test.each(Object.entries(READS))('that reads %s', async (_, read) => {
    const w = wave([6, 3], 1).requiresGrad_();
    const turn = async (i: number) => {
      const loss = wave([16, 6], i % 7, 1)
        .matmul(w)
        .square()
        .mean();
      loss.backward();
      tx.noGrad(() => w.sub_(w.grad!.mul(0.1)));
      w.grad = null;
      await read(loss, w);
    };
    for (let i = 0; i < 12; i++) await turn(i);
    const before = await collected();
    for (let i = 0; i < 30; i++) await turn(i);
    expect(await collected()).toBeLessThan(before + 10);
    const sizes: number[] = [];
    using _sink = addSink({ compiling: ({ key }) => void sizes.push(key.nodeCount) });
    const optimizer = new tx.optim.SGD([w], { lr: 0.1 });
    w.square().sum().backward();
    await optimizer.step();
    expect(Math.max(...sizes)).toBeLessThan(150);
  });
  test('LBFGS', async () => {
    const run = async () => {
      const w = wave([6, 3], 1).requiresGrad_();
      const optimizer = new tx.optim.LBFGS([w], { lr: 0.5, maxIter: 4 });
      for (let i = 0; i < 3; i++)
        await optimizer.step(() => {
          optimizer.zeroGrad();
          const loss = wave([16, 6], 11, 1).matmul(w).sub(1).square().mean();
          loss.backward();
          return loss;
        });
    };
    await run();
    const before = await collected();
    for (let i = 0; i < 3; i++) await run();
    expect(await collected()).toBeLessThan(before + 5);
  });
});
