// A port of a torch model: every logit and every gradient is torch's.
import * as tx from 'tsxla';
import { readSafetensors } from 'tsxla/io';
import { expect, test } from 'vitest';
import { vit } from '../examples/vit.js';
import { checkClose } from './ops/check.js';
import { goldenPath } from './support.js';

test('the vision transformer of examples/vit.ts', async () => {
  const golden = await readSafetensors(goldenPath('vit.safetensors'));
  const given = (name: string, requiresGrad = false) => {
    const { data, dtype, shape } = golden.get(name)!;
    return tx.tensor(data, { dtype, shape, requiresGrad });
  };
  const names = [...golden.keys()].filter((k) => k.startsWith('weight.')).map((k) => k.slice('weight.'.length));
  const weights = Object.fromEntries(names.map((n) => [n, given(`weight.${n}`, true)]));
  const logits = vit(weights, given('images'));
  const loss = tx.crossEntropy(logits, given('labels'));
  loss.backward();
  const check = async (t: tx.Tensor, name: string) =>
    checkClose({ dtype: t.dtype, shape: t.shape, data: await t.data() }, golden.get(name)!, name, 1e-4);
  await tx.sync(logits, loss, ...names.map((n) => weights[n]!.grad!)); // one program for all
  await check(logits, 'logits');
  await check(loss, 'loss');
  expect(names.length).toBeGreaterThan(25);
  for (const n of names) await check(weights[n]!.grad!, `grad.${n}`);
});
