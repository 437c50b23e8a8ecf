// Beam search: sequences and scores are those of transformers, alone and padded on the left; the number of programs is constant.
import { describe, expect, test } from 'vitest';
import { camel, compiles, facts, make } from './generated.js';

describe.each(Object.keys(facts.beams))('%s', (name) => {
  test('beams are those of transformers', async () => {
    const model = await make(name, { scanLayers: name === 'gemma2' });
    const { prompts, runs } = facts.beams[name]!;
    for (const run of runs) {
      const options = { ...camel(run.options), maxNewTokens: facts.new, eosTokenIds: run.ends };
      const got = await model.generate(prompts.slice(0, run.prompts), options);
      const what = JSON.stringify(run);
      expect(
        got.map((s) => s.tokens),
        what,
      ).toEqual(run.tokens);
      got.forEach((s, i) => void expect(Math.abs(s.score! - run.scores[i]!), what).toBeLessThan(1e-4));
      const isEnd = (t: number | undefined) => run.ends.includes(t!);
      expect(got.map((s) => s.finishReason)).toEqual(run.tokens.map((t) => (isEnd(t.at(-1)) ? 'eos' : 'length')));
    }
  });
});

test('lengths, penalties and other ends are the same three programs', async () => {
  const model = await make('llama');
  const { prompts } = facts.beams['llama']!;
  const run = { numBeams: 2, eosTokenIds: [9] };
  const start = compiles();
  await model.generate(prompts, { ...run, maxNewTokens: 3 });
  const first = compiles();
  expect(first - start, 'the empty cache, the prompts, all further tokens').toBe(3);
  await model.generate(prompts, { ...run, maxNewTokens: 12, lengthPenalty: 0.5, numReturnSequences: 2 });
  await model.generate(prompts, { ...run, maxNewTokens: 9, earlyStopping: true, eosTokenIds: [4] });
  await model.generate(prompts, { ...run, maxNewTokens: 9, earlyStopping: 'never', repetitionPenalty: 1.2 });
  expect(compiles() - first).toBe(0);
});

test('what beams do not go together with is said', async () => {
  const model = await make('llama');
  const failing = (options: object) => () => model.generateStream([1, 2], { maxNewTokens: 4, ...options });
  expect(failing({ numBeams: 2, doSample: true })).toThrow('numBeams is 2, but beam search does not sample');
  expect(failing({ numBeams: 2, temperature: 0.7 })).toThrow('numBeams is 2, but beam search does not sample');
  expect(failing({ numBeams: 2, numReturnSequences: 3 })).toThrow(
    'numReturnSequences is 3: it must be at most numBeams, which is 2',
  );
  expect(failing({ numReturnSequences: 3 })).toThrow('all would be the same: pass doSample: true, or numBeams');
  expect(failing({ lengthPenalty: 2 })).toThrow('lengthPenalty is an option of beam search: pass numBeams as well');
  expect(failing({ earlyStopping: true })).toThrow('earlyStopping is an option of beam search');
  expect(failing({ numBeams: 2, earlyStopping: 'always' })).toThrow(
    "earlyStopping is 'always': it must be true, false or",
  );
  expect(failing({ numBeams: 0 })).toThrow('numBeams is 0: it must be a whole number, at least 1');
  expect(failing({ numBeams: 2, assistantModel: model })).toThrow('assistantModel is not supported with numBeams');
});

test("a folder's numBeams gives way to sampling that is asked for, and its doSample to beams", async () => {
  const model = await make('llama');
  model.generationConfig = { numBeams: 3, doSample: false, eosTokenIds: [3] };
  const [beams] = await model.generate([5, 6, 7], { maxNewTokens: 4 });
  expect(beams!.score).toBeLessThan(0);
  const [drawn] = await model.generate([5, 6, 7], { maxNewTokens: 4, temperature: 1.1, seed: 1 });
  expect(drawn!.score).toBeUndefined();
  model.generationConfig = { doSample: true, eosTokenIds: [3] };
  const [again] = await model.generate([5, 6, 7], { maxNewTokens: 4, numBeams: 3 });
  expect(again).toEqual(beams);
});
