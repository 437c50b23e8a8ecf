// Compiling for TPUs on a machine that has none.

import { compileAhead } from 'tsxla/plan';
import { beforeAll, expect, test } from 'vitest';
import { golden, goldenPath, tsxla } from '../support.js';

beforeAll(async () => {
  const { status, stderr } = await tsxla(['plugins', 'path', 'tpu']);
  if (status) expect((await tsxla(['plugins', 'install', 'tpu'])).status, stderr).toBe(0);
}, 600_000);

test.each([
  ['v4:2x2x1', 'TPU v4', 4],
  ['v5e:2x2', 'TPU v5 lite', 4],
  ['v5p:2x2x1', 'TPU v5', 4],
  ['v6e:2x2', 'TPU v6 lite', 4],
  ['tpu7x:2x2x1', 'TPU7x', 8],
])('%s: a training step, its memory and cost', async (topology, kind, devices) => {
  const { status, stdout, stderr } = await tsxla([
    'hlo',
    'compile',
    goldenPath('gpt-step.mlir'),
    '--topology',
    topology,
    '--json',
  ]);
  expect(status, stderr).toBe(0);
  const report = JSON.parse(stdout);
  expect(report).toMatchObject({ fits: true, topology, kind, devices });
  expect(report.memory.arguments).toBeGreaterThan(130_000);
  expect(report.cost.flops).toBeGreaterThan(1e6);
});

test('a program split over four chips takes its part of the memory on each', async () => {
  const report = await compileAhead(golden('mlir/spmd.mlir'), { topology: 'v6e:2x2', numPartitions: 4 });
  expect(report).toMatchObject({ kind: 'TPU v6 lite', devices: 4 });
});

test('a program that does not fit says what it needs and what there is', async () => {
  const { status, stdout } = await tsxla([
    'hlo',
    'compile',
    goldenPath('mlir/too-large-for-v6e.mlir'),
    '--topology',
    'v6e:1x1',
  ]);
  expect(status).toBe(1);
  expect(stdout).toMatch(
    /too-large-for-v6e\.mlir does not fit v6e:1x1: it needs 32\.1 GiB of HBM, a device has 31\.2 GiB/,
  );
  expect(stdout).toContain('CompileTimeHbmOom');
});

test('a topology that does not exist, and a program that does not parse', async () => {
  const compile = (file: string, topology: string) =>
    tsxla(['hlo', 'compile', goldenPath(file), '--topology', topology]);
  expect((await compile('mlir/add.mlir', 'v9:1x1')).stderr).toMatch(/^error: .*v9/);
  expect((await compile('mlir/spmd.mlir', 'v6e:1x1')).stderr).toMatch(
    /^error: compile: the program is split over 4 devices, but v6e:1x1 has 1\. Change mhlo\.num_partitions/,
  );
  expect((await compile('mlir/malformed.mlir', 'v6e:1x1')).stderr).toMatch(/malformed\.mlir:4:\d+/);
});
