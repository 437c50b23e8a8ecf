// tsxla/xm: PyTorch/XLA's names do what they do there.
import { readFileSync } from 'node:fs';
import * as tx from 'tsxla';
import * as xm from 'tsxla/xm';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { counts } from '../dist/runtime/program.js';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

/** Gradient descent, as any optimizer looks from outside. */
const sgd = (parameters: readonly tx.Tensor[]) => ({
  steps: 0,
  step() {
    tx.noGrad(() => {
      for (const p of parameters) p.sub_(p.grad!.mul(0.1));
    });
    for (const p of parameters) p.grad = null;
    return ++this.steps;
  },
});

describe('the device', () => {
  test('xlaDevice is xla:0, whatever is behind it', () => {
    vi.stubEnv('PJRT_DEVICE', 'CPU');
    expect(`${xm.xlaDevice()}`).toBe('xla:0');
    expect(xm.xlaDevice()).toMatchObject({ type: 'xla', index: 0, hardware: 'CPU' });
    vi.stubEnv('PJRT_DEVICE', 'TPU');
    expect(xm.xlaDevice().hardware).toBe('TPU');
    vi.stubEnv('PJRT_DEVICE', 'MPS');
    expect(xm.xlaDevice().hardware satisfies 'CPU' | 'CUDA' | 'TPU' | 'MPS').toBe('MPS');
    expect(() => xm.xlaDevice(1)).toThrow('xlaDevice: there is no xla:1: a process computes on one device, xla:0');
  });

  test('isXlaDevice goes by the name', () => {
    expect([xm.xlaDevice(), 'xla', 'XLA:0', 'cuda:0', 'cpu', undefined].map(xm.isXlaDevice)).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
    ]);
  });

  test('getMemoryInfo has what the device tells; the CPU tells nothing, so live buffers are counted', async () => {
    const before = await xm.getMemoryInfo();
    const x = tx.rand([1 << 18]);
    await tx.sync(x);
    const after = await xm.getMemoryInfo(xm.xlaDevice());
    expect(after.bytesUsed - before.bytesUsed).toBeGreaterThanOrEqual(1 << 20);
    expect(after).toMatchObject({ bytesLimit: undefined, peakBytesUsed: undefined });
    x.dispose();
    expect((await xm.getMemoryInfo('xla:0')).bytesUsed).toBeLessThanOrEqual(after.bytesUsed - (1 << 20));
    await expect(xm.getMemoryInfo('cuda:0')).rejects.toThrow(
      'getMemoryInfo: there is no device cuda:0: use xlaDevice()',
    );
  });
});

describe('steps', () => {
  test('a loop of PyTorch/XLA: backward, optimizerStep with a barrier; one program', async () => {
    const w = tx.tensor([1, 2], { dtype: 'f32', requiresGrad: true });
    const optimizer = sgd([w]);
    await tx.sync(w);
    const { compiled, executed } = counts;
    for (let i = 1; i <= 3; i++) {
      w.mul(w).sum().backward();
      expect(await xm.optimizerStep(optimizer, { barrier: true })).toBe(i);
    }
    expect([counts.compiled - compiled, counts.executed - executed]).toEqual([1, 3]);
    const [a, b] = (await w.tolist()) as number[];
    expect(a).toBeCloseTo(0.8 ** 3, 6);
    expect(b).toBeCloseTo(2 * 0.8 ** 3, 6);
    expect(counts.executed - executed).toBe(3); // reading only copies
  });

  test('optimizerStep without a barrier only describes, so it works inside a step', async () => {
    const w = tx.ones([2], { requiresGrad: true });
    const optimizer = sgd([w]);
    const result = await tx.step(() => {
      w.sum().backward();
      xm.optimizerStep(optimizer);
      return w.sum();
    });
    expect(await result.item()).toBeCloseTo(1.8, 6);
    expect(xm.optimizerStep({ step: () => 'done' })).toBe('done');
    expect(await xm.optimizerStep({ step: async () => 'later' }, { barrier: true })).toBe('later');
    expect(() => xm.optimizerStep({} as never)).toThrow(
      'optimizerStep: takes an object with a step() method, got an object',
    );
  });

  test('markStep computes what is pending and counts a step', async () => {
    const before = tx.metrics.counter('MarkStep') ?? 0;
    const w = tx.ones([2]);
    w.add_(4);
    await xm.markStep();
    await xm.xlaMarkStep();
    expect(tx.metrics.counter('MarkStep')).toBe(before + 2);
    expect(tx.graphText(w)).toContain('xla::device_data(), label'); // it has its value
    expect(xm.metricsReport()).toMatch(/^Counter: MarkStep\n {2}Value: \d+$/m);
  });

  test('addStepClosure runs after the step, with its arguments', async () => {
    const said: unknown[] = [];
    const seen = { steps: 0 };
    const loss = await tx.step(() => {
      const y = tx.ones([3]).sum();
      xm.addStepClosure(async (y, name) => said.push(name, await y.item()), [y, 'loss']);
      xm.addStepClosure(async (log) => said.push(log.epoch, await log.y.item()), [{ y, epoch: 7 }]);
      xm.addStepClosure((seen) => void seen.steps++, [seen]);
      xm.addStepClosure(() => said.push('second'));
      return y;
    });
    await tx.sync({ wait: true });
    expect(said).toEqual(['loss', 3, 7, 3, 'second']);
    expect(seen.steps).toBe(1); // the object itself, not a copy
    expect(await loss.item()).toBe(3);
  });

  test('waitDeviceOps waits for all that was asked for', async () => {
    let done = false;
    const x = tx.rand([400, 400]);
    const step = tx.step(() => x.matmul(x).matmul(x).sum());
    void step.then(() => (done = true));
    await xm.waitDeviceOps();
    expect(done).toBe(true);
    expect(tx.metrics.metricData('ExecuteTime')!.total).toBeGreaterThan(0);
  });

  test('getStablehlo is a module', () => {
    expect(xm.getStablehlo([tx.ones([2]).mul(3)])).toContain('"stablehlo.multiply"');
  });
});

test('random numbers go on from a state that was taken', async () => {
  xm.setRngState(42);
  const draw = async () => (await tx.step(() => tx.rand([4]))).tolist();
  const first = await draw();
  const state = xm.getRngState();
  const second = await draw();
  expect(second).not.toEqual(first);
  xm.setRngState(state);
  expect(await draw()).toEqual(second);
  xm.setRngState(42);
  expect(await draw()).toEqual(first);
  expect(() => xm.setRngState(tx.ones([2]))).toThrow('setState: the state must be u32[4], got f32[2]');
});

describe('processes', () => {
  test('alone it is the first of one', async () => {
    vi.stubEnv('PJRT_LOCAL_PROCESS_RANK', '');
    vi.stubEnv('PJRT_LOCAL_PROCESS_COUNT', '');
    expect([xm.getOrdinal(), xm.worldSize(), xm.xrtWorldSize(), xm.isMasterOrdinal()]).toEqual([0, 1, 1, true]);
    expect(await xm.rendezvous('init', Uint8Array.of(1, 2))).toEqual([Uint8Array.of(1, 2)]);
    expect(await xm.rendezvous('end')).toEqual([new Uint8Array()]);
    await expect(xm.rendezvous('bad', 'text' as never)).rejects.toThrow(
      "rendezvous bad: the payload is the string 'text': it must be a Uint8Array",
    );
  });

  test('of several, the first one prints', async () => {
    const log = vi.spyOn(console, 'log').mockImplementation(() => {});
    vi.stubEnv('PJRT_LOCAL_PROCESS_COUNT', '4');
    vi.stubEnv('PJRT_LOCAL_PROCESS_RANK', '1');
    xm.masterPrint('hidden');
    vi.stubEnv('PJRT_LOCAL_PROCESS_RANK', '0');
    xm.masterPrint('loss', 0.5);
    expect(log.mock.calls).toEqual([['loss', 0.5]]);
    await expect(xm.rendezvous('init')).rejects.toThrow(
      'rendezvous init: this is one of 4 processes (PJRT_LOCAL_PROCESS_COUNT), and they cannot communicate: run one process',
    );
  });
});

test('docs/xm.md has every name, and none that is not there', () => {
  const text = readFileSync(new URL('../docs/xm.md', import.meta.url), 'utf8');
  const listed = [...text.matchAll(/^\| `(\w+)/gm)].map((m) => m[1]!);
  expect(listed.sort()).toEqual(Object.keys(xm).sort());
});
