// Killed at random moments of training and resumed each time, a run ends bit for bit as one that never stopped.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { javaScriptOf } from '../javascript.js';
import { times } from '../repeat.js';

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-killed-'));
const program = await javaScriptOf('test/checkpoint-case.ts');
afterAll(() => {
  fs.rmSync(scratch, { recursive: true, force: true });
  fs.rmSync(program);
});
const STEPS = 120;
const KILLS = times(8, 30);

/** Runs it; killed after this many more lines and milliseconds, if told. */
function train(dir: string, lines = Number.POSITIVE_INFINITY, after = 0): Promise<string> {
  const child = spawn(process.execPath, [program, dir, String(STEPS), '2'], {
    env: { ...process.env, TSXLA_CACHE: 'on' },
  });
  let said = '';
  let killing = false;
  child.stdout.on('data', (data) => {
    said += data;
    if (killing || said.split('\n').length <= lines) return;
    killing = true;
    setTimeout(() => child.kill('SIGKILL'), after);
  });
  return new Promise((resolve, reject) =>
    child.on('close', (code, signal) =>
      code === 0 || (killing && signal === 'SIGKILL')
        ? resolve(said)
        : reject(new Error(`it ended by itself: ${code}`)),
    ),
  );
}

test(`kill -9 at ${KILLS} random moments`, async () => {
  const whole = await train(path.join(scratch, 'whole'));
  const dir = path.join(scratch, 'killed');
  let [kills, said] = [0, ''];
  while (kills < KILLS) {
    said = await train(dir, 2 + Math.floor(Math.random() * 6), Math.random() * 30);
    if (said.includes('hash')) break; // it was done before: fewer kills would be no test
    kills++;
  }
  expect(kills).toBe(KILLS);
  said = await train(dir);
  const hash = (text: string) => text.match(/hash (\w+)/)?.[1];
  expect(hash(whole)).toMatch(/^[0-9a-f]{64}$/);
  expect(hash(said)).toBe(hash(whole));
  const losses = (text: string) => new Map(text.split('\n').map((line) => line.split(' ') as [string, string]));
  expect([...losses(whole).keys()].filter((step) => /^\d+$/.test(step))).toHaveLength(STEPS);
  for (const [step, loss] of losses(said)) if (/^\d+$/.test(step)) expect(losses(whole).get(step)).toBe(loss);
  expect(fs.readdirSync(dir).filter((name) => !name.startsWith('step-'))).toEqual([]);
});
