// Averages of models, as torch.optim.swa_utils.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { golden } from '../support.js';

const { nn } = tx;
const { AveragedModel, getEmaAvgFn, getEmaMultiAvgFn, getSwaMultiAvgFn, updateBn } = tx.optim.swaUtils;
type Numbers = Record<string, number[]>;
const want = JSON.parse(golden('averaged.json')) as Record<string, Numbers>;
const x = tx.tensor([1, 2, 3, -1, 0, 4, 2, 2], { dtype: 'f64' }).reshape(4, 2);

function model() {
  const m = new nn.Sequential(new nn.Linear(2, 2), new nn.BatchNorm1d(2)).double();
  for (const [k, p] of m.parameters().entries())
    tx.noGrad(() =>
      p.copy_(
        tx
          .arange(p.numel(), { dtype: 'f64' })
          .mul(0.5)
          .add(k - 1)
          .reshape(p.shape),
      ),
    );
  return m;
}
async function expectState(state: tx.nn.StateDict, numbers: Numbers) {
  const entries = [...(state as Map<string, tx.Tensor>)];
  expect(entries.map(([name]) => name)).toEqual(Object.keys(numbers));
  for (const [name, t] of entries)
    for (const [i, v] of (await t.to('f64').flatten().data()).entries())
      expect(Number(v), `${name} ${i}`).toBeCloseTo(numbers[name]![i]!, 10);
}
async function averaged(options: tx.optim.AveragedModelOptions, way: string) {
  const m = model();
  const average = new AveragedModel(m, options);
  const describe = (x: tx.Tensor, i: tx.Tensor) => {
    m.forward(x);
    tx.noGrad(() => {
      for (const p of m.parameters()) p.copy_(p.mul(1.5).add(i));
    });
    average.updateParameters(m);
  };
  const step = way === 'compile' ? tx.compile(describe) : describe;
  for (let i = 0; i < 4; i++) await step(x.mul(i + 1), tx.tensor(i, { dtype: 'f64' }));
  return average;
}

test.each([
  ['swa', {}, 'plain'],
  ['swa', {}, 'compile'],
  ['swa', { multiAvgFn: getSwaMultiAvgFn() }, 'plain'],
  ['ema', { avgFn: getEmaAvgFn(0.75) }, 'plain'],
  ['emaBuffers', { multiAvgFn: getEmaMultiAvgFn(0.75), useBuffers: true }, 'compile'],
  ['buffers', { useBuffers: true }, 'plain'],
])('%s %o, %s', async (name, options, way) => {
  await expectState((await averaged(options, way)).stateDict(), want[name]!);
});

test("updateBn gives the statistics of the data, and leaves the model's mode and momentum", async () => {
  const average = await averaged({}, 'plain');
  average.eval();
  await updateBn([[x, 0], x.mul(2)], average);
  await expectState(average.stateDict(), want.bn!);
  expect([average.training, average.module.at(1).training]).toEqual([false, false]);
  expect((average.module.at(1) as unknown as tx.nn.BatchNorm1d).momentum).toBe(0.1);
  const copy = new AveragedModel(model());
  copy.loadStateDict(average.stateDict());
  await expectState(copy.stateDict(), want.bn!);
  expect(await copy.eval().forward(x).tolist()).toEqual(await average.forward(x).tolist());
  await expect(updateBn([1], average)).rejects.toThrow(/updateBn: a batch is .*1/);
});

test('what does not fit is an error', () => {
  const average = new AveragedModel(model());
  expect(() => average.updateParameters(new nn.Linear(2, 2))).toThrow(/the model has 2 tensors, the average 4/);
  const other = new nn.Sequential(new nn.Linear(2, 3), new nn.BatchNorm1d(3));
  expect(() => average.updateParameters(other)).toThrow(/0\.weight is f32\[3, 2\] in the model/);
  expect(() => new AveragedModel(model(), { avgFn: getEmaAvgFn(), multiAvgFn: getEmaMultiAvgFn() })).toThrow(
    /avgFn and multiAvgFn are both given: pass one/,
  );
  expect(() => getEmaAvgFn(1.5)).toThrow(/getEmaAvgFn: decay is 1.5: it must be from 0 to 1/);
});
