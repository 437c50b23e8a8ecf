// The table of what PyTorch/XLA's tests assert: every row has an answer, and the page shows the table.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { page } from '../../scripts/conformance.js';
import { table } from './table.js';

const root = path.join(import.meta.dirname, '../..');
const rows = table.flatMap((t) => t.rows);
/** The names of the tests in a file, as they are written there. */
const testsOf = (file: string): string[] =>
  [
    ...readFileSync(path.join(root, 'test', `${file}.test.ts`), 'utf8').matchAll(
      /(?:\btest|\))\(\s*(['"`])((?:(?!\1)[^\\]|\\.)*)\1,/g, // test('name', and test.each(...)('name',
    ),
  ].map((m) => m[2]!.replaceAll('\\', ''));

test('each row has a test, or says why there is none', () => {
  for (const { test: theirs, state, ours, note } of rows) {
    expect([theirs, !!ours, !!note]).toEqual([theirs, state === 'same' || state === 'differs', state !== 'same']);
    if (ours) expect(testsOf(ours[0]), theirs).toContain(ours[1]);
  }
});

test('no row is there twice', () => {
  const keys = table.flatMap((t) => t.rows.map((r) => `${t.file} ${r.test} ${r.behaviour}`));
  expect(keys.filter((key, i) => keys.indexOf(key) !== i)).toEqual([]);
});

test('docs/conformance.md is the table as it is: npx tsx scripts/conformance.ts writes it', () => {
  expect(readFileSync(path.join(root, 'docs/conformance.md'), 'utf8')).toBe(page());
});
