// The words of code, tests and docs: phrases that readers stumbled over stay away. What to write instead is behind each.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const PHRASES: Readonly<Record<string, string>> = {
  'unless told': 'Default: ...',
  nobody: 'name who, or use the passive voice',
  whoever: 'the caller, the user, the process that ...',
  'told of': 'reported',
  foresee: 'predict; of a model: its perplexity',
  'goes on': 'continues, resumes',
  'so many': 'a number of, at most n, that many',
  'no whole number': 'not an integer, must be a whole number',
  'is no shape': 'is not a shape',
  'it is left out': 'omitted, skipped, ignored',
  'gradient leads to': 'name what is not part of the graph',
  'it came to': 'the result of',
  'spec 00': 'the name of the document, or a link',
};
const root = path.join(import.meta.dirname, '..');
const PATTERN = new RegExp(Object.keys(PHRASES).join('|'), 'gi');

const FOLDERS = ['src', 'docs', 'test', 'examples', 'bench', 'scripts', 'site', 'packages'];
/** Without hidden folders: those of other tests come and go. */
const filesIn = (folder: string): string[] =>
  readdirSync(path.join(root, folder), { withFileTypes: true })
    .filter(({ name }) => !/^(\.|node_modules$|golden$|dist$)/.test(name))
    .flatMap((entry) => {
      const file = path.join(folder, entry.name);
      return entry.isDirectory() ? filesIn(file) : /\.(ts|mjs|py|md)$/.test(file) ? [file] : [];
    });
const files = FOLDERS.flatMap(filesIn);
const OWN = path.join('test', 'words.test.ts');
const found = (file: string): string[] =>
  readFileSync(path.join(root, file), 'utf8')
    .split('\n')
    .flatMap((line, i) =>
      [...line.matchAll(PATTERN)].map(([phrase]) => `${file}:${i + 1}: "${phrase}": ${PHRASES[phrase.toLowerCase()]}`),
    );

test('plain words in code, tests and docs', () => {
  expect(files.length).toBeGreaterThan(1000);
  const all = [...files, 'README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'notebooks/README.md'];
  expect(all.filter((file) => file !== OWN).flatMap(found)).toEqual([]);
});

test('a phrase would be found', () => {
  expect(found(OWN).length).toBeGreaterThanOrEqual(Object.keys(PHRASES).length);
});
