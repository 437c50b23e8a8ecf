// Runs a function in a separate process: a plugin that aborts, hangs or prints affects only that process.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { checkSeconds } from './check.js';
import { PluginCrashError, TimeoutError } from './errors.js';
import { type PlainError, reviveError } from './thrown.js';

export interface IsolatedOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutSeconds?: number;
  /** Names the work in error messages: "libtpu compiling for v6e:2x2". */
  readonly what: string;
}

/** Calls the function `name` exported by `module`. Arguments and result must be serializable. */
export async function isolated<T>(
  module: string,
  name: string,
  args: readonly unknown[],
  options: IsolatedOptions,
): Promise<T> {
  const { timeoutSeconds, what } = options;
  if (timeoutSeconds !== undefined) checkSeconds(`${what}: timeoutSeconds`, timeoutSeconds);
  const child = fork(fileURLToPath(new URL('./isolated-child.js', import.meta.url)), {
    env: { ...process.env, ...options.env },
    serialization: 'advanced',
    execArgv: [],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  let output = '';
  const listen = (chunk: unknown) => {
    output = (output + String(chunk)).slice(-20_000);
  };
  child.stdout!.on('data', listen);
  child.stderr!.on('data', listen);
  const stop = () => child.kill('SIGKILL');
  process.once('exit', stop);

  return new Promise<T>((resolve, reject) => {
    let answered = false;
    const timer = timeoutSeconds
      ? setTimeout(() => {
          stop();
          reject(new TimeoutError(`${what}: no answer within ${timeoutSeconds} s`));
        }, timeoutSeconds * 1000)
      : undefined;
    child.on('message', (answer: { value: T } | { error: PlainError }) => {
      answered = true;
      if ('value' in answer) resolve(answer.value);
      else reject(reviveError(answer.error));
    });
    child.on('error', reject);
    child.on('close', (status, signal) => {
      clearTimeout(timer);
      process.off('exit', stop);
      if (answered) return;
      const lines = output.trimEnd().split('\n').slice(-30).join('\n');
      const how = signal ? `was killed by ${signal}` : `ended with status ${status}`;
      reject(new PluginCrashError(`${what}: the process ${how}. Its last lines:\n${lines}`, output));
    });
    child.send({ module, name, args });
  });
}
