// Durations that a timer cannot wait for (2^31 ms and more fire at once in Node) are errors, wherever they come from.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import * as tx from 'tsxla';
import { ParquetDataset } from 'tsxla/data';
import { compileAhead } from 'tsxla/plan';
import { describe, expect, test, vi } from 'vitest';
import { checkSeconds, MOST_SECONDS } from '../dist/base/check.js';
import { isolated } from '../dist/base/isolated.js';

const complaint = 'it must be a number of seconds above 0, at most 2147483 (24 days)';

test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e20, MOST_SECONDS + 1, '5' as never])(
  '%s seconds',
  (seconds) => {
    expect(() => checkSeconds('wait', seconds)).toThrow(complaint);
    expect(() => new ParquetDataset('x.parquet', { timeoutSeconds: seconds })).toThrow(complaint);
  },
);
test('the longest that a timer takes', () => {
  expect(checkSeconds('wait', MOST_SECONDS)).toBe(2147483);
  expect(checkSeconds('wait', 1e-3)).toBe(1e-3);
});

test('a child process, a compile ahead of time, a compiled function', async () => {
  await expect(isolated('none', 'none', [], { what: 'nothing', timeoutSeconds: 1e20 })).rejects.toThrow(
    `nothing: timeoutSeconds is 100000000000000000000: ${complaint}`,
  );
  vi.stubEnv('TSXLA_PLUGIN_TPU', process.execPath); // never loaded
  await expect(compileAhead('', { topology: 'v6e:1x1', timeoutSeconds: 0 })).rejects.toThrow(complaint);
  const step = tx.compile(() => tx.ones([2]), { compilationTimeoutSeconds: 1e20 });
  await expect(step()).rejects.toThrow(`compile: compilationTimeoutSeconds is 100000000000000000000: ${complaint}`);
  vi.stubEnv('TSXLA_COMPILE_TIMEOUT', 'soon');
  await expect(tx.compile(() => tx.ones([2]))()).rejects.toThrow(`TSXLA_COMPILE_TIMEOUT=soon is NaN: ${complaint}`);
  vi.unstubAllEnvs();
});

describe('on the command line', () => {
  const main = path.join(import.meta.dirname, '../dist/cli/main.js');
  const tsxla = (...args: string[]) => spawnSync(process.execPath, [main, ...args], { encoding: 'utf8' });
  const plan = ['plan', '--model', 'Qwen3-0.6B', '--job', 'full', '--tpu', 'v6e-1', '--timeout'];
  const hlo = ['hlo', 'compile', 'x.mlir', '--topology', 'v6e:1x1', '--timeout'];
  test.each([
    ['100000000000000000000', plan, 'too large for a whole number'],
    ['2147484', hlo, 'must be at most 2147483 s (24 days)'],
    ['0', hlo, 'must be at least 1'],
    ['', plan, 'not a whole number'],
  ])('--timeout %j', (seconds, args, said) => {
    const { status, stderr } = tsxla(...args, seconds);
    expect(status).toBe(1);
    expect(stderr).toContain(`option '--timeout <seconds>' argument '${seconds}' is invalid. ${said}`);
  });
});
