// In place: values are replaced, and a plain training loop compiles once.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { counts } from '../dist/runtime/program.js';
import { defaultClient } from '../dist/runtime/value.js';

test('every operation in place does what its other form does', async () => {
  const x = tx.tensor([1.5, -2, 3]);
  const y = x.add(1);
  expect(await x.add_(1).mul_(2).tolist()).toEqual([5, -2, 8]);
  expect(await y.tolist()).toEqual([2.5, -1, 4]); // what was made of the old value keeps it
  expect(await x.clamp_({ min: 0 }).tolist()).toEqual([5, 0, 8]);
  expect(
    await x
      .zero_()
      .fill_(3)
      .copy_(tx.tensor([1n]))
      .tolist(),
  ).toEqual([1, 1, 1]);
  for (const name of tx.IN_PLACE) expect(typeof (x as unknown as Record<string, unknown>)[`${name}_`]).toBe('function');
});

test('dtype and shape stay, and a variable changes only under noGrad', () => {
  expect(() => tx.zeros([2]).add_(tx.zeros([3, 2]))).toThrow(
    'add_: the result is f32[3, 2], and this tensor f32[2]: shapes stay in place',
  );
  expect(() => tx.zeros([2], { requiresGrad: true }).add_(1)).toThrow(
    'add_: this f32[2] is a variable: change it inside noGrad(() => ...)',
  );
  expect(tx.zeros([2], { dtype: 'i32' }).add_(1.7).dtype).toBe('i32');
});

/** Fits w and b to y = 3x - 1 by hand-written gradient descent with momentum, as one writes it in torch. */
async function train(steps: number): Promise<{ loss: number; compiled: number; executed: number }> {
  const x = tx.linspace(-1, 1, 32).unsqueeze(1);
  const y = x.mul(3).sub(1);
  const parameters = [tx.zeros([1, 1], { requiresGrad: true }), tx.zeros([1], { requiresGrad: true })];
  const momenta = parameters.map((p) => tx.zerosLike(p));
  const start = { ...counts };
  let loss = Number.NaN;
  for (let i = 0; i < steps; i++) {
    const error = tx.mseLoss(x.matmul(parameters[0]!).add(parameters[1]!), y);
    for (const p of parameters) p.grad = null;
    error.backward();
    tx.noGrad(() => {
      parameters.forEach((p, k) => {
        momenta[k]!.mul_(0.9).add_(p.grad!);
        p.sub_(momenta[k]!.mul(0.05));
      });
    });
    loss = Number(await error.item());
  }
  return { loss, compiled: counts.compiled - start.compiled, executed: counts.executed - start.executed };
}

test('a plain training loop: one program, one execution a step, constant memory', async () => {
  await tx.ones([1]).item(); // what other tests changed in place is computed now, not in our first step
  const short = await train(5);
  const client = await defaultClient();
  const collected = async () => {
    for (let i = 0; i < 20; i++) {
      globalThis.gc!();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return client.live.buffers;
  };
  const before = await collected();
  const { loss, compiled, executed } = await train(200);
  expect(loss).toBeLessThan(1e-4);
  expect(executed).toBe(200);
  expect(short.compiled).toBeLessThanOrEqual(2); // the first step's parameters are constants still, then values
  expect(compiled).toBe(0);
  expect(await collected()).toBeLessThanOrEqual(before + 2);
});
