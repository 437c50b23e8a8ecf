// A second run of the same program compiles nothing.
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'tsxla-programs-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const child = fileURLToPath(new URL('./fixtures/train-child.mjs', import.meta.url));
async function train(env: Record<string, string> = {}) {
  const { TSXLA_CACHE: _, ...inherited } = process.env;
  const all = { ...inherited, XLA_PERSISTENT_CACHE_PATH: folder, ...env };
  const { stdout } = await promisify(execFile)(process.execPath, [child], { env: all });
  return JSON.parse(stdout) as { loss: number; compiled: number; hits: number; misses: number };
}

test('a second process compiles nothing, and gets the same numbers', async () => {
  const first = await train();
  expect(first).toMatchObject({ compiled: 2, hits: 0, misses: 2 }); // what was pending, and the step
  expect(await train()).toEqual({ loss: first.loss, compiled: 0, hits: 2, misses: 0 });
  // Other flags are another program.
  expect(await train({ XLA_FLAGS: '--xla_cpu_enable_fast_math=true' })).toMatchObject({ compiled: 2, hits: 0 });
});

test('two processes at once compile each program once', async () => {
  const both = await Promise.all([train(), train()]);
  expect(both[0].compiled + both[1].compiled).toBe(2);
  expect(both[0].loss).toBe(both[1].loss);
});
