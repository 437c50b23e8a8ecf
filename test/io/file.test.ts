import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { finishReplacing, openOutput, replaceFiles, type WriteFile } from '../../dist/io/file.js';
import { scratch } from '../scratch.js';

const dir = scratch('file').newFolder();
fs.mkdirSync(dir);
const put =
  (text: string): WriteFile =>
  (write) =>
    write(Buffer.from(text));
const contents = (folder: string) =>
  Object.fromEntries(fs.readdirSync(folder).map((n) => [n, fs.readFileSync(path.join(folder, n), 'utf8')]));

const UUID = '00000000-0000-0000-0000-000000000000';

test('a set that a killed process left half renamed is completed', async () => {
  const folder = path.join(dir, 'set');
  fs.mkdirSync(folder);
  const at = (name: string) => path.join(folder, name);
  // As a process leaves it that is killed after its first rename of two.
  fs.writeFileSync(at('a'), 'new a');
  fs.writeFileSync(at('b'), 'old b');
  fs.writeFileSync(at(`b.${UUID}.tmp`), 'new b');
  fs.writeFileSync(at('c'), 'old c');
  const journal = {
    rename: [
      [`a.${UUID}.tmp`, 'a'],
      [`b.${UUID}.tmp`, 'b'],
    ],
    remove: ['c'],
  };
  fs.writeFileSync(at(`.replacing-${UUID}.json`), JSON.stringify(journal));
  await finishReplacing(folder);
  expect(contents(folder)).toEqual({ a: 'new a', b: 'new b' });
});

test.each([
  [`../x.${UUID}.tmp`, '../x'],
  ['evil', 'model.safetensors'],
  [`a.${UUID}.tmp`, 'b'],
])('a journal that would rename %s to %s is refused', async (from, to) => {
  const folder = fs.mkdtempSync(path.join(dir, 'evil-'));
  fs.writeFileSync(path.join(folder, 'evil'), '');
  const journal = JSON.stringify({ rename: [[from, to]], remove: [] });
  fs.writeFileSync(path.join(folder, `.replacing-${UUID}.json`), journal);
  await expect(finishReplacing(folder)).rejects.toThrow('.replacing-');
  expect(fs.readdirSync(folder)).toContain('evil');
});

test('a set is there entirely or not at all when one of its files fails', async () => {
  const folder = path.join(dir, 'fails');
  fs.mkdirSync(folder);
  await replaceFiles(
    new Map(
      [
        ['a', 'old a'],
        ['b', 'old b'],
      ].map(([n, t]) => [path.join(folder, n!), put(t!)]),
    ),
  );
  const fails: WriteFile = async () => {
    throw Object.assign(new Error('no space left'), { syscall: 'write' });
  };
  const set = new Map([
    [path.join(folder, 'a'), put('new a')],
    [path.join(folder, 'b'), fails],
  ]);
  await expect(replaceFiles(set)).rejects.toThrow(`cannot write ${path.join(folder, 'b')}: no space left`);
  expect(contents(folder)).toEqual({ a: 'old a', b: 'old b' });
});

test('an output folder is made and probed; what cannot be one is a sentence', async () => {
  fs.writeFileSync(path.join(dir, 'data.txt'), '');
  await openOutput(path.join(dir, 'x/y/z'));
  expect(fs.readdirSync(path.join(dir, 'x/y/z'))).toEqual([]);
  await expect(openOutput('')).rejects.toThrow("--output '': the name is empty: name a folder");
  await expect(openOutput(path.join(dir, 'data.txt'), '-o')).rejects.toThrow(/^-o .*data\.txt is a file: name another/);
  await expect(openOutput(path.join(dir, 'data.txt/sub'))).rejects.toThrow('data.txt is a file');
  await expect(openOutput('/proc/x/y')).rejects.toThrow('--output /proc/x/y: the folder cannot be created');
  await expect(openOutput('/proc')).rejects.toThrow('--output /proc: the folder cannot be written');
});
