// Recovery by several workers: a step of all of them is that of one process.
import fs from 'node:fs';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { settle } from '../../dist/recovery/options.js';
import { OutputFolder } from '../../dist/recovery/output.js';
import { ALONE } from '../../dist/recovery/workers.js';
import { file, linesOf, newFolder, writeStudentAndCache } from '../recovery/support.js';
import { tsxla } from '../support.js';
import { until } from '../train/ray/cluster.js';
import { childrenOf, startCommand } from '../train/support.js';

const text = file('train.txt', linesOf(40).join('\n\n'));
const [student, cache] = [newFolder(), newFolder()];
beforeAll(async () => {
  await writeStudentAndCache(student, cache, text, { sequenceLength: 16, topK: 5, negatives: 4, sequences: 24 });
});

const run = (output: string, ...args: string[]) => runWith({}, output, ...args);
const runWith = (env: Record<string, string>, output: string, ...args: string[]) =>
  tsxla(command(output, ...args), env);
// biome-ignore format: a command
const command = (output: string, ...args: string[]) => [
  'train-recovery-lora', '--model', student, '--kd-cache-dir', cache, '--output', output, '--recovery-r', '2', '--lr', '1e-2', '--batch-size', '4',
  '--accumulation-steps', '2', '--max-steps', '8', '--log-interval', '1', '--anchor-kl-weight', '0.1', '--anchor-samples', '4', '--eval-data', text, '--eval-samples', '2', ...args,
];
const numbersIn = (output: string, name: string): number[] =>
  fs
    .readFileSync(path.join(output, 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .flatMap((line) => JSON.parse(line)[name] ?? []);

test('two workers have the losses, gradients and perplexities of one, and one summary', async () => {
  const [alone, together] = [path.join(newFolder(), 'a run'), path.join(newFolder(), 'a run')];
  const [one, two] = await Promise.all([run(alone), run(together, '--workers', '2')]);
  expect(one.status, one.stderr).toBe(0);
  expect(two.status, two.stderr).toBe(0);
  for (const name of ['loss', 'gradNorm', 'evalLoss']) {
    const [a, b] = [numbersIn(alone, name), numbersIn(together, name)];
    expect(b).toHaveLength(name === 'evalLoss' ? 2 : 8);
    a.forEach((x, i) => void expect(b[i]).toBeCloseTo(x, 5));
  }
  expect(two.stderr).toContain('[rank 0] tsxla: 2 workers: gradients are averaged by the program that started them');
  expect(two.stderr).not.toContain('[rank 1] training');
  const shown = (s: string) => s.replace(/(time|memory|programs) .*|folder-\d+/g, '');
  expect(shown(two.stdout)).toBe(shown(one.stdout));
});

test('what cannot be shared, and flags that would do nothing, are said before anything starts', async () => {
  const odd = await run(newFolder(), '--workers', '3');
  expect(odd.stderr).toContain('--batch-size is 4, which 3 workers cannot split evenly: use 6');
  const idle = await run(newFolder(), '--detach');
  expect(idle.stderr).toContain('--detach does nothing without --ray: leave it out');
});

test('a mesh is of each worker: all of them together share a batch', async () => {
  const output = path.join(newFolder(), 'my run'); // no name of a run as such
  const odd = await runWith(
    { CPU_NUM_DEVICES: '2' },
    output,
    '--workers',
    '2',
    '--batch-size',
    '2',
    '--mesh',
    'data=2',
  );
  expect(odd.stderr).toMatch(
    /--batch-size is 2, which the 4 groups of devices in the mesh .* of each of 2 workers cannot split evenly: use 4/,
  );
});

test('PJRT_DEVICE names the device of workers, too', async () => {
  const gpus = await runWith({ PJRT_DEVICE: 'gpu' }, newFolder(), '--workers', '99');
  expect(gpus.stderr).toContain('99 workers with useGpu');
});

test('RAY_ADDRESS is --ray for several workers; on the cluster, what was asked for is', async () => {
  const base = { model: student, kdCacheDir: cache, output: newFolder(), topology: 'v6e-16' };
  process.env.RAY_ADDRESS = 'http://127.0.0.1:1';
  try {
    expect(settle({ ...base, workers: 4 }).ray).toBe('http://127.0.0.1:1');
    expect(settle(base).workers).toBe(4);
    expect(() => settle({ ...base, workers: 4, device: 'cpu' })).toThrow(
      '--topology is for TPUs, but --device is cpu: pass one of them',
    );
  } finally {
    delete process.env.RAY_ADDRESS;
  }
  const asked = { ...settle({ ...base, topology: undefined }), workers: 2, ray: 'http://127.0.0.1:1' };
  const there = await runWith({ TSXLA_RECOVERY: JSON.stringify(asked) }, newFolder(), '--workers', '2', '--install');
  expect(there.stderr).toContain('no Ray cluster at http://127.0.0.1:1');
});

test('of workers that XLA joins the first one writes the metrics', async () => {
  const settings = settle({ model: student, kdCacheDir: cache, output: newFolder() });
  await using other = await OutputFolder.open(settings, { ...ALONE, isFirst: false, count: 2 });
  expect([other.writes, other.metrics.lock]).toEqual([true, undefined]);
});

test.each([
  ['before the old run is gone: they begin anew', 'before'],
  ['behind a checkpoint of theirs: they go on from that', 'behind'],
])('--overwrite, workers that die %s', async (_, when) => {
  const output = newFolder();
  const old = await run(output, '--max-steps', '2');
  expect(old.status, old.stderr).toBe(0);
  const again = startCommand(
    command(output, '--workers', '2', '--max-steps', '60', '--save-steps', '4', '--overwrite'),
  );
  const killOne = () => process.kill(childrenOf(again.child.pid!)[1]!, 'SIGKILL');
  if (when === 'behind') {
    await until('a checkpoint', () => fs.existsSync(path.join(output, 'checkpoints/step-00000008')));
    killOne();
  } else {
    let isKilled = false;
    again.child.stderr!.on('data', (text) => {
      if (isKilled || !String(text).includes('parameters are trained')) return; // before the step is compiled
      isKilled = true;
      killOne();
    });
  }
  const { status, stderr } = await again.ended;
  expect(stderr).toContain('restarting (1 of 3)');
  expect(status, stderr).toBe(0);
  const went = stderr.match(/resuming after step (\d+)/)?.[1];
  if (when === 'behind') expect(Number(went)).toBeGreaterThanOrEqual(8);
  else expect(went).toBeUndefined();
  expect(numbersIn(output, 'loss')).toHaveLength(60);
});

test('a folder by another of its names is the same run', async () => {
  const output = newFolder();
  const first = await run(output, '--max-steps', '2');
  expect(first.status, first.stderr).toBe(0);
  const named = path.relative(process.cwd(), student);
  const again = await run(output, '--max-steps', '2', '--resume', '--model', `./${named}/`);
  expect(again.status, again.stderr).toBe(0);
});

test.each([
  [2, 1],
  [1, 2],
])('begun with --workers %i and resumed with %i: the losses of a run that was never stopped', async (before, after) => {
  const [whole, output] = [newFolder(), newFolder()];
  const steps = ['--max-steps', '60'];
  const started = startCommand(command(output, ...steps, '--workers', String(before)));
  const metrics = path.join(output, 'metrics.jsonl');
  await until('some steps', () => fs.existsSync(metrics) && fs.readFileSync(metrics, 'utf8').split('\n').length > 6);
  started.child.kill('SIGINT');
  const { status, stderr } = await started.ended;
  expect(status, stderr).toBe(130);
  const stoppedAt = numbersIn(output, 'loss').length;
  expect(stoppedAt).toBeLessThan(60);
  const [one, resumed] = await Promise.all([
    run(whole, ...steps),
    run(output, ...steps, '--workers', String(after), '--resume'),
  ]);
  expect([one.status, resumed.status], resumed.stderr).toEqual([0, 0]);
  for (const name of ['loss', 'gradNorm']) {
    const [a, b] = [numbersIn(whole, name), numbersIn(output, name)];
    expect(b).toHaveLength(60);
    a.forEach((x, i) => void expect(Math.abs(b[i]! - x) / x).toBeLessThan(1e-3));
  }
});
