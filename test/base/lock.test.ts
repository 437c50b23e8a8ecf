import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { holderOf, tryLock } from '../../dist/base/lock.js';
import { scratch } from '../scratch.js';

const dir = scratch('lock').newFolder();
fs.mkdirSync(dir);
const lockModule = new URL('../../dist/base/lock.js', import.meta.url).href;

/** A process that takes a lock, says so, and keeps it. */
async function holder(thing: string) {
  const code = `const { tryLock } = await import(${JSON.stringify(lockModule)});
    const lock = await tryLock(${JSON.stringify(thing)}); console.log(lock ? 'taken' : 'held'); setInterval(() => {}, 1000)`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  return { child, said: String(said).trim() };
}

test('a lock has one holder, in one process and among processes', async () => {
  const thing = path.join(dir, 'one');
  const { child, said } = await holder(thing);
  expect(said).toBe('taken');
  expect(await tryLock(thing)).toBeUndefined();
  expect(holderOf(thing)).toBe(`process ${child.pid}`);
  child.kill('SIGKILL');
  await once(child, 'exit');
  const lock = (await tryLock(thing))!; // at once: the kernel has released it
  expect(await tryLock(thing)).toBeUndefined();
  await lock.release();
  expect(fs.readdirSync(dir)).toEqual([]);
});

test('a paused process keeps its lock', async () => {
  const thing = path.join(dir, 'paused');
  const { child } = await holder(thing);
  child.kill('SIGSTOP');
  // However old its record is: as after a night of sleep.
  await expect.poll(() => holderOf(thing)).toContain(`process ${child.pid}, which is paused`);
  fs.utimesSync(`${thing}.lock`, 0, 0);
  expect(await tryLock(thing)).toBeUndefined();
  child.kill('SIGKILL');
  await once(child, 'exit');
  await (await tryLock(thing))!.release();
});

test('check() throws once the lock was taken over or removed', async () => {
  const thing = path.join(dir, 'lost');
  const lock = (await tryLock(thing))!;
  lock.check();
  fs.rmSync(`${thing}.lock`);
  expect(() => lock.check()).toThrow(/lost\.lock is no longer held by this process \(the lock was removed\)/);
  expect(lock.lost.aborted).toBe(true);
  const second = (await tryLock(thing))!;
  expect(() => lock.check()).toThrow(`process ${process.pid} has taken it over`);
  await lock.release(); // which leaves the second one's
  second.check();
  await second.release();
});

test('a holder on another machine counts while it touches the file', async () => {
  const thing = path.join(dir, 'remote');
  const record = { host: 'elsewhere', pid: 1, since: Date.now(), token: 'x' };
  fs.writeFileSync(`${thing}.lock`, JSON.stringify(record));
  expect(await tryLock(thing)).toBeUndefined();
  expect(holderOf(thing)).toBe('process 1 on elsewhere');
  fs.utimesSync(`${thing}.lock`, 0, 0);
  const lock = (await tryLock(thing))!;
  lock.check();
  await lock.release();
});

test('a lock of an earlier version, a folder, counts until it is stale', async () => {
  const thing = path.join(dir, 'old');
  fs.mkdirSync(`${thing}.lock`);
  expect(await tryLock(thing)).toBeUndefined();
  fs.utimesSync(`${thing}.lock`, 0, 0);
  await (await tryLock(thing))!.release();
});

test.each([
  ['link', (file: string) => fs.symlinkSync(path.join(dir, 'precious'), file), /is a link, not a lock/],
  ['yarn', (file: string) => fs.writeFileSync(file, '# yarn lockfile v1'), /is not a lock of tsxla/],
  ['large', (file: string) => fs.writeFileSync(file, ' '.repeat(1e6)), /is not a lock of tsxla/],
  ['pipe', (file: string) => execFileSync('mkfifo', [file]), /is not a lock of tsxla/],
])('what is no lock is refused, and left as it is: %s', async (name, make, error) => {
  fs.writeFileSync(path.join(dir, 'precious'), 'precious');
  const file = path.join(dir, `${name}.lock`);
  make(file);
  const before = fs.lstatSync(file);
  await expect(tryLock(path.join(dir, name))).rejects.toThrow(error);
  expect(holderOf(path.join(dir, name))).toBe('another process');
  expect(fs.lstatSync(file)).toMatchObject({ ino: before.ino, size: before.size });
  expect(fs.readFileSync(path.join(dir, 'precious'), 'utf8')).toBe('precious');
});

test('a lock is held by one of many processes at a time', async () => {
  const [thing, counter] = [path.join(dir, 'many'), path.join(dir, 'counter')];
  fs.writeFileSync(counter, '0');
  const code = `import fs from 'node:fs';
    const { tryLock } = await import(${JSON.stringify(lockModule)});
    for (let done = 0; done < 100; ) {
      const lock = await tryLock(${JSON.stringify(thing)});
      if (!lock) { await new Promise(setImmediate); continue; }
      lock.check();
      fs.writeFileSync(${JSON.stringify(counter)}, String(1 + Number(fs.readFileSync(${JSON.stringify(counter)}, 'utf8'))));
      await lock.release();
      done++;
    }`;
  const children = Array.from({ length: 4 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: 'inherit' }),
  );
  for (const ended of await Promise.all(children.map((child) => once(child, 'exit')))) expect(ended).toEqual([0, null]);
  expect(fs.readFileSync(counter, 'utf8')).toBe('400');
});

test('a device starts after a lock was taken', async () => {
  const urls = ['base/lock.js', 'index.js'].map((file) => new URL(`../../dist/${file}`, import.meta.url).href);
  const program = `const { tryLock } = await import('${urls[0]}');
    const lock = await tryLock('${path.join(dir, 'first')}');
    const tx = await import('${urls[1]}');
    console.log(await tx.tensor([1, 2]).add(1).tolist());
    await lock.release();`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env: { ...process.env, PJRT_DEVICE: 'CPU', TSXLA_LOG: 'quiet' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.on('data', (chunk) => (said += chunk));
  expect(await once(child, 'close')).toEqual([0, null]);
  expect(said).toBe('[ 2n, 3n ]\n');
});
