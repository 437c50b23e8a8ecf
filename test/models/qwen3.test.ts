// Qwen3 computes what transformers computes: logits, gradients of every parameter, and training.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { facts, given, load, NAMES, numbers, relativeError } from './support.js';

const CASES = NAMES.flatMap((name) => [false, true].map((scanLayers) => [name, { scanLayers }] as const));

test.each(CASES)('%s %o: logits, loss, and the gradient of every parameter', async (name, options) => {
  const model = await load(name, options);
  const logits = model.forward(given(`${name}.ids`));
  const loss = model.loss(given(`${name}.ids`), given(`${name}.labels`));
  loss.backward();
  const gradients = new Map<string, tx.Tensor>();
  for (const { tensor, names, stacked } of model.stateEntries())
    names.forEach((n, i) => void gradients.set(n, stacked ? tensor.grad!.select(0, i) : tensor.grad!));
  await tx.sync(logits, loss, ...gradients.values());
  const wanted = numbers.get(`${name}.logits`)!;
  const got = await logits.data();
  expect(Math.max(...Array.from(wanted.data, (w, i) => Math.abs(Number(w) - Number(got[i]))))).toBeLessThan(1e-4);
  expect(relativeError(await loss.data(), numbers.get(`${name}.loss`)!)).toBeLessThan(1e-5);
  const prefix = `${name}.grad.`;
  const names = [...numbers.keys()].filter((k) => k.startsWith(prefix)).map((k) => k.slice(prefix.length));
  expect([...gradients.keys()].filter((n) => n !== 'lm_head.weight' || name === 'untied').sort()).toEqual(names.sort());
  for (const n of names) {
    const error = relativeError(await gradients.get(n)!.data(), numbers.get(prefix + n)!);
    expect(error, `gradient of ${n}`).toBeLessThan(1e-3);
  }
});

test.each(NAMES)('%s: padding on the left is not seen', async (name) => {
  const model = await load(name);
  const [attentionMask, positionIds] = [given(`${name}.mask`), given(`${name}.positions`)];
  const logits = model.forward(given(`${name}.ids`), { attentionMask, positionIds }).narrow(1, 4, 5);
  expect(relativeError(await logits.data(), numbers.get(`${name}.padded`)!)).toBeLessThan(1e-5);
});
