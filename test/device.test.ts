// The device of the process. The tests are in order: what comes after the first value is computed is in the last.
import * as tx from 'tsxla';
import { afterEach, expect, test, vi } from 'vitest';

afterEach(() => vi.unstubAllEnvs());

test('device() says what would be used, and auto is the same', () => {
  vi.stubEnv('PJRT_DEVICE', 'TPU');
  expect(tx.device()).toBe('tpu');
  vi.stubEnv('PJRT_DEVICE', 'cpu');
  expect([tx.device(), tx.device('auto')]).toEqual(['cpu', 'cpu']);
});

test('what is no device, or not there, cannot be chosen', () => {
  expect(() => tx.device('npu' as never)).toThrow('device: npu is not a device: use auto, cpu, cuda, tpu');
  expect(() => tx.device('tpu')).toThrow('this machine has no TPU');
});

test('it is chosen before anything is computed, over PJRT_DEVICE, and stays', async () => {
  vi.stubEnv('PJRT_DEVICE', 'TPU'); // which is not there: only the choice can compute
  const layer = new tx.nn.Linear(2, 2);
  expect(layer.to('cpu')).toBe(layer);
  expect([tx.device(), tx.chooseDevice().why]).toEqual(['cpu', "tx.device('cpu')"]);
  expect(await tx.ones([2]).sum().item()).toBe(2);
  expect([tx.device(), tx.device('cpu'), tx.device('auto')]).toEqual(['cpu', 'cpu', 'cpu']);
  for (const ask of [() => tx.device('tpu'), () => layer.to('tpu')])
    expect(ask).toThrow(
      'device: cannot switch to tpu, since tensors are already computed on cpu and a process has one device: choose it before anything is computed, or set PJRT_DEVICE',
    );
});
