// Logits processors: what each leaves of given logits, and greedy tokens under each, are those of transformers.
import * as tx from 'tsxla';
import { describe, expect, test } from 'vitest';
import { ProcessorPlan, Processors } from '../../dist/models/processors.js';
import { TextState } from '../../dist/models/text-state.js';
import { camel, compiles, facts, make } from './generated.js';

const { ids, logits, ends, cases } = facts.processors;

test.each(cases)('what $options leaves of logits', async ({ options, left, sums }) => {
  const [x, V] = [tx.tensor(logits), logits[0]!.length];
  const seen = tx.zeros([3, V], { dtype: 'bool' }).scatter(1, tx.tensor(ids), true);
  const [padding, count] = [tx.full([3, 4], -1, { dtype: 'i32' }), tx.tensor(4, { dtype: 'i32' })];
  const text = new TextState(seen, tx.cat([padding, tx.tensor(ids, { dtype: 'i32' })], 1), count);
  const given = camel(options);
  const plan = new ProcessorPlan(given, { vocabSize: V, ends: new Set(ends), maxNewTokens: 5 });
  const processors = new Processors(plan);
  processors.assign(plan);
  const sampling = ['repetitionPenalty', 'typicalP', 'epsilonCutoff', 'etaCutoff'] as const;
  const own = Object.fromEntries(sampling.flatMap((n) => (given[n] === undefined ? [] : [[n, given[n]]])));
  const settings = tx.tensor(tx.models.samplingSettings(own, V));
  const y = await processors.apply(tx.models.filterLogits(x, seen, settings), text).data();
  const rows = left.map((_, i) => [...y.slice(i * V, (i + 1) * V)].map(Number));
  expect(rows.map((row) => row.flatMap((x, j) => (Number.isFinite(x) ? [j] : [])))).toEqual(left);
  rows.forEach((row, i) => {
    const sum = row.filter(Number.isFinite).reduce((a, b) => a + b, 0);
    expect(Math.abs(sum - sums[i]!)).toBeLessThan(1e-3);
  });
});

describe.each(Object.keys(facts.greedy))('%s', (name) => {
  test('greedy tokens under each processor are those of transformers', async () => {
    const model = await make(name);
    for (const { options, prompts, ends, tokens } of facts.greedy[name]!.runs) {
      const run = { ...camel(options), maxNewTokens: facts.new, eosTokenIds: ends, doSample: false };
      const got = await model.generate(prompts, run);
      expect(
        got.map((s) => s.tokens),
        JSON.stringify(options),
      ).toEqual(tokens);
    }
  });
});

test('other numbers and other words are the same programs', async () => {
  const model = await make('qwen2-windows');
  const run = { maxNewTokens: 5, doSample: false, eosTokenIds: [3] };
  const words = { badWordsIds: [[1, 2], [3, 4], [5]], minNewTokens: 3, suppressTokens: [7] };
  await model.generate([1, 2, 3], { ...run, ...words });
  const before = compiles();
  await model.generate([4, 5], { ...run, badWordsIds: [[9, 2], [8], [7], [6]], minLength: 9, suppressTokens: [1, 2] });
  await model.generate([4, 5], {
    ...run,
    ...words,
    forcedEosTokenId: 8,
    maxNewTokens: 9,
    temperature: 0.5,
    typicalP: 0.9,
  });
  expect(compiles() - before).toBe(0);
});

test('processors of your own see the tokens and are part of the program', async () => {
  const model = await make('qwen2-windows');
  const run = { maxNewTokens: 6, doSample: false, eosTokenIds: [] };
  // The token after x is x + 1.
  const count = (ids: tx.Tensor, x: tx.Tensor) =>
    tx.where(
      tx.arange(x.size(1), { dtype: 'i32' }).eq(ids.select(1, -1).add(1).unsqueeze(1)),
      0,
      Number.NEGATIVE_INFINITY,
    );
  const [a] = await model.generate([9, 5], { ...run, logitsProcessor: count });
  expect(a!.tokens).toEqual([6, 7, 8, 9, 10, 11]);
  const before = compiles();
  const [again] = await model.generate([60], { ...run, maxNewTokens: 3, logitsProcessor: [count] });
  expect([again!.tokens, compiles() - before]).toEqual([[61, 62, 63], 0]);
  const [plain] = await model.generate([9, 5], run);
  const [other] = await model.generate([9, 5], { ...run, logitsProcessor: (_, x) => x.neg() });
  expect(other!.tokens).not.toEqual(plain!.tokens);
  const wrong = model.generate([9, 5], { ...run, logitsProcessor: [(_, x) => x.argmax(-1)] });
  await expect(wrong).rejects.toThrow('logitsProcessor 0 returned i64[1]: it must return logits f32[1, 97]');
});

test('several sequences of a prompt are drawn, each another; the prompt runs once', async () => {
  const model = await make('qwen2-windows');
  const run = { maxNewTokens: 8, temperature: 1.5, eosTokenIds: [], seed: 3 };
  const all = await model.generate(
    [
      [1, 2, 3],
      [4, 5],
    ],
    { ...run, numReturnSequences: 3 },
  );
  expect(all.map((s) => s.promptTokens)).toEqual([3, 3, 3, 2, 2, 2]);
  expect(new Set(all.map((s) => String(s.tokens))).size).toBe(6);
  // The copies of a prompt go on as the prompt itself: with little heat, all are what greedy decoding gives.
  const cold = await model.generate(
    [
      [1, 2, 3],
      [4, 5],
    ],
    { ...run, temperature: 1e-4, numReturnSequences: 3 },
  );
  const greedy = await model.generate(
    [
      [1, 2, 3],
      [4, 5],
    ],
    { ...run, temperature: 0 },
  );
  expect(cold.map((s) => s.tokens)).toEqual([0, 0, 0, 1, 1, 1].map((i) => greedy[i]!.tokens));
});

test('processors that cannot be are errors that name them', async () => {
  const model = await make('llama');
  const failing = (options: object) => () => model.generateStream([1, 2], { maxNewTokens: 4, ...options });
  expect(failing({ noRepeatNgramSize: 1.5 })).toThrow('noRepeatNgramSize is 1.5: it must be a whole number');
  expect(failing({ minNewTokens: 5 })).toThrow('minNewTokens is 5: it must be at most maxNewTokens, which is 4');
  expect(failing({ badWordsIds: [[1, 97]] })).toThrow("badWordsIds has 97: the model's tokens are 0 to 96");
  expect(failing({ badWordsIds: [[]] })).toThrow('badWordsIds has an empty list');
  expect(failing({ suppressTokens: [-1] })).toThrow('suppressTokens has -1');
  expect(failing({ forcedEosTokenId: 97 })).toThrow('forcedEosTokenId has 97');
  expect(failing({ typicalP: 0 })).toThrow('typicalP is 0: it must be above 0 and at most 1');
  expect(failing({ logitsProcessor: 3 })).toThrow('logitsProcessor 0 is the number 3: it must be a function');
});
