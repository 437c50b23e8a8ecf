// What happens at the end of a step, what counts as one, and the devices it runs on.
import { setTimeout as sleep } from 'node:timers/promises';
import * as tx from 'tsxla';
import { beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { startCounting } from './support.js';

beforeAll(() => void vi.stubEnv('TSXLA_LOG', 'quiet'));
beforeEach(startCounting);

const { counter } = tx.metrics;

describe('closures', () => {
  test('waiting for the step waits for them', async () => {
    let done = false;
    tx.afterStep(async () => {
      await sleep(50);
      done = true;
    });
    await tx.sync({ wait: true });
    expect(done).toBe(true);
  });

  test('without waiting, the loop continues while they run', async () => {
    let [done, goOn] = [false, () => {}];
    tx.afterStep(async () => {
      await new Promise<void>((resolve) => (goOn = resolve));
      done = true;
    });
    await tx.sync();
    await sleep(5);
    expect(done).toBe(false);
    goOn();
    await tx.sync({ wait: true });
    expect(done).toBe(true);
  });

  test('what one throws is thrown where it is awaited', async () => {
    let ran = false;
    tx.afterStep(() => {
      ran = true;
      throw new Error('Simulating exception in closure');
    });
    await expect(tx.sync({ wait: true })).rejects.toThrow('Simulating exception in closure');
    expect(ran).toBe(true);
    await tx.sync({ wait: true }); // once
  });

  test.each<[string, () => Promise<unknown>]>([
    ['sync', () => tx.sync()],
    ['step', () => tx.step(() => tx.ones([2]))],
    ['compiled function', () => tx.compile(() => tx.ones([2]))()],
  ])('else by the next %s, which does nothing and runs no closure', async (_, next) => {
    const ran: string[] = [];
    tx.afterStep(() => {
      ran.push('first');
      throw new Error('Simulating exception in the first');
    });
    await tx.sync();
    await sleep(5);
    tx.afterStep(() => void ran.push('second'));
    const steps = counter('MarkStep');
    await expect(next()).rejects.toThrow('Simulating exception in the first');
    expect([ran, counter('MarkStep')]).toEqual([['first'], steps]);
    await tx.sync({ wait: true });
    expect(ran).toEqual(['first', 'second']); // with the step after
  });
});

describe('MarkStep', () => {
  test('a sync is one', async () => {
    await tx.sync(tx.ones([3, 3]));
    expect(counter('MarkStep')).toBe(1);
  });

  test('so is a step, and a call of a compiled function, with what was pending before it', async () => {
    const x = tx.rand([3, 3]);
    await tx.step(() => x.add(1));
    expect(counter('MarkStep')).toBe(1);
    await tx.compile(() => tx.rand([3]).add(x))();
    expect(counter('MarkStep')).toBe(2);
  });

  test('a step that throws is none: its error comes through, and all is as it was', async () => {
    const x = tx.ones([3, 3]);
    const failing = tx.step(() => {
      x.add_(1);
      throw new Error('Expected error');
    });
    await expect(failing).rejects.toThrow('Expected error');
    expect(counter('MarkStep')).toBeUndefined();
    expect(await x.sum().item()).toBe(9);
  });
});

test('a small training loop: one program for whole batches, one for the short one at the end', async () => {
  tx.manualSeed(0);
  const [w, b] = [tx.rand([10, 10]).requiresGrad_(), tx.zeros([10], { requiresGrad: true })];
  const [inputs, targets] = [tx.randn([100, 10]), tx.randn([100, 10])];
  await tx.sync(w, b, inputs, targets);
  const losses: number[] = [];
  const train = (x: tx.Tensor, y: tx.Tensor) =>
    tx.step(
      () => {
        w.grad = b.grad = null;
        const loss = tx.mseLoss(x.matmul(w).add(b), y);
        loss.backward();
        tx.noGrad(() => {
          for (const p of [w, b]) p.sub_(p.grad!.mul(0.01));
        });
        return loss;
      },
      { name: 'train' },
    );
  for (let epoch = 0; epoch < 3; epoch++)
    for (let i = 0; i < 100; i += 16) {
      const batch = (all: tx.Tensor) => all.index(tx.slice(i, Math.min(i + 16, 100)));
      const [x, y] = [batch(inputs), batch(targets)];
      await tx.sync(x, y);
      losses.push(Number(await (await train(x, y)).item()));
    }
  expect(
    tx
      .explain()
      .filter((r) => r.name === 'train')
      .map((r) => r.difference?.kind),
  ).toEqual([undefined, 'shape']);
  expect(losses.at(-2)).toBeLessThan(losses[0]!);
});

describe('gradients of many micro-batches', () => {
  const w = tx.ones([2], { requiresGrad: true });

  test('accumulate over nothing is an error', () => {
    expect(() => tx.accumulate([], () => w.sum())).toThrow(
      'accumulate: microBatches contains no tensor: pass at least one',
    );
  });

  test('a tensor that is changed in place inside accumulate is an error', () => {
    const counter = tx.zeros([]);
    const part = (x: tx.Tensor) => {
      counter.add_(1);
      return x.mul(w).sum();
    };
    expect(() => tx.accumulate(tx.ones([3, 2]), part)).toThrow('this f32[] is changed in place inside a body');
  });
});

describe('devices', () => {
  test('the CPU is as many as one asks for, numbered from 0', async () => {
    const { client } = await tx.openClient('cpu', { cpuDevices: 4 });
    expect(client.devices.map(String)).toEqual(['cpu:0', 'cpu:1', 'cpu:2', 'cpu:3']);
    expect(client.addressableDevices).toEqual(client.devices);
    client.dispose();
  });

  test('PJRT_DEVICE chooses', () => {
    for (const [name, device] of [
      ['CPU', 'cpu'],
      ['cuda', 'cuda'],
      ['GPU', 'cuda'],
      ['TPU', 'tpu'],
    ] as const) {
      vi.stubEnv('PJRT_DEVICE', name);
      expect(tx.chooseDevice()).toEqual({ device, why: `PJRT_DEVICE=${name}` });
    }
    vi.stubEnv('PJRT_DEVICE', 'NEURON');
    expect(() => tx.chooseDevice()).toThrow('PJRT_DEVICE=NEURON is not a device: use CPU, CUDA, TPU or MPS');
    vi.stubEnv('PJRT_DEVICE', '');
  });
});
