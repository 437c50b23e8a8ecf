// Work in a child process: its result, its error, and its death are all answers.

import { CompileError, PluginCrashError } from 'tsxla';
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
test('an abort: an error with its last lines, and this process goes on', async () => {
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
  await expect(call('hang', [], 1)).rejects.toThrow('calling hang: no answer within 1 s');
});
