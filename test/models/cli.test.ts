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
  const { stdout, status } = await tsxla([
    'generate',
    '--model',
    model,
    '--tokens',
    prompt.join(),
    '--greedy',
    '--json',
    '-n',
    '5',
  ]);
  expect(status).toBe(0);
  const printed = JSON.parse(stdout);
  expect(printed).toMatchObject({ tokens: facts.tied.greedy[0]!.slice(0, 5), finishReason: 'length' });
  expect(printed.timings).toMatchObject({ promptTokens: prompt.length, newTokens: 5 });
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

const other = fs.mkdtempSync(path.join(os.tmpdir(), 'llama-'));
fs.writeFileSync(path.join(other, 'config.json'), '{"model_type": "llama"}');
test.each([
  [
    'a folder that is not there',
    ['/nowhere/at/all', '--prompt', 'x'],
    '/nowhere/at/all is neither a folder that is there',
  ],
  ['another architecture', [other, '--prompt', 'x'], 'another architecture: llama'],
  [
    'a token out of range',
    [model, '--tokens', '1,352'],
    'token 352 of prompt 0 is out of range: the model has 0 to 351',
  ],
  [
    'a prompt that is too long',
    [model, '--prompt', 'x '.repeat(300)],
    'tokens leaves no room: the model has 256 positions',
  ],
  ['an option out of range', [model, '--prompt', 'x', '--top-p', '2'], 'topP is 2: it must be above 0 and at most 1'],
  ['no number', [model, '--prompt', 'x', '--top-k', 'many'], "'many' is invalid. not a number"],
])('%s is a sentence', async (_, args, said) => {
  const { status, stderr, stdout } = await tsxla(['generate', '--model', ...args]);
  expect([status, stdout]).toEqual([1, '']);
  expect(stderr).toContain(said);
  expect(stderr).not.toContain('    at '); // no stack
});
