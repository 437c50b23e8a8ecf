// Qwen3 computes what transformers computes: logits, gradients of every parameter, and training.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';
import { facts, given, load, type Name, numbers, relativeError } from './support.js';

const largestDifference = (got: ArrayLike<number | bigint>, want: ArrayLike<number | bigint>): number =>
  Array.from({ length: want.length }, (_, i) => Math.abs(Number(want[i]) - Number(got[i]))).reduce((a, b) =>
    Math.max(a, b),
  );

test.each([
  ['tied', { checkpoint: true }],
  ['tied', { checkpoint: 'light' }],
  ['untied', { scanLayers: true }],
] as const)('%s %o: logits, loss, and the gradient of every parameter', async (name: Name, options) => {
  const model = await load(name, options);
  const [ids, labels] = [given(`${name}.ids`), given(`${name}.labels`)];
  const logits = model.forward(ids);
  const loss = model.loss(ids, labels);
  loss.backward();
  const padding = { attentionMask: given(`${name}.mask`).bool(), positionIds: given(`${name}.positions`) };
  const padded = model.forward(ids, padding).narrow(1, 4, 5); // padding on the left is not seen
  const gradients = new Map<string, tx.Tensor>();
  for (const { tensor, names, stacked } of model.stateEntries())
    names.forEach((n, i) => void gradients.set(n, stacked ? tensor.grad!.select(0, i) : tensor.grad!));
  await tx.sync(logits, loss, padded, ...gradients.values()); // one program for all
  expect(largestDifference(await logits.data(), numbers.get(`${name}.logits`)!.data)).toBeLessThan(1e-4);
  expect(largestDifference(await padded.data(), numbers.get(`${name}.padded`)!.data)).toBeLessThan(1e-4);
  expect(relativeError(await loss.data(), numbers.get(`${name}.loss`)!)).toBeLessThan(1e-5);
  const prefix = `${name}.grad.`;
  const names = [...numbers.keys()].filter((k) => k.startsWith(prefix)).map((k) => k.slice(prefix.length));
  expect([...gradients.keys()].filter((n) => n !== 'lm_head.weight' || name === 'untied').sort()).toEqual(names.sort());
  for (const n of names) {
    const error = relativeError(await gradients.get(n)!.data(), numbers.get(prefix + n)!);
    expect(error, `gradient of ${n}`).toBeLessThan(1e-3);
  }
});

test('50 steps of AdamW from the same weights and batches have the losses of torch', async () => {
  const { model: name, lr, weight_decay: weightDecay, losses } = facts.training;
  const model = (await load(name, { scanLayers: true })).train();
  const optimizer = new tx.optim.AdamW(model.parameters(), { lr, weightDecay });
  const train = tx.compile((ids: tx.Tensor) => {
    const loss = model.loss(ids);
    loss.backward();
    optimizer.step();
    optimizer.zeroGrad();
    return loss;
  });
  const { data, shape } = numbers.get('train.batches')!;
  const size = shape[1]! * shape[2]!;
  const got: number[] = [];
  for (let i = 0; i < losses.length; i++) {
    const ids = tx.tensor(data.slice(i * size, (i + 1) * size), { shape: shape.slice(1) });
    got.push(Number(await (await train(ids)).item()));
  }
  expect(train.programs).toBe(1);
  expect(largestDifference(got, losses), `losses: ${got}`).toBeLessThan(1e-3);
  expect(got.at(-1)).toBeLessThan(got[0]! - 2); // it learns
});

describe.each([
  ['one by one', {}],
  ['as a loop', { scanLayers: true }],
] as const)('documents packed in rows, layers %s', (_, options) => {
  const [long, short] = [
    [
      [5, 9, 2, 77, 31],
      [8, 1, 90, 4, 6],
    ],
    [
      [12, 60, 3],
      [44, 7, 19],
    ],
  ] as const;
  const packed = tx.data.packSequences([...long, ...short], { length: 9, padValue: 1 });
  const loader = new tx.data.DataLoader(packed, { batchSize: 2 }); // one long and one short document in each row

  test('each has the logits it has alone, and the loss is the mean over all tokens that are predicted', async () => {
    const model = await load('tied', options);
    const alone = [long, short].map((documents) => tx.tensor(documents, { dtype: 'i32' }));
    for await (const { inputIds, labels, ...inputs } of loader) {
      const rows = model.forward(inputIds, inputs);
      const [a, b] = alone.map((ids) => model.forward(ids)) as [tx.Tensor, tx.Tensor];
      const difference = rows
        .narrow(1, 0, 8)
        .sub(tx.cat([a, b], 1))
        .abs()
        .max();
      const loss = model.loss(inputIds, labels, inputs);
      const [c, d] = alone.map((ids) => model.loss(ids)) as [tx.Tensor, tx.Tensor];
      const mean = c.mul(8).add(d.mul(4)).div(12);
      await tx.sync(difference, loss, mean);
      expect(Number(await difference.item())).toBeLessThan(1e-5);
      expect(Math.abs(Number(await loss.item()) - Number(await mean.item()))).toBeLessThan(1e-5);
    }
    expect(loader.epoch).toBe(1);
  });
});

test('a mask that may hold more than 0 and 1 is refused, with what to pass instead', async () => {
  const model = await load('tied');
  const ids = tx.zeros([2, 9], { dtype: 'i32' });
  const run = (inputs: tx.models.Qwen3Inputs) => () => model.forward(ids, inputs);
  expect(run({ attentionMask: ids })).toThrow(
    'attentionMask is i32[2, 9]: it must be bool, true for a token: use mask.bool() for a mask of 0 and 1, and segmentIds for numbers of documents',
  );
  expect(run({ segmentIds: ids.float() })).toThrow('segmentIds is f32[2, 9]: it must have integers');
  expect(run({ segmentIds: ids.select(0, 0) })).toThrow('segmentIds is i32[9], inputIds is i32[2, 9]');
  expect(run({ segmentIds: ids, cache: model.makeCache(2, 16) })).toThrow('the cache has its own mask');
});

test('the loss cuts no logits: they are large', async () => {
  const model = await load('tied');
  const step = tx.compile((ids: tx.Tensor) => {
    const loss = model.loss(ids);
    loss.backward();
    return loss;
  });
  const text = step.stablehlo([tx.zeros([2, 9], { dtype: 'i32' })]);
  const V = model.config.vocabSize;
  expect(text).toContain(`tensor<2x9x${V}xf32>`);
  expect(text).not.toMatch(new RegExp(`tensor<(2x8|16)x${V}xf32>`));
});
