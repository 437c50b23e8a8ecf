// docs/compat.md is what its generator writes.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { compat } from '../scripts/compat.js';

const page = readFileSync(path.join(import.meta.dirname, '../docs/compat.md'), 'utf8');

test('the page is up to date (else: npx tsx scripts/compat.ts)', () => {
  expect(compat()).toBe(page);
});

test('what is said to differ in a comment is on the page, of the function it is said of', () => {
  const row = (section: string, name: string) =>
    new RegExp(`## ${section}: [\\s\\S]*?\\n(\\| ${name} \\|.*)`).exec(page)?.[1];
  expect(row('torch', 'unique')).toContain('a promise, as values are read'); // in its own comment
  expect(row('torch', 'scatter_add')).toContain('one out of range is an error only if the host has the indices'); // in that of its section
  expect(row('torch.linalg', 'norm')).toContain('`linalg.norm(x, { ord, dim, keepdim = false, dtype })`'); // another than torch.norm
  expect(row('torch', 'norm')).toMatch(/\| {2}\|$/);
  expect(row('torch.special', 'expit')).toContain('special.expit');
  expect(row('torch.nn.functional', 'unfold')).toContain('im2col');
  expect(row('torch', 'multiply')).toContain('as mul');
});
