// tx.debug.nans with values that are split over several devices.
process.env.CPU_NUM_DEVICES = '4';

import { afterAll, beforeAll, expect, test } from 'vitest';

const tx = await import('tsxla');
const { Mesh, markSharding, shardMap } = tx.spmd;
const mesh = new Mesh([2, 2], ['data', 'model']);

beforeAll(() => void tx.debug.nans());
afterAll(() => void tx.debug.nans(false));
const detailsOf = async (run: () => Promise<unknown>): Promise<Record<string, unknown>> => {
  const error = await run().catch((e: unknown) => e);
  expect(error).toBeInstanceOf(tx.NonfiniteError);
  return (error as InstanceType<typeof tx.NonfiniteError>).details;
};

test('an operation, a split weight, and a manual region are named; the weight is split as before', async () => {
  const layer = new tx.nn.Linear(8, 8);
  markSharding(layer.weight, mesh, ['model', null]);
  const x = tx.tensor(
    Float32Array.from({ length: 32 }, (_, i) => Math.sin(i)),
    { shape: [4, 8] },
  );
  markSharding(x, mesh, ['data', null]);
  const train = tx.compile(function train(x: InstanceType<typeof tx.Tensor>) {
    const loss = layer.forward(x).sub(10).log().sum();
    loss.backward();
    tx.noGrad(() => layer.weight.sub_(layer.weight.grad!));
    layer.zeroGrad();
    return loss;
  });
  const before = await layer.weight.tolist();
  expect(await detailsOf(() => train(x))).toMatchObject({ op: 'log', operands: [{ shape: [4, 8], nan: 0 }] });
  expect(await layer.weight.tolist()).toEqual(before);
  expect(String(layer.weight.cell.sharding)).toContain('model');

  const data = (await layer.weight.data()) as Float32Array;
  data[61] = Number.NaN;
  layer.weight.assign(data);
  expect(await detailsOf(() => train(x))).toMatchObject({ input: { path: 'weight', index: [7, 5], count: 1 } });

  const region = shardMap((y) => y.sub(100).log(), { mesh, in: [['data']], out: ['data'] });
  expect(await detailsOf(() => tx.step(() => region(x)))).toMatchObject({
    op: 'manual',
    operands: [{ shape: [4, 8] }],
  });
});
