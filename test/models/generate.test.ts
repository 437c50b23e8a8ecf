// Generating: tokens identical to transformers', one program for each size of prompts and one for all further tokens.
import * as tx from 'tsxla';
import { expect, test, vi } from 'vitest';
import { collectGarbage } from '../../dist/runtime/memory.js';
import { goldenPath } from '../support.js';
import { camel, facts, given, load, numbers, relativeError } from './support.js';

const compiles = () => tx.metrics.counter('UncachedCompile') ?? 0;
const live = () => (tx.metrics.counter('CreateDataHandles') ?? 0) - (tx.metrics.counter('DestroyDataHandles') ?? 0);
const greedy = { doSample: false, maxNewTokens: 64, eosTokenIds: [] } as const;

test('64 tokens after each prompt are those of transformers, alone and together; one program for each size of prompts', async () => {
  const model = await load('tied');
  const { prompts, greedy: wanted, penalized } = facts.tied;
  const start = compiles();
  const [first] = await model.generate(prompts[0]!, greedy);
  expect(first).toMatchObject({ tokens: wanted[0], promptTokens: prompts[0]!.length, finishReason: 'length' });
  const before = compiles();
  expect(before - start, 'the empty cache, the prompt, all further tokens').toBe(3);
  expect(
    tx
      .explain()
      .slice(-3)
      .map(({ name }) => name),
  ).toEqual(['emptyCache', 'prefill', 'decode']);
  const again = await model.generate(prompts[1]!, greedy);
  expect(again[0]!.tokens).toEqual(wanted[1]);
  const [other] = await model.generate(prompts[0]!, { ...greedy, repetitionPenalty: 1.3 });
  expect(other!.tokens).toEqual(penalized);
  await model.generate(prompts[0]!, { maxNewTokens: 5, temperature: 0.7, topK: 9, topP: 0.8, minP: 0.01, seed: 1 });
  expect(compiles() - before, 'other lengths, options and seeds').toBe(0);
  const [longer] = await model.generate(prompts[2]!, greedy);
  expect(longer!.tokens).toEqual(wanted[2]);
  expect(compiles() - before, 'a prompt of more than 32 tokens').toBe(1);
  const together = await model.generate(prompts, greedy);
  expect(together.map((s) => s.tokens)).toEqual(wanted);
});

test('layers as a loop generate the same, nothing piles up, and the cache is written in place', async () => {
  const model = await load('untied', { scanLayers: true });
  const { prompts, greedy: wanted } = facts.untied;
  const all = await model.generate(prompts, greedy);
  expect(all.map((s) => s.tokens)).toEqual(wanted);
  const { samples } = tx.metrics.metricData('InputOutputAliasCount')!;
  expect(samples.at(-1)![1], 'keys, values, filled, tokens, seen').toBeGreaterThanOrEqual(5);
  await collectGarbage(); // what the tests before left is not to be counted, nor to go while we count
  const counts: number[] = [];
  for await (const { index } of model.generateStream(prompts, greedy)) if (index === 0) counts.push(live());
  const [first, ...later] = counts.slice(2) as [number, ...number[]];
  expect(Math.max(...later) - first, `live buffers: ${counts}`).toBeLessThanOrEqual(1);
});

test.each([
  ['one by one', {}],
  ['as a loop', { scanLayers: true, unroll: 2 }],
] as const)('layers %s: 4 tokens and 3 more are as 7 at once, however often', async (_, options) => {
  const model = await load('tied', options);
  const ids = tx.tensor([[5, 9, 2, 77, 31, 8, 1]], { dtype: 'i32' });
  const part = (from: number, to: number) => ids.narrow(1, from, to - from);
  const cache = model.makeCache(1, 16);
  const next = tx.compile((more: tx.Tensor) => tx.noGrad(() => model.next(more, cache)));
  const start = tx.compile((prompt: tx.Tensor) =>
    tx.noGrad(() => {
      cache.reset();
      return model.next(prompt, cache);
    }),
  );
  const want = await tx.noGrad(() => model.forward(ids).select(1, -1)).data();
  const check = async (logits: tx.Tensor) =>
    expect(relativeError(await logits.data(), { dtype: 'f32', shape: logits.shape, data: want })).toBeLessThan(1e-5);
  for (let again = 0; again < 2; again++) {
    await start(part(0, 4)); // a prompt that looks at itself alone
    await check(await next(part(4, 7)));
    cache.reset(); // outside of the step that fills it
    await next(part(0, 4));
    await check(await next(part(4, 7)));
  }
  cache.reset();
  await next(part(0, 4));
  await check(tx.noGrad(() => model.next(part(4, 7), cache))); // without a step
  expect(await cache.filled.item()).toBe(7);
});

test('a step writes the cache in place: it copies none of it', async () => {
  const model = await load('tied');
  const cache = model.makeCache(2, 4096);
  const next = tx.compile((ids: tx.Tensor) => tx.noGrad(() => model.next(ids, cache)));
  const text = next.stablehlo([tx.zeros([2, 1], { dtype: 'i32' })]);
  const { client } = await tx.openClient('cpu');
  const program = await client.compile(text);
  const layer = cache.keys[0]!.numel() * 4;
  const { aliased, temporaries } = program.memory();
  expect(aliased).toBeGreaterThanOrEqual(2 * 2 * layer); // keys and values of both layers
  expect(temporaries).toBeLessThan(layer / 2);
  client.dispose();
});

test('text comes in parts, ends at stop texts and at tokens that end it, and seeds repeat it', async () => {
  const model = await load('tied');
  const run = { maxNewTokens: 40, seed: 7, temperature: 1, topK: 0, topP: 1, eosTokenIds: [] };
  const parts: tx.models.GeneratedPart[] = [];
  const stream = model.generateStream('hello there', run);
  for await (const part of stream) parts.push(part);
  const tokens = parts.map((p) => p.token);
  const text = parts.map((p) => p.text).join('');
  expect(parts.map((p) => p.finishReason)).toEqual([...Array(39).fill(null), 'length']);
  expect(text).toBe(model.tokenizer!.decode(tokens));
  expect(stream.timings).toMatchObject({ promptTokens: model.tokenizer!.encode('hello there').length, newTokens: 40 });

  const [again] = await model.generate('hello there', run);
  expect(again!.tokens).toEqual(tokens);
  const [other] = await model.generate('hello there', { ...run, seed: 8 });
  expect(other!.tokens).not.toEqual(tokens);

  const eos = tokens[10]!;
  const [ended] = await model.generate('hello there', { ...run, eosTokenIds: eos });
  expect(ended).toMatchObject({ tokens: tokens.slice(0, tokens.indexOf(eos) + 1), finishReason: 'eos' });
  const stop = text.slice(12, 15); // it may begin in one token and end in another
  const [stopped] = await model.generate('hello there', { ...run, stop: ['never there', stop] });
  expect(stopped).toMatchObject({ text: text.slice(0, text.indexOf(stop)), finishReason: 'stop' });
  expect(tokens.slice(0, stopped!.tokens.length)).toEqual(stopped!.tokens);

  const before = compiles();
  for await (const { token } of model.generateStream('hello there', run)) if (token === tokens[3]) break; // enough
  const both = await Promise.all([again, other].map(() => model.generate('hello there', run))); // a cache each
  expect(both.map(([s]) => s!.tokens)).toEqual([tokens, tokens]);
  expect(compiles() - before, 'a second cache is made by the same programs').toBe(0);
  tx.models.releaseCache(model);
});

test('tokens are drawn as often as they are likely', async () => {
  const [draws, tokens] = [4000, 50];
  const logits = given('filter.logits').narrow(0, 0, 1).narrow(1, 0, tokens);
  const seen = tx.zeros([draws, tokens], { dtype: 'bool' });
  const settings = tx.tensor(tx.models.samplingSettings({ temperature: 1.5, topK: 30 }, tokens));
  const kept = tx.models.filterLogits(logits, seen.narrow(0, 0, 1), settings);
  const drawn = tx.models.sample(logits.expand([draws, tokens]), seen, settings, new tx.Generator(5));
  const wanted = (await kept.softmax(-1).data()) as Float32Array;
  const counts = new Float64Array(tokens);
  for (const t of await drawn.data()) counts[Number(t)]!++;
  wanted.forEach((p, i) => {
    if (p === 0) expect(counts[i]).toBe(0);
    expect(Math.abs(counts[i]! - draws * p)).toBeLessThan(5 * Math.sqrt(draws * p * (1 - p)) + 1e-9);
  });
  expect(wanted.filter((p) => p > 0).length).toBe(30);
});

test('tokens that are ruled out, with -Infinity or a very small number, do not blunt the filters', async () => {
  const logits = tx.arange(60, { dtype: 'f32' }).mul(0.1);
  const seen = tx.zeros([1, 60], { dtype: 'bool' });
  for (const out of [Number.NEGATIVE_INFINITY, -3e38, -1e9]) {
    const masked = tx.where(tx.arange(60).lt(4), out, logits).unsqueeze(0);
    const left = async (options: tx.models.SamplingOptions) => {
      const settings = tx.tensor(tx.models.samplingSettings(options, 60));
      return Number(await tx.models.filterLogits(masked, seen, settings).isfinite().sum().item());
    };
    expect([await left({ topK: 1 }), await left({ topK: 5 }), await left({ topP: 0.5 })]).toEqual([1, 5, 7]);
  }
});

test.each<[string, tx.models.GenerateOptions, string]>([
  ['a temperature below 0', { temperature: -1 }, 'temperature is -1: it must not be negative'],
  ['a temperature that is none', { temperature: Number.NaN }, 'temperature is NaN: it must not be negative'],
  ['one that would not be used', { temperature: -1, doSample: false }, 'temperature is -1: it must not be negative'],
  ['a text where a token belongs', { eosTokenIds: ['2'] as never }, "eosTokenIds is '2': it must be a whole number"],
])('refused: %s', async (_, options, why) => {
  const model = await load('tied');
  expect(() => model.generate([5, 6], options)).toThrow(`generate: ${why}`);
});

test('a temperature has its effect, whatever the folder says of sampling', async () => {
  const model = await tx.models.Qwen3ForCausalLM.fromPretrained(goldenPath('qwen3/untied'));
  const texts = async (options: tx.models.GenerateOptions) => {
    const seen = new Set<string>();
    for (const seed of [1, 2, 3]) {
      const [sequence] = await model.generate([[5, 6, 7]], { ...options, seed, maxNewTokens: 6 });
      seen.add(String(sequence!.tokens));
    }
    return seen.size;
  };
  expect(await texts({ temperature: 5 })).toBeGreaterThan(1);
  expect(await texts({ temperature: 5, doSample: false })).toBe(1);
  expect(await texts({})).toBe(1);
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

test("the programs are the library's own: nothing is said of how often they are compiled and read", async () => {
  const model = await load('tied');
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  tx.rules.clear();
  for (const n of [3, 40, 200])
    await model.generate(
      Array.from({ length: n }, (_, i) => i % 90),
      greedy,
    );
  const texts = said.mock.calls.map(([text]) => String(text)).join('');
  said.mockRestore();
  expect(texts).not.toMatch(/compiled again|rule/);
  expect(tx.rules.findings()).toEqual([]);
});
