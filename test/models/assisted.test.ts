// Speculative decoding: greedy tokens are those without an assistant; drawn tokens are distributed as without one.
import * as tx from 'tsxla';
import { expect, test } from 'vitest';
import { camel, compiles, facts, make } from './generated.js';

const greedy = { doSample: false, maxNewTokens: 30, eosTokenIds: [] } as const;
const prompts = [
  [5, 9, 2, 77, 31],
  [8, 1, 4],
];

test('greedy tokens are those without an assistant, whatever it proposes; three programs', async () => {
  const model = await make('llama');
  const wanted = await model.generate(prompts, greedy);
  const options = { ...greedy, assistantModel: await make('qwen2'), numAssistantTokens: 3 };
  const before = compiles();
  const got = await model.generate(prompts, options);
  expect(got.map((s) => s.tokens)).toEqual(wanted.map((s) => s.tokens));
  expect(compiles() - before, 'the empty caches, the prompts, all further tokens').toBe(3);
  const again = await model.generate([...prompts].reverse(), { ...options, maxNewTokens: 7 });
  expect(again.map((s) => s.tokens)).toEqual([1, 0].map((i) => wanted[i]!.tokens.slice(0, 7)));
  expect(compiles() - before, 'another length').toBe(3);
});

test('an assistant that always agrees saves runs of the model', async () => {
  const model = await make('llama', { scanLayers: true });
  const twin = await make('llama');
  const stream = model.generateStream(prompts[0]!, { ...greedy, assistantModel: twin, numAssistantTokens: 4 });
  const tokens: number[] = [];
  for await (const { token } of stream) tokens.push(token);
  const [wanted] = await model.generate(prompts[0]!, greedy);
  expect(tokens).toEqual(wanted!.tokens);
  expect(stream.timings.checks, '29 tokens after the first, 5 a run').toBe(6);
});

test('processors and tokens that end a sequence have their effect', async () => {
  const model = await make('qwen2-windows');
  const options = { ...greedy, assistantModel: await make('llama'), numAssistantTokens: 2 };
  const runs = facts.greedy['qwen2-windows']!.runs.filter(({ options }) => 'no_repeat_ngram_size' in options);
  expect(runs.length).toBeGreaterThan(1);
  for (const run of runs) {
    const { maxNewTokens, eosTokenIds } = { maxNewTokens: facts.new, eosTokenIds: run.ends };
    const got = await model.generate(run.prompts, { ...options, ...camel(run.options), maxNewTokens, eosTokenIds });
    expect(
      got.map((s) => s.tokens),
      JSON.stringify(run.options),
    ).toEqual(run.tokens);
  }
});

test('drawn tokens are distributed as those without an assistant', async () => {
  const model = await make('llama');
  const assistantModel = await make('qwen2');
  const [rows, V, heat] = [600, model.config.vocabSize, { temperature: 0.4, topK: 6 }];
  // The second and third token after one prompt: the first is forced, so that all rows have the same text.
  const first = 11;
  const forced = (ids: tx.Tensor, x: tx.Tensor) =>
    tx.where(ids.select(1, -1).eq(9).unsqueeze(1), tx.where(tx.arange(V).eq(first), 0, Number.NEGATIVE_INFINITY), x);
  const run = { ...heat, maxNewTokens: 3, seed: 5, eosTokenIds: [], logitsProcessor: forced };
  const got = await model.generate([3, 9], {
    ...run,
    assistantModel,
    numAssistantTokens: 2,
    numReturnSequences: rows,
  });
  expect(new Set(got.map((s) => s.tokens[0]))).toEqual(new Set([first]));
  const settings = tx.tensor(tx.models.samplingSettings(heat, V));
  const logits = tx.noGrad(() => model.forward(tx.tensor([[3, 9, first]], { dtype: 'i32' })).select(1, -1));
  const seen = tx.zeros([1, V], { dtype: 'bool' });
  const wanted = Array.from(await tx.models.filterLogits(logits, seen, settings).softmax(-1).data(), Number);
  const counts = new Float64Array(V);
  for (const { tokens } of got) counts[tokens[1]!]!++;
  wanted.forEach((p, t) => {
    if (p === 0) expect(counts[t]).toBe(0);
    else expect(Math.abs(counts[t]! - rows * p)).toBeLessThan(5 * Math.sqrt(rows * p * (1 - p)) + 1e-9);
  });
  expect(wanted.filter((p) => p > 0.02).length, 'more than one token is likely').toBeGreaterThan(1);
});

test('an assistant that cannot be is an error', async () => {
  const model = await make('llama');
  const failing = (options: object) => () => model.generateStream([1, 2], { maxNewTokens: 4, ...options });
  expect(failing({ assistantModel: {} })).toThrow('assistantModel is an object: it must be a model');
  expect(failing({ numAssistantTokens: 3 })).toThrow('numAssistantTokens is an option of speculative decoding');
  expect(failing({ assistantModel: model, numAssistantTokens: 0 })).toThrow('numAssistantTokens is 0');
  const other = tx.models.AutoModelForCausalLM.fromConfig({
    ...model.architecture.write(model.config, 'f32'),
    vocab_size: 50,
  });
  expect(failing({ assistantModel: other })).toThrow('assistantModel has a vocabulary of 50 tokens, the model of 97');
});
