import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import {
  anyObject,
  flag,
  list,
  object,
  optional,
  parseJson,
  readJson,
  real,
  text,
  whole,
} from '../../dist/base/json.js';
import { scratch } from '../scratch.js';

const dir = scratch('json').newFolder();
fs.mkdirSync(dir);
const schema = object({
  name: text,
  layers: whole(1),
  theta: optional(real),
  tied: optional(flag),
  ids: optional(list(whole())),
});
const file = path.join(dir, 'config.json');
const read = (content: string | Uint8Array) => {
  fs.writeFileSync(file, content);
  return readJson(file, schema);
};

test('what is right is read, with other keys as they are; null is absent', async () => {
  expect(await read('{"name": "a", "layers": 2, "theta": null, "more": [1]}')).toEqual({
    ...{ name: 'a', layers: 2, theta: undefined, more: [1] },
  });
  expect(await read('\ufeff{"name": "a", "layers": 2}')).toEqual({ name: 'a', layers: 2 });
  expect(await readJson(path.join(dir, 'none.json'), schema)).toBeUndefined();
});

test.each([
  ['{"name": "a", "layers": "x"}', ': "layers" is "x": expected a whole number of at least 1'],
  ['{"name": "a", "layers": 1.5}', ': "layers" is 1.5: expected a whole number of at least 1'],
  ['{"name": "a", "layers": 1e300}', ': "layers" is 1e+300: expected a whole number'],
  ['{"name": "a"}', ': "layers" is missing: expected a whole number of at least 1'],
  ['{"layers": 0}', ': "name" is missing: expected a string (and 1 more key is wrong)'],
  ['{"name": "a", "layers": 1, "theta": "1e6"}', ': "theta" is "1e6": expected a number'],
  ['{"name": "a", "layers": 1, "ids": [1, "x"]}', ': "ids.1" is "x": expected a whole number'],
  ['{"name": "a", "layers": 1, "ids": {}}', ': "ids" is an object: expected a list'],
  ['null', ': its content is null: expected an object'],
  ['[]', ': its content is a list of 0: expected an object'],
  ['', ' is not JSON: '],
  ['{"name": ', ' is not JSON: '],
  [Uint8Array.from([0x22, 0xff, 0x22]), ' is not JSON: '],
])('%j is refused', async (content, sentence) => {
  await expect(read(content)).rejects.toMatchObject({
    name: 'FileError',
    message: expect.stringContaining(file + sentence),
  });
});

test('a folder and a pipe are no files', async () => {
  const pipe = path.join(dir, 'pipe');
  execFileSync('mkfifo', [pipe]);
  for (const at of [dir, pipe])
    await expect(readJson(at, schema)).rejects.toThrow(`cannot read ${at}: it is not a file`);
});

test('what is nested deeper than the stack is refused; brackets in texts do not count', () => {
  const nested = (depth: number) => `{"a": ${'['.repeat(depth)}${']'.repeat(depth)}}`;
  expect(() => parseJson(nested(1000), 'a.json', anyObject)).toThrow(
    'a.json is not JSON: it is nested more than 1000 deep',
  );
  expect(() => parseJson(`${'{"a":'.repeat(1001)}1${'}'.repeat(1001)}`, 'a.json', anyObject)).toThrow('nested');
  expect(parseJson(nested(999), 'a.json', anyObject)).toHaveProperty('a');
  const text = `\\"${'['.repeat(2000)}\\\\`;
  expect(parseJson(JSON.stringify({ a: text, b: [text] }), 'a.json', anyObject)).toEqual({ a: text, b: [text] });
  expect(() => parseJson('{"a": "', 'a.json', anyObject)).toThrow('a.json is not JSON: Unterminated');
});
