// What calls cost on the host, against a peer that is measured in turns with it. The best of many: others may use the
// machine, too. bench/overhead.ts tells the times.
import { expect, test } from 'vitest';
import { makeCase, makeStep, timesOf } from '../../bench/dispatch.js';

const WARM_UP = 200;
const best = (times: readonly number[]): number => Math.min(...times.slice(WARM_UP));

test.each([0, 117, 400])(
  'a compiled function that changes %i tensors costs a few calls of its executable',
  async (size) => {
    const { bare, compiled } = await makeCase(size);
    const times = await timesOf({ bare, compiled }, WARM_UP + 1000);
    const [own, whole] = [best(times.bare), best(times.compiled)].map((ms) => ms * 1000) as [number, number];
    console.log(`${size} tensors: ${own.toFixed(0)} us, compiled ${whole.toFixed(0)} us`);
    expect(whole / own).toBeLessThan(20);
  },
);

test('a step is traced, found and started in time that grows with its ops, not faster', async () => {
  const times = await timesOf({ few: makeStep(500), many: makeStep(5000) }, 50);
  const ratio = Math.min(...times.many) / Math.min(...times.few);
  console.log(`5,000 ops: ${Math.min(...times.many).toFixed(1)} ms, ${ratio.toFixed(1)} times those of 500`);
  expect(ratio).toBeLessThan(60); // with their square: 100
});
