// `tsxla generate`, as a user runs it.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { tsxla } from '../support.js';
import { facts, folderOf } from './support.js';

const [model, prompt] = [folderOf('tied'), facts.tied.prompts[0]!];

test('the tokens of transformers as JSON, with what they took', async () => {
  const args = ['generate', '--model', model, '--tokens', prompt.join(), '--greedy', '--json', '-n', '5'];
  const { stdout, stderr, status } = await tsxla(args, { PT_XLA_DEBUG: '1' });
  expect(status).toBe(0);
  expect(stderr).toContain('Graph Name: prefill');
  expect(stderr).not.toMatch(/commander|unknown/); // there is no code of the user's to point at
  const printed = JSON.parse(stdout);
  expect(printed).toMatchObject({ tokens: facts.tied.greedy[0]!.slice(0, 5), finishReason: 'length' });
  expect(printed.timings).toMatchObject({ promptTokens: prompt.length, newTokens: 5 });
});

test('beams and an assistant', async () => {
  const args = ['generate', '--model', model, '--tokens', prompt.join(), '--json', '-n', '4'];
  const beams = await tsxla([
    ...args,
    '--num-beams',
    '3',
    '--num-return-sequences',
    '2',
    '--no-repeat-ngram-size',
    '2',
  ]);
  const { sequences } = JSON.parse(beams.stdout);
  expect(sequences.map((s: { tokens: number[] }) => s.tokens.length)).toEqual([4, 4]);
  expect(sequences[0].score).toBeGreaterThanOrEqual(sequences[1].score);
  const assisted = await tsxla([...args, '--greedy', '--assistant', model, '--num-assistant-tokens', '2']);
  const printed = JSON.parse(assisted.stdout);
  expect(printed.tokens).toEqual(facts.tied.greedy[0]!.slice(0, 4));
  expect(printed.timings.checks).toBeGreaterThan(0);
});

test('a question that is piped in is answered, and the speed is told', async () => {
  const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
  const args = [main, 'generate', '--model', model, '--chat', '--system', 'Be brief.', '-n', '4', '--seed', '1'];
  const child = spawn(process.execPath, args);
  child.stdin.end('hello there');
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  expect(stdout).toMatch(/.\n$/s);
  const asked =
    '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello there<|im_end|>\n<|im_start|>assistant\n';
  const { Tokenizer } = await import('tsxla/models');
  const tokens = (await Tokenizer.fromPretrained(model)).encode(asked).length;
  expect(stderr).toMatch(
    new RegExp(`prompt of ${tokens} at [\\d.]+ tokens/s, then 4 at [\\d.]+ tokens/s; programs ready in .* (s|ms)\n$`),
  );
});

const other = fs.mkdtempSync(path.join(os.tmpdir(), 'mamba-'));
fs.writeFileSync(path.join(other, 'config.json'), '{"model_type": "mamba"}');
test.each([
  ['a folder that is not there', ['/nowhere/at/all', '--prompt', 'x'], '/nowhere/at/all is neither an existing folder'],
  ['another architecture', [other, '--prompt', 'x'], 'the architecture mamba is not supported; supported are '],
  [
    'a token out of range',
    [model, '--tokens', '1,352'],
    "token 352 of prompt 0 is out of range: the model's tokens are 0 to 351",
  ],
  [
    'a prompt that is too long',
    [model, '--prompt', 'x '.repeat(300)],
    'tokens, which leaves no room for new ones: the model has 256 positions',
  ],
  ['an option out of range', [model, '--prompt', 'x', '--top-p', '2'], 'topP is 2: it must be above 0 and at most 1'],
  [
    'beams that are drawn',
    [model, '--prompt', 'x', '--num-beams', '2', '--temperature', '1'],
    'numBeams is 2, but beam search does not sample',
  ],
  ['no number', [model, '--prompt', 'x', '--top-k', 'many'], "'many' is invalid. not a number"],
])('%s is a sentence', async (_, args, said) => {
  const { status, stderr, stdout } = await tsxla(['generate', '--model', ...args]);
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toContain(said);
  expect(stderr).not.toContain('    at '); // no stack
});
