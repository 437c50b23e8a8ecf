// The build reads types through TypeScript's API, which has no stable form in this version (scripts/functions.mjs).
import { readFileSync } from 'node:fs';
import path from 'node:path';
import * as typescript from 'typescript-7/unstable/sync';
import { expect, test } from 'vitest';

const VERSION = '7.0.2';
const root = path.resolve(import.meta.dirname, '..');
const read = (file: string) => readFileSync(path.join(root, file), 'utf8');

test('TypeScript is the version whose unstable API scripts/functions.mjs was written for', () => {
  const why = `scripts/functions.mjs uses typescript-7/unstable/sync of ${VERSION}: check it, then change the version here`;
  expect(JSON.parse(read('package.json')).devDependencies['typescript-7'], why).toBe(`npm:typescript@${VERSION}`);
  expect(JSON.parse(read('node_modules/typescript-7/package.json')).version, why).toBe(VERSION);
});

test('it has what the script imports', () => {
  const [, names] = /import \{ (.*) \} from 'typescript-7\/unstable\/sync'/.exec(read('scripts/functions.mjs'))!;
  const missing = names!.split(', ').filter((name) => !(name in typescript));
  expect(
    missing,
    'scripts/functions.mjs imports these from typescript-7/unstable/sync, which has them no more',
  ).toEqual([]);
});

test('what it writes has every kind of parameter', () => {
  const text = read('src/tensor/signatures.ts');
  const kinds = ['tensor', 'number', 'boolean', 'string', 'dtype', 'list', 'options', 'function', 'bytes', 'null'];
  expect(
    kinds.filter((kind) => !text.includes(`"${kind}"`)),
    'scripts/functions.mjs found no parameter of these kinds',
  ).toEqual([]);
  expect(text.match(/^"/gm)!.length).toBeGreaterThan(400);
  expect(read('src/tensor/functions.ts').match(/^export const /gm)!.length).toBeGreaterThan(300);
});
