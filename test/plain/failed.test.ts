// Steps that fail while others wait for their turn: whatever comes in between, parameters get back what they held.
import * as tx from 'tsxla';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { isIdle } from '../../dist/runtime/turn.js';

let checking: Disposable;
beforeEach(() => {
  checking = tx.debug.nans();
});
afterEach(() => checking[Symbol.dispose]());

const bad = () => tx.tensor([[Number.NaN, 0, 0, 0]], { dtype: 'f32' });
const good = () => tx.ones([1, 4]);
/** A model, a step of a plain loop, and the same step compiled. */
async function training() {
  const net = new tx.nn.Linear(4, 4);
  const optimizer = new tx.optim.SGD(net.parameters(), { lr: 0.1, momentum: 0.9 });
  const turn = (x: tx.Tensor) => {
    optimizer.zeroGrad();
    net.forward(x).square().mean().backward();
    return optimizer.step();
  };
  const compiled = tx.compile((x: tx.Tensor) => void turn(x));
  await turn(good());
  await compiled(good());
  const before = await net.weight.tolist();
  /** The failed steps have left nothing behind, and training continues. */
  const isUnharmed = async () => {
    expect(await net.weight.tolist()).toEqual(before);
    await turn(good());
    expect(await net.weight.tolist()).not.toEqual(before);
    const after = await net.weight.tolist();
    await compiled(good());
    expect(await net.weight.tolist()).not.toEqual(after);
  };
  return { net, optimizer, turn, compiled, before, isUnharmed };
}
const rejects = (p: PromiseLike<unknown>) => expect(async () => p).rejects.toThrow(tx.NonfiniteError);

describe('a step fails that nothing awaits yet', () => {
  test('a compiled call behind it fails, too', async () => {
    const { turn, compiled, isUnharmed } = await training();
    const first = turn(bad());
    const second = compiled(good());
    await Promise.all([rejects(first), rejects(second)]);
    await isUnharmed();
  });
  test('a step behind a compiled call fails with it', async () => {
    const { turn, compiled, isUnharmed } = await training();
    const first = compiled(bad());
    const second = turn(good());
    await Promise.all([rejects(first), rejects(second)]);
    await isUnharmed();
  });
  test('a step between two compiled calls', async () => {
    const { turn, compiled, isUnharmed } = await training();
    const calls = [compiled(bad()), turn(good()), compiled(good()), turn(good())];
    await Promise.all(calls.map(rejects));
    await isUnharmed();
  });
  test('a change on top of it, taken by a read', async () => {
    const { net, turn, isUnharmed } = await training();
    turn(bad());
    tx.noGrad(() => net.weight.mul_(2));
    await rejects(net.weight.tolist());
    await isUnharmed();
  });
  test('a change on top of it, taken by a read of something else', async () => {
    const { net, turn, isUnharmed } = await training();
    const first = turn(bad());
    tx.noGrad(() => net.weight.mul_(2));
    const other = tx.ones([2]).mul(3).tolist();
    await rejects(first);
    expect(await other).toEqual([3, 3]);
    await isUnharmed();
  });
  test('a change on top of a compiled call, taken by a read of something else', async () => {
    const { net, compiled, isUnharmed } = await training();
    const first = compiled(bad());
    tx.noGrad(() => net.weight.mul_(2));
    const other = tx.ones([2]).mul(3).tolist();
    await rejects(first);
    expect(await other).toEqual([3, 3]);
    await isUnharmed();
  });
  test('sync behind it', async () => {
    const { net, turn, isUnharmed } = await training();
    const first = turn(bad());
    tx.noGrad(() => net.weight.mul_(2));
    const second = tx.sync();
    await rejects(first);
    await second.catch(() => {});
    await isUnharmed();
  });
});

test('a value of an earlier step that is not finite: the step that computes it changes nothing', async () => {
  const { net, optimizer, turn } = await training();
  const kept = bad().log();
  await turn(good());
  const before = await net.weight.tolist();
  optimizer.zeroGrad();
  net.forward(kept).square().mean().backward();
  await rejects(optimizer.step());
  expect(await net.weight.tolist()).toEqual(before);
  await turn(good());
  expect(await net.weight.tolist()).not.toEqual(before);
});

test('tensors whose changes are computed by several equal programs are changed together or not at all', async () => {
  const tensors = [1, 2, Number.NaN].map((v) => tx.tensor(new Float32Array(8).fill(v)));
  const before = await tx.read(...tensors);
  for (const t of tensors) for (let i = 0; i < 20; i++) t.mul_(t.sin());
  await rejects(tx.sync());
  expect(await tx.read(...tensors.slice(0, 2))).toEqual(before.slice(0, 2));
});

test('a step that throws the error of an earlier one changes nothing itself', async () => {
  const { net, turn, before, isUnharmed } = await training();
  turn(bad());
  await new Promise((resolve) => setTimeout(resolve, 0));
  while (!isIdle()) await new Promise((resolve) => setTimeout(resolve, 1));
  expect(() => turn(good())).toThrow(tx.NonfiniteError);
  expect(await net.weight.tolist()).toEqual(before);
  await isUnharmed();
});

test('afterStep with a tensor that is disposed before the step: the closure fails, once, and the step does not', async () => {
  const { turn } = await training();
  const gone = good().mul(2);
  tx.afterStep(async (t: tx.Tensor) => void (await t.data()), gone);
  gone.dispose();
  await turn(good());
  await expect(tx.sync({ wait: true })).rejects.toThrow('was disposed');
  await tx.sync({ wait: true });
});

test('afterStep waits on where a call is refused', async () => {
  const twice = tx.compile((x: tx.Tensor) => x.mul(2));
  let calls = 0;
  tx.afterStep(() => void calls++);
  await expect(twice(16_777_217)).rejects.toThrow('does not fit f32');
  await twice(1);
  await tx.sync({ wait: true });
  expect(calls).toBe(1);
});

test('a parameter without a gradient may be disposed before the first step', async () => {
  const [used, other] = [tx.ones([2]).requiresGrad_(), tx.ones([2]).requiresGrad_()];
  const optimizer = new tx.optim.SGD([used, other], { lr: 0.5 });
  used.sum().backward();
  other.dispose();
  await optimizer.step();
  expect(await used.tolist()).toEqual([0.5, 0.5]);
});

test('errors that nothing awaits add one listener to the process', async () => {
  const { turn, net } = await training();
  const before = process.listenerCount('beforeExit');
  for (let i = 0; i < 3; i++) {
    turn(bad());
    await rejects(net.weight.tolist());
  }
  expect(process.listenerCount('beforeExit')).toBeLessThanOrEqual(before + 1);
});
