// The tokenizer: Python's token ids, transformers' chats, and no half characters.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Tokenizer } from 'tsxla/models';
import { expect, test } from 'vitest';
import { facts, folderOf } from './support.js';

const tokenizer = await Tokenizer.fromPretrained(folderOf('tied'));

test.each(facts.tokenizer.texts)('$text', ({ text, ids, decoded }) => {
  expect(tokenizer.encode(text)).toEqual(ids);
  expect(tokenizer.decode(ids)).toBe(decoded);
});

test.each(facts.tokenizer.chats)('the chat $given', ({ given: { messages, ...options }, text }) => {
  expect(tokenizer.applyChatTemplate(messages, options)).toBe(text);
});

test('a stream gives whole characters only, and loses none', () => {
  const text = 'Grüße 你好 😀👩‍👩‍👧';
  const ids = tokenizer.encode(text);
  expect(ids.length).toBeGreaterThan([...text].length); // characters are cut into tokens
  const stream = tokenizer.stream();
  const parts = ids.map((id) => stream.push(id));
  expect(parts.join('')).not.toContain('\uFFFD');
  expect(parts.some((p) => p === '')).toBe(true);
  expect(parts.join('') + stream.end()).toBe(text);
  stream.push(tokenizer.encode('😀')[0]!);
  expect(stream.end()).toBe('\uFFFD'); // the rest of it never came
});

test('what cannot be used says why', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tokenizer-'));
  await expect(Tokenizer.fromPretrained(folder)).rejects.toThrow(`${folder} has no tokenizer.json`);
  fs.writeFileSync(path.join(folder, 'tokenizer.json'), '{"decoder": {"type": "WordPiece"}}');
  await expect(Tokenizer.fromPretrained(folder)).rejects.toThrow('byte-level');
  const json = fs.readFileSync(path.join(folderOf('tied'), 'tokenizer.json'), 'utf8');
  fs.writeFileSync(path.join(folder, 'tokenizer.json'), json);
  const plain = await Tokenizer.fromPretrained(folder);
  expect(() => plain.applyChatTemplate([{ role: 'user', content: 'hi' }])).toThrow('no chat template');
  fs.writeFileSync(path.join(folder, 'chat_template.jinja'), '{{ messages[0].content }}{{ raise_exception("no") }}');
  const odd = await Tokenizer.fromPretrained(folder);
  expect(() => odd.applyChatTemplate([{ role: 'user', content: 'hi' }])).toThrow('applyChatTemplate: no');
  for (const wrong of ['hi', ['hi'], { role: 'user', content: 'hi' }])
    expect(() => odd.applyChatTemplate(wrong as never)).toThrow(
      "pass a list such as [{ role: 'user', content: 'Hello' }]",
    );
  fs.writeFileSync(path.join(folder, 'tokenizer.json'), json.slice(0, 300));
  await expect(Tokenizer.fromPretrained(folder)).rejects.toThrow('is not JSON');
  fs.rmSync(folder, { recursive: true });
});

test('files that hold something else are errors that name the file, the key or token, and the value', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tokenizer-'));
  const names = ['tokenizer.json', 'tokenizer_config.json'] as const;
  interface Json {
    model: Record<string, unknown>;
    added_tokens: { id: number }[];
    [key: string]: unknown;
  }
  const said = async (name: (typeof names)[number], change: (json: Json) => void, message: string) => {
    for (const n of names) fs.copyFileSync(path.join(folderOf('tied'), n), path.join(folder, n));
    const json: Json = JSON.parse(fs.readFileSync(path.join(folder, name), 'utf8'));
    change(json);
    fs.writeFileSync(path.join(folder, name), JSON.stringify(json));
    const hash = async () => (await Tokenizer.fromPretrained(folder)).hash;
    await expect(hash()).rejects.toThrow(`${path.join(folder, name)}: ${message}`);
  };
  const vocabOf = (j: Json) => j.model.vocab as Record<string, unknown>;
  const range = 'expected a whole number from 0 to 16777215';
  await said('tokenizer.json', (j) => (vocabOf(j).a = 2147483648), `the token "a" has the id 2147483648: ${range}`);
  await said('tokenizer.json', (j) => (vocabOf(j).a = '7'), `the token "a" has the id "7": ${range}`);
  await said('tokenizer.json', (j) => (j.added_tokens[0]!.id = 2 ** 31), `"added_tokens.0.id" is 2147483648: ${range}`);
  await said('tokenizer.json', (j) => (j.model.vocab = 'x'), '"model.vocab" is "x": expected an object');
  await said(
    'tokenizer.json',
    (j) => (j.model.merges = [[1, 2]]),
    '"model.merges.0" is a list of 2: expected two tokens',
  );
  await said('tokenizer_config.json', (j) => (j.chat_template = 5), '"chat_template" is 5: expected a string');
  await said('tokenizer_config.json', (j) => (j.eos_token = 5), '"eos_token" is 5: expected a string');
  fs.rmSync(folder, { recursive: true });
});

test('a template with a token that has no id is an error, not a token without number', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tokenizer-'));
  const json = JSON.parse(fs.readFileSync(path.join(folderOf('tied'), 'tokenizer.json'), 'utf8'));
  const single = [{ SpecialToken: { id: '<none>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }];
  json.post_processor = { type: 'TemplateProcessing', single, pair: [], special_tokens: {} };
  fs.writeFileSync(path.join(folder, 'tokenizer.json'), JSON.stringify(json));
  const broken = await Tokenizer.fromPretrained(folder);
  expect(() => broken.encode('q')).toThrow(
    /^Tokenizer\.encode: the string '<none>' is not in the vocabulary of .*tokenizer\.json: /,
  );
  expect(broken.encode('q', { addSpecialTokens: false })).toEqual(tokenizer.encode('q'));
  fs.rmSync(folder, { recursive: true });
});

test('an answer is begun by default, in either spelling', () => {
  const asked = [{ role: 'user', content: 'hi' }];
  const begun = tokenizer.applyChatTemplate(asked);
  expect(begun).toMatch(/<\|im_start\|>assistant\n/);
  for (const options of [{ addGenerationPrompt: false }, { add_generation_prompt: false }])
    expect(begun.startsWith(tokenizer.applyChatTemplate(asked, options))).toBe(true);
  expect(tokenizer.applyChatTemplate(asked, { add_generation_prompt: false })).not.toContain('assistant');
});
