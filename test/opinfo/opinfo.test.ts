// A selection of PyTorch's operator database, replayed: what differs from torch has a reason, and every reason is true.
import { readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { goldenPath } from '../support.js';
import { readGolden } from './golden.js';
import { REASONS } from './reasons.js';
import { type Outcome, replay } from './replay.js';
import { judge, tally } from './report.js';

let outcomes: Outcome[];
beforeAll(async () => {
  outcomes = await replay(readGolden(goldenPath('opinfo.gz')));
});

test('what differs from torch has a reason', () => {
  expect(judge(outcomes, false).unexplained).toEqual([]);
});

test('every reason is still true', () => {
  expect(judge(outcomes, false).stale).toEqual([]);
});

test('most samples are as in torch', () => {
  const values = tally(outcomes.filter((o) => o.part === 'value'));
  expect(values.all).toBeGreaterThan(1500);
  expect(values.passed / values.all).toBeGreaterThan(0.8);
});

test('the page says what the table says', () => {
  const page = readFileSync(new URL('../../docs/opinfo.md', import.meta.url), 'utf8');
  expect(REASONS.filter((r) => !page.includes(r.why)).map((r) => r.why)).toEqual([]);
});
