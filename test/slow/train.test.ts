// Runs that are killed again and again, and scripts of several.
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { scratch } from '../scratch.js';
import { killOne, lastLine, start } from '../train/support.js';

const folders = scratch('train-slow');
const regression = (options: object) => {
  const storage = folders.newFolder();
  return start('regression.ts', [JSON.stringify({ storage, workers: 2, steps: 60, every: 5, ...options })]);
};

test('a worker killed at random moments, three times: every loss is that of a run that was left alone', async () => {
  const pids = folders.newFolder();
  fs.mkdirSync(pids, { recursive: true });
  const program = regression({ maxFailures: 3, pids, pause: 20 });
  for (let i = 0; i < 3; i++) await killOne(pids, 300);
  const { stdout, stderr } = await program.ended;
  expect(stderr).toContain('begins again (3 of 3)');
  const { checkpoint, ...undisturbed } = lastLine<Record<string, string>>((await regression({}).ended).stdout);
  expect(lastLine(stdout)).toMatchObject(undisturbed);
  expect(path.basename(checkpoint!)).toBe('checkpoint-000012');
});

test('the second run of a script knows what the first came to, in its workers, too', async () => {
  const { stdout } = await start('twice.ts', [folders.newFolder()]).ended;
  expect(lastLine(stdout)).toEqual({
    metrics: { answer: 42, lr: 0.5, isNaN: 1 },
    failed: expect.stringMatching(/^the run failed failed: worker \d: RangeError: as it should$/),
  });
});
