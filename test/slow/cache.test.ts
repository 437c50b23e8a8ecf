// The disk cache under stress: many processes, killed processes, and another plugin.
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep, setImmediate as tick } from 'node:timers/promises';
import type { Client } from 'tsxla/pjrt';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { listEntries, readEntry } from '../../dist/runtime/cache-store.js';
import { added, adding, addingMuch, ask, askAtOnce, file, folder, scratch, start } from '../cache-support.js';
import { times } from '../repeat.js';
import { cpuPlugin, goldenPath, startCpu, upload } from '../support.js';

const KILLS = times(15, 50);
let client: Client;
beforeAll(async () => {
  client = await startCpu();
});
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));

test('ten processes at once compile once', async () => {
  const dir = folder();
  const all = await askAtOnce(10, dir, [goldenPath('gpt-step.mlir'), file(adding(1))]);
  for (const program of [0, 1]) {
    const tiers = all.map((a) => a.answers[program]!.tier);
    expect(tiers.filter((tier) => tier === 'compiled')).toHaveLength(1);
  }
  expect(all.reduce((sum, a) => sum + a.compiles, 0)).toBe(2);
  expect(all.map((a) => a.answers[1]!.result)).toEqual(all.map(() => added(1)));
  // On a busy machine some wait so long that they say so.
  const isWaiting = (line: string) => /^tsxla: another process is compiling .*: waiting for it$/.test(line);
  expect(all.flatMap((a) => a.stderr.split('\n')).filter((line) => line && !isWaiting(line))).toEqual([]);
  expect(fs.readdirSync(dir).filter((name) => /tmp|lock/.test(name))).toEqual([]);
});

test(`killed at ${KILLS} random moments, it leaves whole programs or none`, async () => {
  const numbers = Array.from({ length: 8 }, (_, i) => i + 1);
  const files = numbers.map((n) => file(addingMuch(n)));
  const whole = folder();
  const { answers } = await ask(whole, files);
  const keys = answers.map((a) => a.key);
  const memo = fs.readdirSync(whole).find((name) => name.startsWith('plugin-'))!;
  const has = (dir: string, part: string) => fs.readdirSync(dir).some((name) => name.includes(part));
  const seen = { programs: 0, halfWritten: 0 };
  const runs: number[] = [];
  // A few kills more if none has hit the writing yet: which ones do depends on the machine.
  let kills = 0;
  while (kills < KILLS || (!seen.halfWritten && kills < 50)) {
    const dir = folder();
    fs.copyFileSync(path.join(whole, memo), path.join(dir, memo));
    const child = start(dir, files, 'wait');
    child.done.catch(() => {}); // it is killed
    await child.said('ready');
    child.go();
    while (!has(dir, '.program')) await tick();
    const began = performance.now();
    if (!runs.length)
      await once(child.process, 'close'); // the first tells how long one takes
    else {
      await Promise.race([sleep(Math.random() * runs[0]!), once(child.process, 'close')]);
      // Most of the time it compiles: every other kill waits for the next write to begin.
      const ended = () => child.process.exitCode !== null;
      if (runs.length % 2) while (!ended() && !has(dir, '.tmp-')) await tick();
      for (let i = Math.random() * 20; i > 0; i--) await tick();
    }
    runs.push(performance.now() - began);
    if (!child.process.kill('SIGKILL')) continue; // it was done before
    await once(child.process, 'close');
    kills++;
    if (has(dir, '.tmp-')) seen.halfWritten++;
    for (const { key } of await listEntries(dir)) {
      const stored = (await readEntry(dir, key))!; // throws if it is not whole
      using executable = await client.load(stored.executable);
      const { outputs } = executable.execute([upload(client, 1, 2, 3, 4)]);
      expect(Array.from(await outputs[0]!.toHost<Float32Array>())).toEqual(added(numbers[keys.indexOf(key)]!));
      for (const output of outputs) output.dispose();
      seen.programs++;
    }
    if (kills % 5) continue;
    const next = await ask(dir, files); // and who comes next gets everything, after the dead one's lock
    expect(next.answers.map((a) => a.result)).toEqual(numbers.map(added));
    expect(next.stderr).toBe('');
  }
  console.log(
    `${kills} kills left ${seen.programs} whole programs, and ${seen.halfWritten} half-written temporary files`,
  );
  expect(seen.programs).toBeGreaterThanOrEqual(KILLS); // each was killed after the first
  expect(seen.halfWritten).toBeGreaterThan(0); // some kills did hit the writing
});

test('who waits for a process that is killed compiles', async () => {
  const dir = folder();
  const program = [file(adding(1))];
  const first = start(dir, program, 'hang');
  first.done.catch(() => {});
  await first.said('ready');
  first.go();
  await first.said('compiling');
  const second = start(dir, program);
  await second.said('ready');
  await sleep(7000); // longer than a lock lives without its holder
  expect(second.process.exitCode).toBeNull();
  first.process.kill('SIGKILL');
  const { compiles, answers } = await second.done;
  expect([compiles, answers[0]!.result]).toEqual([1, added(1)]);
});

test('a plugin is known by its content: a copy is the same, one byte more is another', async () => {
  const dir = folder();
  const program = [file(adding(1))];
  const copy = path.join(folder(), 'plugin.so');
  fs.copyFileSync(cpuPlugin, copy);
  const tierWith = async (plugin: string) =>
    (await ask(dir, program, 'now', { TSXLA_PLUGIN_CPU: plugin })).answers[0]!.tier;
  expect(await tierWith(cpuPlugin)).toBe('compiled');
  expect(await tierWith(copy)).toBe('disk');
  fs.appendFileSync(copy, '\0');
  expect(await tierWith(copy)).toBe('compiled');
});
