// Generating: tokens identical to transformers', one program for each size of prompts and one for all further tokens.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { camel, facts, given, load, numbers, relativeError } from './support.js';

const compiles = () => tx.metrics.counter('UncachedCompile') ?? 0;
const live = () => (tx.metrics.counter('CreateDataHandles') ?? 0) - (tx.metrics.counter('DestroyDataHandles') ?? 0);
const greedy = { doSample: false, maxNewTokens: 64, eosTokenIds: [] } as const;

test('64 tokens after each prompt are those of transformers, alone and together, and compile twice', async () => {
  const model = await load('tied');
  const { prompts, greedy: wanted, penalized } = facts.tied;
  const [first] = await model.generate(prompts[0]!, greedy);
  expect(first).toMatchObject({ tokens: wanted[0], promptTokens: prompts[0]!.length, finishReason: 'length' });
  const before = compiles();
  const again = await model.generate(prompts[1]!, greedy);
  expect(again[0]!.tokens).toEqual(wanted[1]);
  const [other] = await model.generate(prompts[0]!, { ...greedy, repetitionPenalty: 1.3 });
  expect(other!.tokens).toEqual(penalized);
  await model.generate(prompts[0]!, { maxNewTokens: 5, temperature: 0.7, topK: 9, topP: 0.8, minP: 0.01, seed: 1 });
  expect(compiles() - before, 'other lengths, options and seeds').toBe(0);
  const together = await model.generate(prompts, greedy);
  expect(together.map((s) => s.tokens)).toEqual(wanted);
});

test('layers as a loop generate the same, and nothing piles up', async () => {
  const model = await load('untied', { scanLayers: true });
  const { prompts, greedy: wanted } = facts.untied;
  const all = await model.generate(prompts, greedy);
  expect(all.map((s) => s.tokens)).toEqual(wanted);
  const counts: number[] = [];
  for await (const { index } of model.generateStream(prompts, greedy)) if (index === 0) counts.push(live());
  expect(Math.max(...counts.slice(2)) - Math.min(...counts.slice(2)), `live buffers: ${counts}`).toBeLessThanOrEqual(1);
});

test.each(facts.filters.map((o, i) => [o, i] as const))('what %o leaves is what transformers leaves', async (o, i) => {
  const logits = given('filter.logits');
  const seen = tx.zeros([3, 200], { dtype: 'bool' }).scatter(1, given('filter.seen'), true);
  const settings = tx.tensor(tx.models.samplingSettings(camel(o), 200));
  const kept = tx.models.filterLogits(logits, seen, settings);
  const [got, want] = [await kept.data(), numbers.get(`filter.${i}`)!.data];
  const finite = (xs: ArrayLike<number | bigint>) => Array.from(xs, (x) => Number.isFinite(Number(x)));
  expect(finite(got)).toEqual(finite(want));
  const clean = (xs: ArrayLike<number | bigint>) => Float32Array.from(xs, (x) => (Number.isFinite(x) ? Number(x) : 0));
  expect(relativeError(clean(got), { dtype: 'f32', shape: [600], data: clean(want) })).toBeLessThan(1e-6);
});
