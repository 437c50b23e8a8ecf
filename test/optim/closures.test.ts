// step(closure), a tensor as the learning rate, LBFGS, and what every optimizer shares with the scaler and accumulation.
import * as tx from 'tsxla';
import { Adagrad, ASGD, GradScaler, LBFGS, Muon, NAdam, RAdam, Rprop, SGD, StepLR } from 'tsxla/optim';
import { expect, test } from 'vitest';
import { counts } from '../../dist/runtime/program.js';

const parameter = (...values: number[]) => tx.tensor(values, { dtype: 'f32', requiresGrad: true });
const list = async (t: tx.Tensor) => Array.from((await t.to('f64').flatten().data()) as Float64Array);
const close = (got: readonly number[], want: readonly number[], digits = 6) => {
  expect(got.length).toBe(want.length);
  for (const [i, x] of got.entries()) expect(x).toBeCloseTo(want[i]!, digits);
};

test('step(closure) is the loss, in a plain loop, inside compile and with an async closure', async () => {
  const make = () => {
    const p = parameter(1, 2);
    const optimizer = new SGD([p], { lr: 0.25 });
    const closure = () => {
      optimizer.zeroGrad();
      const loss = p.square().sum();
      loss.backward();
      return loss;
    };
    return { p, optimizer, closure };
  };
  const [a, b, c] = [make(), make(), make()];
  const train = tx.compile(() => b.optimizer.step(b.closure));
  for (const want of [5, 1.25, 0.3125]) {
    expect(await a.optimizer.step(a.closure).item()).toBe(want);
    expect(await (await train()).item()).toBe(want);
    expect(await (await c.optimizer.step(async () => c.closure())).item()).toBe(want);
  }
  for (const { p } of [a, b, c]) expect(await list(p)).toEqual([0.125, 0.25]);
  expect(train.programs).toBe(1);
  // Gradients are recorded in the closure, wherever the step is.
  expect(await tx.noGrad(() => a.optimizer.step(a.closure)).item()).toBe(0.078125);
});

test('a tensor as lr: its value at each step counts, in one program; setting the group sets it', async () => {
  const p = parameter(0);
  const lr = tx.tensor(1, { dtype: 'f32' });
  const optimizer = new SGD([p], { lr });
  const train = tx.compile(() => {
    p.grad = tx.ones([1]);
    optimizer.step();
  });
  await train();
  lr.fill_(2);
  await train();
  optimizer.paramGroups[0]!.lr = 4;
  await train();
  expect(await list(p)).toEqual([-7]);
  expect(await lr.item()).toBe(4);
  expect(train.programs).toBe(1);
  expect(() => new SGD([parameter(1)], { lr: tx.ones([2]) })).toThrow(
    /lr is .*: it must be 0 or more, or a tensor with one/,
  );
  expect(() => new StepLR(optimizer, 3)).toThrow(
    /StepLR: the optimizer's lr is a tensor, f32\[\]: .*pass a number as lr/,
  );
});

test('kernels of torch are chosen in vain, and differentiable is refused', () => {
  const p = parameter(1);
  expect(new NAdam([p], { foreach: true, capturable: true }).stateDict().param_groups[0]).toMatchObject({
    foreach: true,
  });
  expect(() => new NAdam([p], { differentiable: true })).toThrow(/updates are not differentiable/);
  expect(() => new Muon([p])).toThrow(/Muon: a parameter has shape \[1\]: Muon takes only matrices/);
  expect(() => new Rprop([p], { etas: [1.5, 2] })).toThrow(/etas is \[1.5, 2\]: it must be 0 < first < 1 < second/);
});

test.each([NAdam, ASGD, Rprop, RAdam, Adagrad])(
  '%o: the scaler skips all of it, and sums of gradients are one step',
  async (Kind) => {
    const run = async (isScaled: boolean) => {
      const p = parameter(1, -2);
      const optimizer = new Kind([p], { lr: 0.125 });
      const scaler = new GradScaler({ initScale: 4, enabled: isScaled });
      const train = tx.compile((factor: tx.Tensor) => {
        optimizer.zeroGrad();
        for (const part of [1, 2]) scaler.scale(p.square().sum().mul(part).mul(factor)).backward();
        scaler.step(optimizer);
        scaler.update();
      });
      const bad = isScaled ? [1, Number.POSITIVE_INFINITY, 1, 1] : [1, 1, 1];
      for (const factor of bad) await train(tx.tensor(factor, { dtype: 'f32' }));
      expect(train.programs).toBe(1);
      const { state } = optimizer.stateDict();
      expect(await list(state[0]!.step!)).toEqual([3]);
      return list(p);
    };
    close(await run(true), await run(false));
  },
);

const rosenbrock = (p: tx.Tensor) => {
  const [x, y] = p.unbind(0) as [tx.Tensor, tx.Tensor];
  return y.sub(x.square()).square().mul(100).add(tx.sub(1, x).square());
};

test('LBFGS finds the bottom of a valley, with one program for the closure, and continues from a state dict', async () => {
  const make = (...start: number[]) => {
    const p = tx.tensor(start, { dtype: 'f64', requiresGrad: true });
    const optimizer = new LBFGS([p], { lineSearchFn: 'strong_wolfe', maxIter: 10 });
    const closure = () => {
      optimizer.zeroGrad();
      const loss = rosenbrock(p);
      loss.backward();
      return loss;
    };
    return { p, optimizer, closure };
  };
  const a = make(-1.2, 1);
  const first = await (await a.optimizer.step(a.closure)).item();
  expect(first).toBeCloseTo(24.2, 10); // the loss before the step
  const saved = a.optimizer.stateDict();
  const b = make(...(await list(a.p)));
  b.optimizer.loadStateDict(saved);
  expect(b.optimizer.stateDict().state).toEqual(saved.state);
  const before = counts.compiled;
  for (let i = 0; i < 4; i++) await a.optimizer.step(a.closure);
  expect(counts.compiled).toBe(before);
  for (let i = 0; i < 4; i++) await b.optimizer.step(b.closure);
  close(await list(a.p), [0.9999814210791366, 0.9999619651810989], 12); // where torch ends, too
  expect(await list(b.p)).toEqual(await list(a.p));
  expect(Object.keys(a.optimizer.stateDict().state[0]!)).toContain('prev_flat_grad');
});

test('LBFGS says what it needs', async () => {
  const p = parameter(1);
  const optimizer = new LBFGS([p]);
  await expect(optimizer.step(undefined as never)).rejects.toThrow(/the closure is .*: it must be a function/);
  await expect(optimizer.step(() => tx.ones([2]))).rejects.toThrow(
    /it must return the loss, a tensor with one element/,
  );
  expect(() => new LBFGS([{ params: [p] }, { params: [parameter(2)] }])).toThrow(
    /cannot add a second group of parameters: it supports one/,
  );
});
