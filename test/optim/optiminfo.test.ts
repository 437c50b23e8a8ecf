// Optimizers and schedules on the samples of torch's own database, against torch. All of them: test/slow/optiminfo.test.ts.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { page } from '../../scripts/optiminfo.js';
import { all, knownReason, surprises } from './optiminfo.js';

const sections = [...new Set(all.map((c) => c.section))];

test.each(sections)('%s are what torch computes, or listed with a reason', async (section) => {
  const selected = all.filter((c) => c.section === section && c.isQuick);
  expect(selected.length).toBeGreaterThan(20);
  expect(await surprises(selected)).toEqual([]);
});

test.each(sections)('at least 19 of 20 pass: %s', (section) => {
  const cases = all.filter((c) => c.section === section);
  expect(cases.filter((c) => !knownReason(c)).length / cases.length).toBeGreaterThanOrEqual(0.95);
});

test('the page is up to date (else: npx tsx scripts/optiminfo.ts)', () => {
  expect(page()).toBe(readFileSync(path.join(import.meta.dirname, '../../docs/optiminfo.md'), 'utf8'));
});
