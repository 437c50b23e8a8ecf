// The engine of this machine and its workers, as processes that say what real ones might.
import fs from 'node:fs';
import path from 'node:path';
import { type ScalingOptions, TorchTrainer, TrainingFailedError, WorkerError } from 'tsxla/train';
import { afterEach, expect, test, vi } from 'vitest';
import { scratch } from '../scratch.js';

const folders = scratch('group');
const { argv, execArgv } = process;
afterEach(() => {
  Object.assign(process, { argv, execArgv });
  vi.unstubAllEnvs();
});
/** A run whose two workers are raw-worker.mjs. */
const run = (name: string, storagePath = folders.newFolder(), scaling: ScalingOptions = {}) => {
  process.argv = [argv[0]!, path.join(import.meta.dirname, 'raw-worker.mjs'), name];
  process.execArgv = [];
  const trainer = new TorchTrainer({
    trainLoopPerWorker: () => {},
    scalingConfig: { numWorkers: 2, ...scaling },
    runConfig: { name: 'raw', storagePath },
  });
  return trainer.fit();
};

test.each([
  ['throws', 'the run raw failed: worker 1: RangeError: no such row'],
  ['exits', 'worker 1 ended with status 17'],
  ['leaves', /worker \d ended with status 0 before it called fit\(\)/],
  [
    'sizes',
    'worker 0 is at averageGradients of 3 numbers, and worker 1 at averageGradients of 4 numbers: all workers must make the same calls',
  ],
  [
    'kinds',
    'worker 0 is at averageGradients of 3 numbers, and worker 1 at barrier: all workers must make the same calls',
  ],
  [
    'fewer',
    /the loop of worker 1 has ended, and worker 0 waits for it at averageGradients .* the same number of steps/,
  ],
  ['older', /worker \d has tsxla 0.0.1 with protocol 0, and this program has protocol 1/],
])('a worker that %s ends the run with what happened', async (name, message) => {
  const failed = (await run(name).catch((e) => e)) as TrainingFailedError;
  expect(failed).toBeInstanceOf(TrainingFailedError);
  expect(failed.message).toMatch(message);
  expect(failed.cause).toBeInstanceOf(WorkerError);
  expect(failed.result.error).toBe(failed.cause);
  if (name === 'throws')
    expect((failed.cause as Error).cause).toMatchObject({ name: 'RangeError', stack: 'at line 1' });
  if (name === 'exits') expect(failed.result.metrics).toEqual({ step: 1 }); // what was reported is there
});

test('a worker that writes into the channel is reported', async () => {
  await expect(run('babbles')).rejects.toThrow('not a frame: hello, engine');
});

test('parts of all workers are one checkpoint; a worker that waits for others holds none up', async () => {
  const parts = await run('parts');
  expect(fs.readdirSync(parts.checkpoint!.path).sort()).toEqual(['part-0', 'part-1', 'train.json']);
  expect(parts.history).toEqual([{ rank: 0 }]);
  const first = await run('first');
  expect(fs.readdirSync(first.checkpoint!.path).sort()).toEqual(['own', 'train.json']);
  expect(first.metrics).toEqual({ loss: Number.NaN });
});

test('each worker has as many GPUs of this machine as it asks for', async () => {
  vi.stubEnv('CUDA_VISIBLE_DEVICES', '4,5,6,7');
  const gpus = { useGpu: true, resourcesPerWorker: { GPU: 2 } };
  const { checkpoint } = await run('gpus', undefined, gpus);
  expect(fs.readdirSync(checkpoint!.path).sort()).toEqual(['gpus 4,5', 'gpus 6,7', 'train.json']);
  await expect(run('gpus', undefined, { ...gpus, numWorkers: 3 })).rejects.toThrow(
    'fit: 3 workers with useGpu need 6 GPUs, and this machine has 4 GPUs: leave numWorkers out',
  );
});

test('the workers of a group share a token, and no other group has it', async () => {
  const tokens: string[] = [];
  for (const _ of ['one', 'other']) {
    const files = fs.readdirSync((await run('token')).checkpoint!.path).filter((name) => name !== 'train.json');
    const [zero, one] = files.sort().map((name) => /^\d ([0-9a-f]{32})$/.exec(name)![1]!);
    expect(one).toBe(zero);
    tokens.push(zero!);
  }
  expect(tokens[0]).not.toBe(tokens[1]);
});

test.each([
  ['late', '30 s ago the loop of worker 0 ended and that of worker 1 did not: if the run hangs'],
  ['reports', '30 s ago worker 0 reported a checkpoint that worker 1 has not reported yet'],
  ['waits', 'worker 0 has waited for worker 1 at averageGradients of 3 numbers for 30 s'],
])('workers one of which is late (%s): who waits for whom is said', async (name, said) => {
  vi.stubEnv('CUDA_VISIBLE_DEVICES', '0,1');
  for (const timer of ['setTimeout', 'setInterval'] as const) {
    const real = globalThis[timer];
    const soon = (f: () => void, ms: number) => real(f, ms === 30_000 ? 100 : ms);
    vi.spyOn(globalThis, timer).mockImplementation(soon as never);
  }
  const file = folders.newFolder();
  vi.stubEnv('TOLD_FILE', file); // the late worker continues when it is there
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    if (String(text).includes(said)) fs.writeFileSync(file, '');
    return true;
  });
  try {
    await run(name, undefined, { useGpu: true });
    expect(fs.existsSync(file)).toBe(true);
  } finally {
    vi.restoreAllMocks();
  }
});

test('a program without a script cannot be run again', async () => {
  process.argv = [argv[0]!];
  const trainer = new TorchTrainer({ trainLoopPerWorker: () => {}, scalingConfig: { numWorkers: 2 } });
  await expect(trainer.fit()).rejects.toThrow(
    "each of 2 workers runs this program's script again, but it has no script: put the code in a file",
  );
  process.argv = [argv[0]!, '-']; // node - < script
  await expect(trainer.fit()).rejects.toThrow('but it has no script: put the code in a file');
});
