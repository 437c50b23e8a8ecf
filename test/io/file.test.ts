import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { tryLock } from '../../dist/base/lock.js';
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

/** As a process leaves a folder that is killed behind its journal: of a and b, of which there are others. */
function interrupted(folder: string, remove: readonly string[] = []) {
  fs.mkdirSync(folder);
  for (const name of ['a', 'b']) {
    fs.writeFileSync(path.join(folder, name), 'first');
    fs.writeFileSync(path.join(folder, `${name}.${UUID}.tmp`), 'second');
  }
  const rename = ['a', 'b'].map((name) => [`${name}.${UUID}.tmp`, name]);
  fs.writeFileSync(path.join(folder, `.replacing-${UUID}.json`), JSON.stringify({ rename, remove }));
}
const set = (folder: string, names: readonly string[], text: string) =>
  new Map(names.map((name) => [path.join(folder, name), put(text)]));

test.each([['a', 'b', 'c'], ['a']])(
  'a save is not undone by one that was killed before it (%s ...)',
  async (...names) => {
    const folder = path.join(dir, `after-${names.length}`);
    interrupted(folder, ['c']);
    await replaceFiles(set(folder, names, 'third'));
    await finishReplacing(folder);
    const third = Object.fromEntries(names.map((name) => [name, 'third']));
    expect(contents(folder)).toEqual({ a: 'second', b: 'second', ...third });
  },
);

test('one process at a time renames the files of a set', async () => {
  const folder = path.join(dir, 'turns');
  interrupted(folder);
  const lock = (await tryLock(path.join(folder, '.replacing')))!; // a process that is about to rename
  const order: string[] = [];
  const reads = finishReplacing(folder).then(() => order.push('read'));
  const writes = replaceFiles(set(folder, ['a', 'b'], 'third')).then(() => order.push('written'));
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(order).toEqual([]);
  expect(fs.readFileSync(path.join(folder, 'a'), 'utf8')).toBe('first');
  await lock.release();
  await Promise.all([reads, writes]);
  expect(contents(folder)).toEqual({ a: 'third', b: 'third' });
});

/** Whether a folder had a journal while its files were replaced: the last of them finds it. */
async function hasJournal(folder: string, names: readonly string[], remove: readonly string[]): Promise<boolean> {
  const blocked = path.join(folder, remove[0]!); // a folder that is not removed as a file is: what was begun stays
  fs.mkdirSync(blocked);
  await expect(replaceFiles(set(folder, names, 'new'), [blocked])).rejects.toThrow('cannot write');
  return fs.readdirSync(folder).some((name) => name.startsWith('.replacing-'));
}

test('a set has a journal by whatever name its folder is given', async () => {
  const made = (name: string) => {
    fs.mkdirSync(path.join(dir, name));
    fs.writeFileSync(path.join(dir, name, 'a'), 'old');
    return path.join(dir, name);
  };
  fs.symlinkSync(made('behind'), path.join(dir, 'link'));
  expect(await hasJournal(made('absolute'), ['a', 'b'], ['c'])).toBe(true);
  expect(await hasJournal(path.relative('', made('relative')), ['a', 'b'], ['c'])).toBe(true);
  expect(await hasJournal(path.join(dir, 'link'), ['a', 'b'], ['c'])).toBe(true);
});

test('a file is replaced through a link, but not what snapshots of a cache share', async () => {
  const [blobs, snapshot] = [path.join(dir, 'hub/blobs'), path.join(dir, 'hub/snapshots/main')];
  for (const folder of [blobs, snapshot]) fs.mkdirSync(folder, { recursive: true });
  for (const [name, place] of [
    ['a', path.join(blobs, 'abc')],
    ['b', path.join(dir, 'elsewhere')],
  ] as const) {
    fs.writeFileSync(place, 'old');
    fs.symlinkSync(place, path.join(snapshot, name));
  }
  await replaceFiles(set(snapshot, ['a', 'b'], 'new'));
  expect(contents(snapshot)).toEqual({ a: 'new', b: 'new' });
  expect(contents(blobs)).toEqual({ abc: 'old' });
  expect(fs.readFileSync(path.join(dir, 'elsewhere'), 'utf8')).toBe('new');
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
  {
    await using _ = await openOutput(path.join(dir, 'x/none'));
    await using __ = await openOutput(path.join(dir, 'x/some'));
    await using ___ = await openOutput(path.join(dir, 'x/y'));
    fs.writeFileSync(path.join(dir, 'x/some/file'), '');
  }
  expect(fs.readdirSync(path.join(dir, 'x'))).toEqual(['some', 'y']); // one that is new and stays empty goes
  await expect(openOutput('')).rejects.toThrow("--output '': the name is empty: give a folder");
  await expect(openOutput(path.join(dir, 'data.txt'), '-o')).rejects.toThrow(/^-o .*data\.txt is a file: give another/);
  await expect(openOutput(path.join(dir, 'data.txt/sub'))).rejects.toThrow('data.txt is a file');
  await expect(openOutput('/proc/x/y')).rejects.toThrow('--output /proc/x/y: the folder cannot be created');
  await expect(openOutput('/proc')).rejects.toThrow('--output /proc: the folder cannot be written');
});
