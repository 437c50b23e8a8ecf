// Hidden states and attention weights of a Qwen3: transformers' shapes and order, and the same numbers as hooks on its layers see.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { given, load, numbers, relativeError } from './support.js';

const values = async (t: tx.Tensor) => (await t.data()) as Float32Array;
const distance = async (a: tx.Tensor, b: tx.Tensor) =>
  relativeError(await values(a), { dtype: 'f32', shape: b.shape, data: await values(b) });

test('hidden states and attentions have the shapes and the order of transformers', async () => {
  const model = await load('tied');
  const { numHiddenLayers: L, hiddenSize: D, numAttentionHeads: H } = model.config;
  const ids = given('tied.ids');
  const [B, T] = ids.shape as [number, number];
  const seen: tx.Tensor[] = [];
  for (const layer of model.model.layers as Iterable<tx.nn.Module>)
    layer.registerForwardHook((_, __, y) => void seen.push(y as tx.Tensor));
  const out = model.forward(ids, { outputHiddenStates: true, outputAttentions: true });
  expect(out.hiddenStates!.map((t) => t.shape)).toEqual(Array.from({ length: L + 1 }, () => [B, T, D]));
  expect(out.attentions!.map((t) => t.shape)).toEqual(Array.from({ length: L }, () => [B, H, T, T]));
  const sums = out.attentions!.map((w) => w.sum({ dim: -1 }).sub(1).abs().amax());
  const ahead = out.attentions!.map((w) => w.triu(1).abs().amax());
  const embedded = model.model.embedTokens.forward(ids);
  const last = model.model.forward(ids);
  await tx.sync(out.logits, ...out.hiddenStates!, ...sums, ...ahead, embedded, last, ...seen);
  expect(relativeError(await values(out.logits), numbers.get('tied.logits')!)).toBeLessThan(1e-4); // transformers' own
  expect(await distance(out.hiddenStates![0]!, embedded)).toBe(0);
  for (let i = 1; i < L; i++) expect(await distance(out.hiddenStates![i]!, seen[i - 1]!)).toBeLessThan(1e-6);
  expect(await distance(out.hiddenStates![L]!, last)).toBeLessThan(1e-5);
  for (const t of sums) expect(await t.item()).toBeLessThan(1e-5);
  for (const t of ahead) expect(await t.item()).toBe(0);
});

test('padding has no weight, and what was not asked for is null', async () => {
  const model = await load('untied');
  const ids = given('untied.ids');
  const attentionMask = given('untied.mask').bool();
  const { hiddenStates, attentions } = model.forward(ids, { attentionMask, outputAttentions: true });
  expect(hiddenStates).toBe(null);
  const hidden = attentionMask.logicalNot().unsqueeze(1).unsqueeze(1).expand(attentions![0]!.shape);
  const rows = attentionMask.unsqueeze(1).unsqueeze(-1); // of queries that are tokens themselves
  const weight = tx.where(hidden.logicalAnd(rows), attentions![0]!, 0);
  expect(await weight.abs().sum().item()).toBe(0);
});

test('with scanLayers they are refused', async () => {
  const model = await load('tied', { scanLayers: true });
  expect(() => model.forward(given('tied.ids'), { outputHiddenStates: true })).toThrow(
    /create the model without scanLayers/,
  );
});

test('hooks on attention and MLP run whatever is computed again for the gradient', async () => {
  const ids = given('tied.ids');
  for (const checkpoint of [false, 'light', true] as const) {
    const model = await load('tied', { checkpoint });
    const calls: string[] = [];
    for (const [name, m] of model.namedModules())
      if (/self_attn$|mlp$/.test(name)) m.registerForwardHook(() => void calls.push(name));
    model.forward(ids);
    expect(calls.length).toBe(2 * model.config.numHiddenLayers);
  }
});
