// Runs that are killed again and again, scripts of several, and the main job by several workers.
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { linesOf, writeStudentAndCache } from '../recovery/support.js';
import { scratch } from '../scratch.js';
import { childrenOf, killOne, lastLine, start, startCommand } from '../train/support.js';

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
  expect(stderr).toContain('restarting (3 of 3)');
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

describe('recovery by two workers', () => {
  const [student, cache] = [folders.newFolder(), folders.newFolder()];
  const text = folders.file('train.txt', linesOf(40).join('\n\n'));
  beforeAll(async () => {
    await writeStudentAndCache(student, cache, text, { sequenceLength: 16, topK: 5, negatives: 4, sequences: 24 });
  });
  // biome-ignore format: a command
  const recover = (output: string, ...args: string[]) => startCommand([
    'train-recovery-lora', '--model', student, '--kd-cache-dir', cache, '--output', output, '--workers', '2', '--recovery-r', '2', '--lr', '1e-2', '--batch-size', '4',
    '--max-steps', '160', '--log-interval', '1', '--save-steps', '20', '--dropout', '0.1', '--eval-data', text, '--eval-samples', '2', ...args,
  ]);
  /** What is the same however a run came to its end. */
  const outcome = (output: string) => ({
    losses: linesIn(output).map(({ step, loss, evalLoss }) => [step, loss ?? evalLoss]),
    adapters: fs.readFileSync(path.join(output, 'adapters/adapter_model.safetensors'), 'hex'),
  });
  const linesIn = (output: string): Record<string, number>[] => {
    const file = path.join(output, 'metrics.jsonl');
    const lines = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];
    return lines.map((line) => JSON.parse(line));
  };
  const stepsDone = async (output: string, steps: number) => {
    while ((linesIn(output).at(-1)?.step ?? 0) < steps) await sleep(5);
  };

  test('killed, or stopped by Ctrl-C and resumed: metrics and adapters are those of a run that was left alone', async () => {
    const [alone, killed, stopped] = [folders.newFolder(), folders.newFolder(), folders.newFolder()];
    expect((await recover(alone).ended).status).toBe(0);
    const program = recover(killed);
    for (const steps of [30, 90]) {
      await stepsDone(killed, steps);
      process.kill(childrenOf(program.child.pid!)[steps === 30 ? 0 : 1]!, 'SIGKILL');
    }
    const { stderr, status } = await program.ended;
    expect(status, stderr).toBe(0);
    expect(stderr).toContain('restarting (2 of 3)');
    expect(stderr).toMatch(/\[rank 0\] tsxla: resuming after step (40|60|80|100)\n/);
    expect(outcome(killed)).toEqual(outcome(alone));

    const first = recover(stopped);
    await stepsDone(stopped, 30);
    first.child.kill('SIGINT');
    const end = await first.ended;
    expect([end.status, end.stdout]).toEqual([130, expect.stringMatching(/steps +\d+ of 160, stopped\n/)]);
    expect((await recover(stopped, '--resume').ended).status).toBe(0);
    expect(outcome(stopped)).toEqual(outcome(alone));
  });
});
