// Temporary folders: of one user, under names that cannot be guessed, and gone after their process, however that ends.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { temporaryFolder } from '../../dist/base/temporary.js';
import { scratch } from '../scratch.js';

const { newFolder } = scratch('temporary');
const url = new URL('../../dist/base/temporary.js', import.meta.url).href;
let tmp: string;
beforeEach(() => {
  tmp = newFolder();
  fs.mkdirSync(tmp);
  vi.stubEnv('TMPDIR', tmp);
});
afterEach(() => void vi.unstubAllEnvs());

/** A process with a folder of its own. */
async function holder() {
  const program = `const { temporaryFolder } = await import('${url}');
    console.log((await temporaryFolder('train')).path);
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit').then(([status]) => Promise.reject(new Error(`it ended with status ${status}`)));
  ended.catch(() => {}); // after it was killed
  const [said] = await Promise.race([once(child.stdout, 'data'), ended]);
  return { folder: String(said).trim(), child };
}

test('a folder is of its user alone, and gone when it is removed', async () => {
  const one = await temporaryFolder('saving');
  expect(path.dirname(one.path)).toBe(tmp);
  expect(fs.statSync(one.path).mode & 0o777).toBe(0o700);
  const two = await temporaryFolder('saving');
  expect(two.path).not.toBe(one.path);
  fs.writeFileSync(path.join(one.path, 'x'), 'x');
  await one.remove();
  await two.remove();
  expect(fs.readdirSync(tmp)).toEqual([]);
});

test('the folder of a killed process is removed by the next one, that of a living or paused one is not', async () => {
  const [killed, living, paused] = [await holder(), await holder(), await holder()];
  fs.writeFileSync(path.join(killed.folder, 'spec.json'), '{}');
  paused.child.kill('SIGSTOP');
  killed.child.kill('SIGKILL');
  await once(killed.child, 'exit');
  expect(fs.existsSync(killed.folder)).toBe(true);
  const mine = await temporaryFolder('train');
  expect(fs.readdirSync(tmp).sort()).toEqual(
    [living.folder, paused.folder, mine.path].map((f) => path.basename(f)).sort(),
  );
  for (const { child } of [living, paused]) {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  await mine.remove();
});

test('nothing else is removed: links, folders of other names, and one that was only just made', async () => {
  const elsewhere = newFolder();
  fs.mkdirSync(elsewhere);
  fs.writeFileSync(path.join(elsewhere, 'in-use.lock'), '');
  fs.symlinkSync(elsewhere, path.join(tmp, 'tsxla-train-abcdef'));
  for (const name of ['tsxla-train-new123', 'tsxla-train-mine-abcdef', 'tsxla-other-abcdef'])
    fs.mkdirSync(path.join(tmp, name));
  await (await temporaryFolder('train')).remove();
  expect(fs.readdirSync(tmp)).toHaveLength(4);
  expect(fs.readdirSync(elsewhere)).toEqual(['in-use.lock']);
  fs.utimesSync(path.join(tmp, 'tsxla-train-new123'), 1e9, 1e9); // its process was killed before it had the lock
  await (await temporaryFolder('train')).remove();
  expect(fs.readdirSync(tmp)).toHaveLength(3);
});

test('many processes at once each have their own', async () => {
  const all = await Promise.all(Array.from({ length: 4 }, holder));
  expect(new Set(all.map((h) => h.folder)).size).toBe(4);
  for (const { folder } of all) expect(fs.readdirSync(folder)).toEqual(['in-use.lock']);
  for (const { child } of all) {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  await (await temporaryFolder('train')).remove();
  expect(fs.readdirSync(tmp)).toEqual([]);
});
