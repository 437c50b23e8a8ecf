// The words of src and docs: phrases that readers stumbled over stay away. What to write instead is behind each.
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
  'spec 00': 'the name of the document, or a link',
};
const root = path.join(import.meta.dirname, '..');
const PATTERN = new RegExp(Object.keys(PHRASES).join('|'), 'gi');

const files = ['src', 'docs'].flatMap((folder) =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(ts|py|md)$/.test(file))
    .map((file) => path.join(folder, file)),
);

test('plain words in src and docs', () => {
  expect(files.length).toBeGreaterThan(400);
  const found = [...files, 'README.md', 'CONTRIBUTING.md'].flatMap((file) =>
    readFileSync(path.join(root, file), 'utf8')
      .split('\n')
      .flatMap((line, i) =>
        [...line.matchAll(PATTERN)].map(
          ([phrase]) => `${file}:${i + 1}: "${phrase}": ${PHRASES[phrase.toLowerCase()]}`,
        ),
      ),
  );
  expect(found).toEqual([]);
});
