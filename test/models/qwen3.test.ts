// Qwen3 computes what transformers computes: logits, gradients of every parameter, and training.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { facts, given, load, type Name, numbers, relativeError } from './support.js';

const largestDifference = (got: ArrayLike<number | bigint>, want: ArrayLike<number | bigint>): number =>
  Array.from({ length: want.length }, (_, i) => Math.abs(Number(want[i]) - Number(got[i]))).reduce((a, b) =>
    Math.max(a, b),
  );

test.each([
  ['tied', { checkpoint: true }],
  ['untied', { scanLayers: true }],
] as const)('%s %o: logits, loss, and the gradient of every parameter', async (name: Name, options) => {
  const model = await load(name, options);
  const [ids, labels] = [given(`${name}.ids`), given(`${name}.labels`)];
  const logits = model.forward(ids);
  const loss = model.loss(ids, labels);
  loss.backward();
  const padding = { attentionMask: given(`${name}.mask`), positionIds: given(`${name}.positions`) };
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
