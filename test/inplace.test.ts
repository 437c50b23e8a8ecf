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
    'add_: the result is f32[3, 2], but this tensor is f32[2]: an in-place operation cannot change the shape',
  );
  expect(() => tx.zeros([2], { requiresGrad: true }).add_(1)).toThrow(
    'add_: this f32[2] is a variable: change it inside noGrad(() => ...)',
  );
});

test('a result of another kind is refused as torch does, a narrower one is converted', async () => {
  const of = (dtype: tx.DType) => tx.tensor([1, 2], { dtype });
  const refused: [string, () => unknown][] = [
    ['mul_: the result is f32, which cannot be stored in this i64[2]: convert the tensor', () => of('i64').mul_(1.5)],
    ['add_: the result is f32', () => of('i32').add_(1.7)],
    ['div_: the result is f32', () => of('i64').div_(2)],
    ['add_: the result is f32', () => of('i64').add_(tx.ones([2]))],
    ['sqrt_: the result is f32', () => of('i64').sqrt_()],
    ['pow_: the result is f32', () => of('i64').pow_(0.5)],
    ['clamp_: the result is f32', () => of('i64').clamp_({ min: 0.5 })],
    ['mul_: the result is c64, which cannot be stored in this f32[2]', () => of('f32').mul_(of('c64'))],
    ['add_: the result is i64, which cannot be stored in this bool[2]', () => of('bool').add_(1)],
    ['square_: the result is i64', () => of('bool').square_()],
    ['indexPut_: the result is f32', () => of('i64').indexPut_([tx.tensor([0])], tx.tensor([0.5]))],
  ];
  for (const [error, run] of refused) expect(run, error).toThrow(error);
  expect(of('f32').add_(of('f64')).dtype).toBe('f32');
  expect(of('i32').mul_(of('i64')).cumsum_({ dim: 0 }).dtype).toBe('i32');
  expect(of('f32').lt_(1.5).dtype).toBe('f32');
  expect(of('bool').add_(true).sign_().dtype).toBe('bool');
  expect(await of('i64').fill_(1.5).tolist()).toEqual([1n, 1n]); // these convert, in torch as well
  expect(
    await of('i64')
      .copy_(tx.tensor([2.5, 3.5]))
      .tolist(),
  ).toEqual([2n, 3n]);
});

// The numbers are torch 2.13's.
test('what was computed from variables is changed in place, and differentiated', async () => {
  const variable = () => tx.tensor([1, 2], { dtype: 'f32', requiresGrad: true });
  const gradient = async (run: (w: tx.Tensor) => tx.Tensor) => {
    const w = variable();
    const h = run(w);
    h.square().sum().backward();
    expect(h.grad).toBeNull();
    return [await w.grad!.tolist(), await h.tolist()];
  };
  const twice = (w: tx.Tensor) => w.mul(2).mul_(3).add_(1).relu_();
  expect(await gradient(twice)).toEqual([
    [84, 156],
    [7, 13],
  ]);
  expect(await gradient((w) => w.clone().mul_(3).add_(1))).toEqual([
    [24, 42],
    [4, 7],
  ]);
  expect(await gradient((w) => tx.zeros([2]).add_(w).add_(w.mul(2)))).toEqual([
    [18, 36],
    [3, 6],
  ]);
  expect(await gradient((w) => w.mul(2).indexPut_([0], 5).mul_(2))).toEqual([
    [0, 64],
    [10, 8],
  ]);
  expect(await gradient((w) => w.mul(2).copy_(w.mul(7)))).toEqual([
    [98, 196],
    [7, 14],
  ]);
  expect(await gradient((w) => w.mul(2).fill_(5).add_(w))).toEqual([
    [12, 14],
    [6, 7],
  ]);
  // Under noGrad the value is another, and gradients go where they went.
  expect(await gradient((w) => tx.noGrad(() => w.mul(2).mul_(1)).add(w.mul(2)))).toEqual([
    [16, 32],
    [4, 8],
  ]);
  const unseen = (w: tx.Tensor) => {
    const h = w.mul(2);
    return tx.noGrad(() => h.mul_(3));
  };
  expect(await gradient(unseen)).toEqual([
    [24, 48],
    [6, 12],
  ]);
  const w = variable();
  const h = w.mul(2).retainGrad().mul_(3);
  h.square().sum().backward();
  expect(await h.grad!.tolist()).toEqual([12, 24]);
});

test('a clone is changed in place inside vmap and grad; the argument itself is not', async () => {
  const f = (x: tx.Tensor) => x.clone().mul_(2).add_(1).square().sum();
  const x = tx.tensor(
    [
      [1, 2],
      [3, 4],
    ],
    { dtype: 'f32' },
  );
  expect(await tx.func.vmap(f)(x).tolist()).toEqual([34, 130]);
  expect(await tx.func.vmap(tx.func.grad(f))(x).tolist()).toEqual([
    [12, 20],
    [28, 36],
  ]);
  expect(() => tx.func.vmap((row: tx.Tensor) => row.mul_(2))(x)).toThrow('is changed in place inside a body');
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
