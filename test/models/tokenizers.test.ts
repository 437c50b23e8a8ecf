// Tokenizers of every kind give what transformers gives: ids, texts, conversations. (scripts/golden/tokenizers.py)
import fs from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { type ChatMessage, type ChatOptions, Tokenizer } from 'tsxla/models';
import { beforeAll, describe, expect, test } from 'vitest';
import { scratch } from '../scratch.js';
import { goldenPath } from '../support.js';

interface Text {
  readonly text: string;
  readonly ids: number[];
  readonly plain: number[];
  readonly decoded: string;
  readonly skipped: string;
}
interface Golden {
  readonly files: Readonly<Record<string, string>>;
  readonly texts: readonly Text[];
  readonly chats: readonly { messages: ChatMessage[]; options: ChatOptions; text: string }[];
  readonly odd: readonly Omit<Text, 'text' | 'plain'>[];
}
const goldens: Record<string, Golden> = JSON.parse(
  gunzipSync(fs.readFileSync(goldenPath('tokenizers.json.gz'))).toString('utf8'),
);
const { newFolder } = scratch('tokenizers');

describe.each(Object.entries(goldens))('%s', (_, { files, texts, chats, odd }) => {
  let tokenizer: Tokenizer;
  beforeAll(async () => {
    const folder = newFolder();
    fs.mkdirSync(folder, { recursive: true });
    for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(folder, name), text);
    tokenizer = await Tokenizer.fromPretrained(folder);
  });

  test('ids of texts, with and without special tokens', () => {
    const made = texts.map(({ text }) => ({
      text,
      ids: tokenizer.encode(text),
      plain: tokenizer.encode(text, { addSpecialTokens: false }),
    }));
    expect(made).toEqual(texts.map(({ text, ids, plain }) => ({ text, ids, plain })));
  });
  test('texts of ids, with and without special tokens', () => {
    const all = [...texts, ...odd].map(({ ids, decoded, skipped }) => ({ ids, decoded, skipped }));
    const made = all.map(({ ids }) => ({
      ids,
      decoded: tokenizer.decode(ids, { skipSpecialTokens: false }),
      skipped: tokenizer.decode(ids),
    }));
    expect(made).toEqual(all);
  });
  test('a stream gives the same as all tokens at once', () => {
    for (const { ids, skipped } of texts) {
      const stream = tokenizer.stream();
      expect(ids.map((id) => stream.push(id)).join('') + stream.end()).toBe(skipped);
    }
  });
  test('conversations', () => {
    for (const { messages, options, text } of chats) expect(tokenizer.applyChatTemplate(messages, options)).toBe(text);
  });
});

test.each([
  ['tokenizer.model', 'has tokenizer.model but no tokenizer.json, the only supported format: write one with'],
  ['tekken.json', 'has tekken.json but no tokenizer.json'],
  ['README.md', 'has no tokenizer.json: pass token ids instead of text'],
])('a folder with %s alone', async (name, message) => {
  const folder = newFolder();
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, name), 'x');
  await expect(Tokenizer.fromPretrained(folder)).rejects.toThrow(`${folder} ${message}`);
});
test.each([
  [{ type: 'WordPiece' }, 'its decoder has the step WordPiece'],
  [{ type: 'Sequence', decoders: [{ type: 'Fuse' }, { type: 'CTC' }] }, 'its decoder has the step CTC'],
  [null, 'it has no decoder'],
])('the decoder %j is refused', async (decoder, message) => {
  const folder = newFolder();
  fs.mkdirSync(folder, { recursive: true });
  const json = JSON.parse(goldens.llama2!.files['tokenizer.json']!);
  fs.writeFileSync(path.join(folder, 'tokenizer.json'), JSON.stringify({ ...json, decoder }));
  await expect(Tokenizer.fromPretrained(folder)).rejects.toThrow(
    `tokenizer.json: ${message}: supported are byte-level`,
  );
});
