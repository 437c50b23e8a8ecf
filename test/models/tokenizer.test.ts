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
  fs.writeFileSync(path.join(folder, 'tokenizer.json'), json.slice(0, 300));
  await expect(Tokenizer.fromPretrained(folder)).rejects.toThrow('is not JSON');
  fs.rmSync(folder, { recursive: true });
});

test('an answer is begun unless told, in either spelling', () => {
  const asked = [{ role: 'user', content: 'hi' }];
  const begun = tokenizer.applyChatTemplate(asked);
  expect(begun).toMatch(/<\|im_start\|>assistant\n/);
  for (const options of [{ addGenerationPrompt: false }, { add_generation_prompt: false }])
    expect(begun.startsWith(tokenizer.applyChatTemplate(asked, options))).toBe(true);
  expect(tokenizer.applyChatTemplate(asked, { add_generation_prompt: false })).not.toContain('assistant');
});
