// Kernels on several devices: each device runs the programs of its part.
import * as tx from 'tsxla';
import { afterAll, expect, test } from 'vitest';

const before = process.env.CPU_NUM_DEVICES;
process.env.CPU_NUM_DEVICES = '4';
afterAll(() => {
  if (before === undefined) delete process.env.CPU_NUM_DEVICES;
  else process.env.CPU_NUM_DEVICES = before;
});

const { block } = tx.kernels;
const double = tx.kernel(
  function double(x, y) {
    y.store(x.load().mul(2));
  },
  (x) => {
    const rows = block([2, x.shape[1]!], (i) => [i, 0]);
    return { grid: [x.shape[0]! / 2], in: [rows], out: { of: x, ...rows } };
  },
);

test('split along the grid by shardMap; a sharded operand elsewhere is computed whole', async () => {
  const mesh = new tx.spmd.Mesh([4], ['data']);
  const x = tx.arange(48).to('f32').reshape([16, 3]);
  const want = await x.mul(2).tolist();
  const split = tx.spmd.shardMap((part: tx.Tensor) => double(part), { mesh, in: [['data']], out: ['data'] });
  expect(await split(x).tolist()).toEqual(want);
  const compiled = tx.compile(split);
  expect(await (await compiled(x)).tolist()).toEqual(want);
  tx.spmd.markSharding(x, mesh, ['data', null]);
  expect(await double(x).tolist()).toEqual(want);
});
