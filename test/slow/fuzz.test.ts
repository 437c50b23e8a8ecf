// The fuzzer finds each kind of failure; and some hundred mutated files for each reader. npm run fuzz tries as many as it is told.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { fuzz } from '../../scripts/fuzz/run.js';
import { TARGETS } from '../../scripts/fuzz/targets.js';
import { times } from '../repeat.js';

const keep = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-fuzz-test-'));
afterAll(() => fs.rmSync(keep, { recursive: true, force: true }));
const module = new URL('../fuzz-targets.ts', import.meta.url).href;

test.each(['crash', 'hang', 'memory', 'foreign error', 'nameless error', 'silent change'])('%s: found', async (why) => {
  const limits = { seconds: 3, bytes: 2 ** 29 };
  const { failures, refusedSeeds } = await fuzz({ target: why, cases: 2, seed: 1, keep, jobs: 1, module, limits });
  expect(failures).toMatchObject([{ why, case: 0, cases: [0, 1], what: expect.stringMatching(/./) }]);
  expect(fs.readdirSync(failures[0]!.kept)).toEqual(['letters.txt']);
  expect(refusedSeeds).toEqual([]);
});

test.each(['refused', 'changed'])('%s: no failure', async (is) => {
  const result = await fuzz({ target: is, cases: 5, seed: 1, keep, jobs: 1, module });
  expect(result).toMatchObject({ failures: [], same: 0, refused: 0, changed: 0, [is]: 5 });
});

const CASES = times(100, 300);

test.each(TARGETS.map((t) => t.name))(`${CASES} mutated files: %s`, async (target) => {
  const { failures, refusedSeeds, same, refused, changed } = await fuzz({ target, cases: CASES, seed: 20_240_607 });
  expect(failures).toEqual([]);
  expect(refusedSeeds).toEqual([]);
  expect(same + refused + changed).toBe(CASES);
  expect(refused).toBeGreaterThan(CASES / 20); // the mutants are not all harmless
});
