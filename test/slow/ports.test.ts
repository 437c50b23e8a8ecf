// The programs of examples/ports against their originals in torch (scripts/golden/ports): the first 20 losses, in f64.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { portNames, runPort } from '../../bench/ports.js';
import { golden } from '../support.js';

test.each(portNames())('%s: 20 losses are those of torch', async (name) => {
  const want = JSON.parse(golden(`ports/${name}.json`)) as number[];
  expect(want.length).toBe(20);
  const steps = name === 'ppo' ? 5 : 20; // of four losses each
  const got = await runPort(name, 'golden', { dtype: 'f64', steps });
  expect(got.length).toBe(20);
  got.forEach((loss, i) => expect(Math.abs(loss - want[i]!) / Math.abs(want[i]!), `step ${i + 1}`).toBeLessThan(1e-6));
});

const root = path.resolve(import.meta.dirname, '../..');
test.each(portNames())('%s runs as a program, prints its losses, and is one short file', (name) => {
  const file = `examples/ports/${name}.ts`;
  const output = execFileSync(process.execPath, ['--import', 'tsx', file], {
    ...{ cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
    env: { ...process.env, PJRT_DEVICE: 'CPU', TSXLA_LOG: 'quiet' },
  });
  expect([...output.matchAll(/(?:loss|reward) (-?[\d.]+)/g)].length).toBeGreaterThan(1);
  expect(readFileSync(path.join(root, file), 'utf8').trimEnd().split('\n').length).toBeLessThan(200);
});
