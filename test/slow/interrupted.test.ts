// A run that is killed, paused or loses its terminal: nothing is lost, nothing is written twice, and the result is that of a
// run that was left alone. TSXLA_TEST_KILLS and TSXLA_TEST_PAUSES ask for more of them.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { linesOf, writeStudentAndCache } from '../recovery/support.js';
import { scratch } from '../scratch.js';
import { main } from '../support.js';

const folders = scratch('interrupted');
const [student, cache, programs] = [folders.newFolder(), folders.newFolder(), folders.newFolder()];
const text = folders.file('text.txt', linesOf(60).join('\n\n'));
const KILLS = Number(process.env.TSXLA_TEST_KILLS ?? 5);
const PAUSES = Number(process.env.TSXLA_TEST_PAUSES ?? 1);
const STEPS = 400;

beforeAll(async () => {
  fs.mkdirSync(programs, { mode: 0o700 });
  await writeStudentAndCache(student, cache, text, { sequenceLength: 16, topK: 5, negatives: 4, sequences: 24 });
});

interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<{ readonly status: number | null; readonly stderr: string }>;
  /** Waits until it has logged a step; false if it ended before. */
  reaches(step: number): Promise<boolean>;
}
/** A run that saves every 20 steps; its program comes from a cache, so that it starts quickly. */
function recover(output: string, ...more: string[]): Running {
  const args = [
    'train-recovery-lora',
    '--model',
    student,
    '--kd-cache-dir',
    cache,
    '--output',
    output,
    '--recovery-r',
    '2',
  ];
  const sizes = ['--batch-size', '2', '--max-steps', `${STEPS}`, '--save-steps', '20', '--log-interval', '1'];
  const env = { ...process.env, TSXLA_CACHE: undefined, XLA_PERSISTENT_CACHE_PATH: programs };
  const child = spawn(process.execPath, [main, ...args, ...sizes, '--dtype', 'f32', ...more], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr!.on('data', (piece) => (stderr += piece));
  const ended = once(child, 'close').then(([status]) => ({ status: status as number | null, stderr }));
  let isOver = false;
  void ended.then(() => (isOver = true));
  const reaches = async (step: number) => {
    while (!isOver && stepIn(output) < step) await sleep(1);
    return !isOver;
  };
  return { child, ended, reaches };
}

const linesIn = (output: string): { step: number; loss: number }[] => {
  const file = path.join(output, 'metrics.jsonl');
  const lines = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];
  return lines.map((line) => JSON.parse(line));
};
const stepIn = (output: string): number => linesIn(output).at(-1)?.step ?? 0;
/** What a run comes to: every step once, and the adapters' bytes. */
const outcome = (output: string) => ({
  lines: linesIn(output).map(({ step, loss }) => [step, loss]),
  adapters: fs.readFileSync(path.join(output, 'adapters', 'adapter_model.safetensors')).toString('base64'),
  config: fs.readFileSync(path.join(output, 'adapters', 'adapter_config.json'), 'utf8'),
});

const alone = folders.newFolder();
beforeAll(async () => {
  const { status, stderr } = await recover(alone).ended;
  expect(status, stderr).toBe(0);
  expect(linesIn(alone).map((m) => m.step)).toEqual(Array.from({ length: STEPS }, (_, i) => i + 1));
});

test(`killed ${KILLS} times, at any moment`, async () => {
  const output = folders.newFolder();
  for (let kill = 0; kill < KILLS; kill++) {
    const run = recover(output, ...(fs.existsSync(output) ? ['--resume'] : []));
    const [before, ahead] = [stepIn(output), (kill * 37) % 23];
    // Some die while they start, others in the middle of a step, a line, a checkpoint.
    if (kill % 5 === 4) await sleep(20 * kill);
    else await run.reaches(Math.min(before + ahead, STEPS - 1));
    run.child.kill('SIGKILL');
    await run.ended;
  }
  const { status, stderr } = await recover(output, '--resume').ended;
  expect(status, stderr).toBe(0);
  expect(outcome(output)).toEqual(outcome(alone));
});

test(`paused ${PAUSES} times for 8 s while another run is started`, async () => {
  const output = folders.newFolder();
  const run = recover(output);
  for (let pause = 1; pause <= PAUSES; pause++) {
    expect(await run.reaches((pause * STEPS) / (PAUSES + 2))).toBe(true);
    run.child.kill('SIGSTOP');
    const [second] = await Promise.all([recover(output, '--resume').ended, sleep(8000)]);
    expect(second).toEqual({
      status: 1,
      stderr: expect.stringMatching(/another run is writing to .* \(process \d+, which is paused/),
    });
    expect(second.stderr.trim().split('\n').at(-1)).toMatch(
      /^error: .*: wait until it is done, or use another --output$/,
    );
    run.child.kill('SIGCONT');
  }
  const { status, stderr } = await run.ended;
  expect(status, stderr).toBe(0);
  expect(outcome(output)).toEqual(outcome(alone));
});

test('a lock that another machine has taken over ends the run before its next write', async () => {
  const output = folders.newFolder();
  const run = recover(output);
  expect(await run.reaches(30)).toBe(true);
  run.child.kill('SIGSTOP');
  const lock = path.join(output, 'run.lock');
  fs.writeFileSync(lock, JSON.stringify({ host: 'elsewhere', pid: 7, since: Date.now(), token: 'theirs' }));
  const before = fs.readFileSync(path.join(output, 'metrics.jsonl'), 'utf8');
  run.child.kill('SIGCONT');
  const { status, stderr } = await run.ended;
  expect([status, stderr]).toEqual([1, expect.stringContaining('(process 7 on elsewhere has taken it over)')]);
  expect(fs.readFileSync(path.join(output, 'metrics.jsonl'), 'utf8')).toBe(before);
  expect(fs.readFileSync(lock, 'utf8')).toContain('theirs');
});

test('a run whose stderr is no longer read runs to its end', async () => {
  const output = folders.newFolder();
  const run = recover(output);
  expect(await run.reaches(5)).toBe(true);
  run.child.stderr!.destroy(); // as `2>&1 | head -1` does
  expect((await run.ended).status).toBe(0);
  expect(outcome(output)).toEqual(outcome(alone));
});

test('two processes with checkpoints in one folder: the second is refused, and no checkpoint is lost', async () => {
  const dir = folders.newFolder();
  const code = `import * as tx from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)};
    const w = tx.zeros([4]); const manager = new tx.io.CheckpointManager(${JSON.stringify(dir)}, { keep: 2 });
    await manager.save(1, { w }); await manager.done(); console.log('saved'); setInterval(() => {}, 1e3)`;
  const args = ['--input-type=module', '-e', code];
  const first = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(first.stdout, 'data');
  const second = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let stderr = '';
  second.stderr.on('data', (piece) => (stderr += piece));
  expect(await once(second, 'close')).toEqual([1, null]);
  expect(stderr).toContain(`process ${first.pid} saves checkpoints in ${dir}: use another folder`);
  expect(fs.readdirSync(dir).sort()).toEqual(['.writer.lock', 'step-00000001']);
  first.kill('SIGKILL');
});
