// Perplexity: what transformers' guide computes, over any rows, in one program, while training too.
import { readFileSync } from 'node:fs';
import * as tx from 'tsxla';
import { KDCacheDataset } from 'tsxla/distill';
import { evaluatePerplexity, perplexityRows } from 'tsxla/recovery';
import { expect, test } from 'vitest';
import { load } from '../models/support.js';
import { goldenPath } from '../support.js';
import { file } from './support.js';

const golden = JSON.parse(readFileSync(goldenPath('perplexity.json'), 'utf8')) as {
  readonly text: string;
  readonly tokens: number[];
  readonly windows: { sequenceLength: number; stride: number; loss: number; perplexity: number; tokens: number }[];
};
const model = await load('tied', { scanLayers: true });
const text = file('text.txt', golden.text);
const compiles = () => tx.explain().filter((c) => c.name === 'evaluatePerplexity').length;

test.each(golden.windows)('rows of $sequenceLength tokens every $stride: as transformers', async (want) => {
  const { sequenceLength, stride } = want;
  const rows = await perplexityRows(text, model.tokenizer, { sequenceLength, stride });
  const found = await evaluatePerplexity(model, rows, { batchSize: 3 }); // which does not divide them
  expect(found.tokens).toBe(want.tokens);
  expect(found.loss).toBeCloseTo(want.loss, 5);
  expect(found.perplexity / want.perplexity).toBeCloseTo(1, 5);
});

test('the mean is over tokens that count, however they are in rows and batches', async () => {
  const all = golden.tokens.slice(0, 64);
  const rows = [all.slice(0, 32), all.slice(32)];
  const masks = rows.map((_, r) => Uint8Array.from({ length: 32 }, (_, i) => (r && i < 30 ? 0 : 1)));
  const alone = await Promise.all(
    rows.map((inputIds, i) => evaluatePerplexity(model, [{ inputIds, lossMask: masks[i]! }])),
  );
  expect(alone.map((a) => a.tokens)).toEqual([31, 2]);
  const both = await evaluatePerplexity(
    model,
    rows.map((inputIds, i) => ({ inputIds, lossMask: masks[i]! })),
  );
  expect(both.tokens).toBe(33);
  expect(both.loss).toBeCloseTo((31 * alone[0]!.loss + 2 * alone[1]!.loss) / 33, 5);
});

test('documents of .jsonl follow one another with the end of text between; at most `maxTokens` tokens', async () => {
  const lines = ['the quick fox', 'over a lazy dog'];
  const jsonl = file('text.jsonl', lines.map((text) => JSON.stringify({ text })).join('\n'));
  const { tokenizer } = model;
  const end = tokenizer!.encode(tokenizer!.specialTokens.eos_token!)[0]!;
  const tokens = lines.flatMap((line) => [...tokenizer!.encode(line), end]);
  const rows = await perplexityRows(jsonl, tokenizer, { sequenceLength: 8 });
  const got = await Promise.all(Array.from({ length: rows.length }, (_, i) => rows.get(i)));
  expect(got.flatMap((r) => [...r.inputIds]).slice(0, tokens.length)).toEqual(tokens);
  expect(got.flatMap((r) => [...r.lossMask]).reduce((a, b) => a + b)).toBe(tokens.length - got.length);
  expect((await perplexityRows(jsonl, tokenizer, { sequenceLength: 8, maxTokens: 8 })).length).toBe(1);
});

test('sequences of a KD cache are rows: what their masks leave out does not count', async () => {
  const cache = await KDCacheDataset.open(goldenPath('kd-cache'));
  const found = await evaluatePerplexity(model, cache);
  const sequences = await Promise.all(Array.from({ length: cache.length }, (_, i) => cache.get(i)));
  const counted = sequences.map(({ lossMask }) => Array.from(lossMask.data as Uint8Array).slice(1));
  expect(found.tokens).toBe(counted.flat().filter(Boolean).length);
  const rows = sequences.map((s) => ({
    inputIds: s.inputIds.data as Int32Array,
    lossMask: s.lossMask.data as Uint8Array,
  }));
  expect(await evaluatePerplexity(model, rows)).toEqual(found);
});

test('while training: without dropout, one compile, and every module is in the mode it was', async () => {
  const student = await load('tied');
  tx.lora.addLora(student, { rank: 2, dropout: 0.5 });
  for (const a of tx.lora.adaptersOf(student).values()) tx.noGrad(() => a.loraB.fill_(0.05));
  const rows = [golden.tokens.slice(0, 16), golden.tokens.slice(16, 32)];
  const before = compiles();
  const still = await evaluatePerplexity(student.eval(), rows);
  student.train();
  student.model.norm.eval();
  const first = await evaluatePerplexity(student, rows);
  expect(first).toEqual(still);
  expect(student.training && student.model.layers.training && !student.model.norm.training).toBe(true);
  const adapter = [...tx.lora.adaptersOf(student).values()][0]!;
  await tx.step(() => tx.noGrad(() => void adapter.loraB.mul_(2)));
  expect((await evaluatePerplexity(student, rows)).loss).not.toBe(first.loss);
  expect(compiles() - before).toBe(1);
});

test('progress is told, up to all rows', async () => {
  const seen: number[] = [];
  const rows = Array.from({ length: 5 }, (_, i) => golden.tokens.slice(i * 16, i * 16 + 16));
  await evaluatePerplexity(model, rows, { batchSize: 2, onProgress: (done, total) => seen.push(done, total) });
  expect(seen).toEqual([2, 5, 4, 5, 5, 5]);
});

test('mistakes are sentences', async () => {
  const evaluate = (rows: number[][], options = {}) => evaluatePerplexity(model, rows, options);
  await expect(evaluate([])).rejects.toThrow('evaluatePerplexity: there are no rows: pass at least one');
  await expect(evaluate([[1]])).rejects.toThrow(
    'rows have 1 tokens: at least 2 are needed, because the first is not predicted',
  );
  await expect(evaluate([Array(300).fill(1)])).rejects.toThrow(
    'rows have 300 tokens, but the model has only 256 positions',
  );
  await expect(evaluate([[1, 2], [1]])).rejects.toThrow(
    'row 1 has 1 tokens, the first row 2 tokens: all rows must have the same length',
  );
  await expect(evaluate([[1, 352]])).rejects.toThrow(
    "token 352 of row 0 is out of range: the model's tokens are 0 to 351",
  );
  await expect(evaluate([[1, 2]], { batchSize: 0 })).rejects.toThrow('batchSize is 0: it must be a whole number');
  const nothing = evaluatePerplexity(model, [{ inputIds: [1, 2], lossMask: [1, 0] }]);
  await expect(nothing).rejects.toThrow('no token is to be predicted: the mask is 0 everywhere');
  const rows = (options: object, name = text) =>
    perplexityRows(name, model.tokenizer, { sequenceLength: 8, ...options });
  await expect(rows({ stride: 9 })).rejects.toThrow(
    'stride is 9, which would skip tokens: it must be at most sequenceLength, which is 8',
  );
  await expect(rows({}, 'gone.txt')).rejects.toThrow('there is no file gone.txt');
  await expect(rows({}, file('empty.txt', ''))).rejects.toThrow(
    'the text has fewer than 2 tokens: there is nothing to predict',
  );
});
