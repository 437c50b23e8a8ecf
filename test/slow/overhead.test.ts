// What calls cost on the host. The best of many: others may use the machine, too.
import { expect, test } from 'vitest';
import { callBudget, makeCase, makeStep, STEP_BUDGET, timesOf } from '../../bench/dispatch.js';

const WARM_UP = 200;
const best = (times: readonly number[]): number => Math.min(...times.slice(WARM_UP));

test.each([0, 117, 400])(
  'a compiled function that changes %i tensors costs little more than its executable',
  async (size) => {
    const { buffers, bare, compiled } = await makeCase(size);
    const times = await timesOf({ bare, compiled }, WARM_UP + 1000);
    const over = best(times.compiled) - best(times.bare);
    console.log(`${size} tensors: ${(over * 1000).toFixed(0)} us over the executable`);
    expect(over).toBeLessThan(callBudget(buffers));
  },
);

test('a step of 5,000 ops is traced, found and started', async () => {
  const { step } = await timesOf({ step: makeStep(5000) }, 50);
  console.log(`5,000 ops: ${Math.min(...step).toFixed(1)} ms`);
  expect(Math.min(...step)).toBeLessThan(STEP_BUDGET);
});
