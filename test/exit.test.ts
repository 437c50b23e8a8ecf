// How a process ends: with XLA's threads at work, well, and with its own status.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { expect, test } from 'vitest';
import { scratch } from './scratch.js';
import { cpuPlugin, goldenPath } from './support.js';

const { newFolder } = scratch('exit');
const t = 'tensor<1024x1024xf32>';
const prelude = `
  import fs from 'node:fs';
  import { Client } from 'tsxla/pjrt';
  const client = await Client.create('${cpuPlugin}', { cpu_device_count: 1 });
  const step = fs.readFileSync('${goldenPath('gpt-step.mlir')}', 'utf8');
  const slow = await client.compile(\`module @slow { func.func public @main(%a: ${t}) -> ${t} {
    %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (${t}, ${t}) -> ${t}
    return %0 : ${t} } }\`);
  const a = client.bufferFromHost(new Float32Array(1024 * 1024), slow.inputs[0]);
`;
const run = (code: string, env: Record<string, string> = {}) => {
  const { status, signal, stderr, stdout } = spawnSync(
    process.execPath,
    ['--input-type=module', '-e', prelude + code],
    { encoding: 'utf8', env: { ...process.env, ...env } },
  );
  return { status, signal, stderr, stdout };
};

test.each([
  ['at the end of the program, with work in flight', 'slow.execute([a]);', 0],
  ['by process.exit, with work in flight', 'for (let i = 0; i < 5; i++) slow.execute([a]); process.exit(3);', 3],
  ['by process.exit, with a read pending', 'slow.execute([a]).outputs[0].toHost(); process.exit(3);', 3],
  ['by an exception, with work in flight', 'slow.execute([a]); throw new Error("over");', 1],
  ['with everything disposed', 'slow.execute([a]).outputs[0].dispose(); a.dispose(); client.dispose();', 0],
])('%s', (_, code, status) => {
  const ended = run(code);
  expect(ended, ended.stderr).toMatchObject({ status, signal: null });
});

test('a result that is not awaited keeps the process alive until it is there', () => {
  expect(run('slow.execute([a]).done.then(() => console.log("done"));').stdout).toBe('done\n');
});

test('process.exit does not wait for a compile', () => {
  /** Runs code, and counts the object files that XLA made meanwhile. */
  const objects = (code: (dumps: string) => string) => {
    const dumps = newFolder();
    fs.mkdirSync(dumps);
    const ended = run(code(dumps), { XLA_FLAGS: `--xla_dump_to=${dumps}` });
    return { ...ended, made: fs.readdirSync(dumps).filter((name) => name.endsWith('.o')).length };
  };
  const whole = objects(() => 'await client.compile(step);');
  const cut = objects(
    (dumps) => `client.compile(step);
      setInterval(() => fs.readdirSync('${dumps}').length && process.exit(3), 1); // it has begun`,
  );
  expect(cut, cut.stderr).toMatchObject({ status: 3, signal: null });
  expect(whole, whole.stderr).toMatchObject({ status: 0 });
  expect(cut.made).toBeLessThan(whole.made);
});

test('Ctrl-C stays what it is: importing tsxla listens to no signal', () => {
  expect(run('console.log(process.listenerCount("SIGINT"), process.listenerCount("SIGTERM"));').stdout).toBe('0 0\n');
});
