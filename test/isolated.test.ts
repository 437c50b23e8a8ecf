// Work in a child process: its result, its error, and its death are all answers.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CompileError, PluginCrashError, TimeoutError } from 'tsxla';
import { expect, test } from 'vitest';
import { isolated } from '../dist/base/isolated.js';

const module = new URL('./fixtures/child.mjs', import.meta.url).href;
const call = <T>(name: string, args: unknown[] = [], timeoutSeconds = 30) =>
  isolated<T>(module, name, args, { what: `calling ${name}`, timeoutSeconds });

test('a result', async () => expect(await call('add', [2, 3])).toBe(5));
test('a result that is an array', async () => expect(await call('array')).toEqual(Float32Array.of(1, 2, 3)));
test('an error, of its own class', async () => {
  const refused = call('fail');
  await expect(refused).rejects.toThrow(CompileError);
  await expect(refused).rejects.toMatchObject({ message: '-:4:27: expected something', code: 'INVALID_ARGUMENT' });
});
test('an abort: an error with its last lines, and this process continues', async () => {
  const crashed = call('abort');
  await expect(crashed).rejects.toThrow(PluginCrashError);
  await expect(crashed).rejects.toThrow(
    /^calling abort: the process was killed by SIGABRT\. Its last lines:\n[\s\S]*the plugin is upset/,
  );
});
test('an exit without an answer', async () => {
  await expect(call('leave')).rejects.toThrow('calling leave: the process ended with status 3');
});
test('no answer in time', async () => {
  const late = call('hang', [], 1);
  await expect(late).rejects.toThrow(TimeoutError);
  await expect(late).rejects.toThrow('calling hang: no answer within 1 s');
});

test('when the parent is killed, the child goes too', async () => {
  const file = path.join(os.tmpdir(), `tsxla-orphan-${process.pid}`);
  const isolatedUrl = new URL('../dist/base/isolated.js', import.meta.url).href;
  const program = `import { isolated } from '${isolatedUrl}'; isolated('${module}', 'hangAs', ['${file}'], { what: 'x' });`;
  const parent = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'ignore' });
  while (!fs.existsSync(file) || !fs.readFileSync(file, 'utf8')) await sleep(20);
  const child = Number(fs.readFileSync(file, 'utf8'));
  fs.rmSync(file);
  expect(() => process.kill(child, 0)).not.toThrow(); // it lives
  parent.kill('SIGKILL');
  const isGone = () => {
    try {
      process.kill(child, 0);
      return /\) Z /.test(fs.readFileSync(`/proc/${child}/stat`, 'utf8')); // dead, but not yet waited for
    } catch {
      return true;
    }
  };
  while (!isGone()) await sleep(20);
});
