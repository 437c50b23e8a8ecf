// Several worker processes on this machine: one model, failures that are theirs, and nothing left behind.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { scratch } from '../scratch.js';
import { isAlive, killOne, lastLine, numberIn, start } from '../train/support.js';

const folders = scratch('train');
const newFolder = (): string => {
  const folder = folders.newFolder();
  fs.mkdirSync(folder, { recursive: true });
  return folder;
};

interface Outcome {
  readonly losses: readonly number[];
  readonly metrics: { readonly step: number; readonly loss: number };
  readonly checkpoint: string;
}
const regression = (options: object) => start('regression.ts', [JSON.stringify({ storage: newFolder(), ...options })]);
const outcomeOf = async ({ ended }: ReturnType<typeof start>): Promise<Outcome> => {
  const { stdout, stderr } = await ended;
  return lastLine<Outcome>(stdout || stderr);
};

const one = outcomeOf(regression({ workers: 1, steps: 20 }));
const two = outcomeOf(regression({ workers: 2, steps: 20 }));

test('two workers give the loss curve of one with the same global batch', async () => {
  const [alone, both] = [(await one).losses, (await two).losses];
  expect(both).toHaveLength(20);
  alone.forEach((loss, i) => void expect(Math.abs(loss - both[i]!)).toBeLessThan(1e-4));
  expect(Math.min(...both)).toBeLessThan(0.6 * both[0]!); // and it does learn
});

test('a worker killed at a random moment: every loss is that of a run that was left alone', async () => {
  const [pids, storage] = [newFolder(), newFolder()];
  const program = regression({ workers: 2, steps: 20, storage, maxFailures: 1, pids, pause: 20 });
  await killOne(pids, 200);
  const { stdout, stderr } = await program.ended;
  expect(stderr).toMatch(/worker \d was killed by SIGKILL; restarting \(1 of 1\)/);
  expect(lastLine(stdout)).toEqual({ ...(await two), checkpoint: path.join(storage, 'regression/checkpoint-000005') });
  expect(fs.readdirSync(path.join(storage, 'regression')).sort()).toEqual([
    'checkpoint-000004',
    'checkpoint-000005',
    'events.jsonl',
    'history.jsonl',
  ]);
});

test.each([
  [1, 1],
  [2, 1],
  [1, 2],
])(
  'the program killed, with %i: run again with %i, it continues from the last checkpoint, with its whole history',
  async (before, workers) => {
    const storage = newFolder();
    const first = regression({ workers: before, steps: 20, storage, pause: 30 });
    while (!fs.existsSync(path.join(storage, 'regression/checkpoint-000002'))) await sleep(10);
    first.child.kill('SIGKILL');
    await first.ended;
    const { stdout, stderr } = await regression({ workers, steps: 20, storage }).ended;
    expect(stderr).toMatch(/the run regression resumes from .*checkpoint-00000\d/);
    const [whole, found] = [(await one).losses, lastLine<Outcome>(stdout).losses];
    if (before === workers) expect(found).toEqual(whole);
    expect(found).toHaveLength(whole.length);
    whole.forEach((loss, i) => void expect(Math.abs(loss - found[i]!)).toBeLessThan(1e-4));
  },
);

test('a report costs no more than a few barriers; how gradients are averaged is said once; a program cannot wait for that', async () => {
  const { stdout, stderr } = await start('faults.ts', ['costs', newFolder()]).ended;
  const costs = [...stdout.matchAll(/\[rank \d\] (\S+) ms a report, (\S+) ms a barrier/g)];
  expect(costs).toHaveLength(2);
  for (const [, report, barrier] of costs) expect(Number(report) / Number(barrier)).toBeLessThan(20);
  expect(stderr.match(/2 workers: gradients are averaged by the program that started them/g)).toHaveLength(1);
  expect(stderr.match(/2 workers report, but gradients were never averaged/g)).toHaveLength(1);
  expect(stderr).not.toContain('each process computes alone');
  expect(lastLine(stdout)).toMatchObject({ name: 'TrainingFailedError', cause: 'WorkerError', inner: 'ArgumentError' });
  expect(stdout).toMatch(
    /optimizer.step\(\) is inside update, a compiled program, .* 1 other CPU worker: end update after loss.back/,
  );
});

test('a plain loop gives the same in one process and in two', async () => {
  const runs = ['1', '2'].map((workers) => start('faults.ts', ['plain', newFolder(), workers]).ended);
  const [alone, both] = (await Promise.all(runs)).map((r) => lastLine<{ metrics: { loss: number } }>(r.stdout).metrics);
  expect(both!.loss).toBeCloseTo(alone!.loss, 6); // other programs: the last bit may differ
});

test('workers that differ: a mean of what only some have, the values of the first, one exchange after the other', async () => {
  const storage = newFolder();
  const { stdout } = await start('faults.ts', ['together', storage]).ended;
  const read = (name: string) => fs.readFileSync(path.join(storage, name), 'utf8');
  for (const rank of [0, 1]) {
    expect(JSON.parse(read(`seen-${rank}`))).toEqual({
      ...{ zeroth: -1, second: -2, unused: 1 },
      ...{ a: -1, b: -10, mean: 0.5, tokens: 2 ** 40 + 1, slope: 0.5, clipped: -4 },
      ...{ large: 2 ** 30 + 1, exact: 0.1 },
    });
    expect(stdout).toContain(`worker ${rank} has said all`);
    expect(read(`exit-${rank}`)).toBe('in peace'); // a worker that has finished is not killed
  }
  expect(
    stdout.match(/step\(\) was called before the previous step was awaited: write await optimizer.step\(\)/g),
  ).toHaveLength(2);
  expect(
    stdout.match(/again before the previous call was awaited: write await averageGradients\(model\)/g),
  ).toHaveLength(2);
  expect(stdout).toContain('averaged only in optimizer.step(): call await averageGradients(model) first, outside of');
  expect(stdout).toContain('await averageGradients(model) before scaler.step(optimizer), with the optimizer as it is');
});

test.each(['SIGINT', 'SIGKILL'] as const)('%s to the program: no process and no file is left', async (signal) => {
  const [storage, temporary] = [newFolder(), newFolder()];
  const program = start('faults.ts', ['waits', storage], { TMPDIR: temporary });
  const workers = await Promise.all([0, 1].map((rank) => numberIn(path.join(storage, `pid-${rank}`))));
  expect(workers.every(isAlive)).toBe(true);
  program.child.kill(signal);
  expect((await program.ended).signal).toBe(signal);
  while (workers.some(isAlive)) await sleep(20);
  if (signal === 'SIGKILL') return;
  expect(fs.readdirSync(storage).filter((f) => f.startsWith('left'))).toEqual(['left-0', 'left-1']); // they were told
  expect(fs.readdirSync(temporary).filter((f) => f.startsWith('tsxla-train'))).toEqual([]);
});

test('a disk that is full: an error that says so, and the last checkpoint stays', async () => {
  const storage = newFolder();
  const script = path.join(import.meta.dirname, '../train/faults.ts');
  const command = `trap '' XFSZ; ulimit -f 1024; exec "${process.execPath}" --import tsx ${script} full ${storage} 1`;
  const { stdout } = await promisify(execFile)('bash', ['-c', command]);
  expect(lastLine(stdout)).toMatchObject({ name: 'TrainingFailedError', cause: 'CheckpointError', last: { step: 1 } });
  expect(stdout).toMatch(
    /cannot save a checkpoint of the run fault: .*EFBIG.*; its last checkpoint is .*checkpoint-000001/,
  );
  expect(fs.readdirSync(path.join(storage, 'fault')).sort()).toEqual([
    'checkpoint-000001',
    'events.jsonl',
    'history.jsonl',
  ]);
});
