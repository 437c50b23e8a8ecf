// Folders are made one after the other, and never waited for.
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { isInside, makeFolder } from '../../dist/base/folder.js';
import { scratch } from '../scratch.js';

const { newFolder, file } = scratch('folder');

test('with those above it, each with the mode; one that is there stays as it is', () => {
  const top = newFolder();
  makeFolder(path.join(top, 'a', 'b'), 0o700);
  for (const dir of [top, path.join(top, 'a'), path.join(top, 'a', 'b')])
    expect(fs.statSync(dir).mode & 0o777).toBe(0o700);
  fs.chmodSync(top, 0o755);
  makeFolder(top, 0o700);
  expect(fs.statSync(top).mode & 0o777).toBe(0o755);
});

test('where there can be none, it says so: below a file, and in /proc, where a recursive mkdir of Node never ends', () => {
  expect(() => makeFolder(path.join(file('x', ''), 'y', 'z'))).toThrow('ENOTDIR');
  expect(() => makeFolder(file('y', ''))).toThrow('EEXIST');
  if (process.platform === 'linux') expect(() => makeFolder('/proc/x/y')).toThrow(/ENOENT|EACCES|EPERM/);
});

test('what is inside a folder: itself and what is below, also under a name that begins with dots', () => {
  for (const place of ['/a', '/a/b', '/a/..b', '/a/../a/b']) expect(isInside('/a', place)).toBe(true);
  for (const place of ['/', '/b', '/ab', '/a/..', '/a/../b']) expect(isInside('/a', place)).toBe(false);
});
