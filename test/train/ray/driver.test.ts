// The driver of a run on Ray and what is said of its events, without a cluster.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { showEvent } from '../../../dist/train/ray/run.js';

test('a Python without all of Ray is one sentence, which is no reason for another attempt', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-driver-'));
  fs.mkdirSync(path.join(folder, 'ray', 'train'), { recursive: true });
  fs.writeFileSync(path.join(folder, 'ray', '__init__.py'), '');
  fs.writeFileSync(path.join(folder, 'ray', 'train', '__init__.py'), "raise ImportError('No module named pandas.')");
  const env = { ...process.env, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' };
  const { stdout, stderr, status } = spawnSync('python3', ['src/train/ray/driver/main.py', '{}'], {
    env,
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([1, '']);
  const [, event] = /^@tsxla (.*)\n$/.exec(stdout)!;
  expect(JSON.parse(event!)).toEqual({
    type: 'failed',
    why: 'controller',
    message: expect.stringMatching(
      /python.* cannot import ray\.train \(No module named pandas\): run pip install 'ray\[default,train\]' on every machine/,
    ),
  });
  fs.rmSync(folder, { recursive: true });
});

test('a log says when workers were started again, and from where', () => {
  const hello = { type: 'hello', rank: 0, attempt: 1, reports: 5, tsxla: '0' } as const;
  expect([hello, { ...hello, reports: 0 }, { ...hello, attempt: 0 }, { ...hello, rank: 1 }].map(showEvent)).toEqual([
    'attempt 2: the workers were started again, from the checkpoint after 5 reports',
    'attempt 2: the workers were started again, from the beginning',
    undefined,
    undefined,
  ]);
});
