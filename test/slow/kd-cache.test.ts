// `tsxla kd-cache`, killed at random moments and run again, ends with the cache of a run that was never stopped.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { KDCacheDataset } from 'tsxla/distill';
import { afterAll, expect, test } from 'vitest';
import { times } from '../repeat.js';
import { goldenPath } from '../support.js';

const KILLS = times(5, 12);
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tsxla-kd-killed-'));
afterAll(() => fs.rmSync(scratch, { recursive: true, force: true }));
const text = path.join(scratch, 'text.jsonl');
const line = (i: number) => JSON.stringify({ text: `${i}: ${'some words again '.repeat(1 + (i % 13))}` });
fs.writeFileSync(text, Array.from({ length: times(1600, 4000) }, (_, i) => line(i)).join('\n'));

/** Runs it; with `killAfter`, killed that many milliseconds after its first shard of this run. */
function run(folder: string, killAfter?: number): Promise<number | null> {
  const sizes = ['-l', '64', '-k', '16', '-r', '8', '-b', '4', '--shard-sequences', '8', '--dtype', 'f32'];
  const args = ['dist/cli/main.js', 'kd-cache', '-t', goldenPath('qwen3/tied'), '-d', text, '-o', folder, ...sizes];
  const child = spawn(process.execPath, args, { stdio: 'ignore', env: { ...process.env, TSXLA_CACHE: 'on' } });
  const count = () => (fs.existsSync(folder) ? fs.readdirSync(folder).filter((n) => n.startsWith('shard-')).length : 0);
  const before = count();
  const watch = setInterval(() => {
    if (killAfter === undefined || count() <= before) return;
    clearInterval(watch);
    setTimeout(() => child.kill('SIGKILL'), killAfter);
  }, 1);
  return new Promise((resolve) => {
    child.on('close', (code) => {
      clearInterval(watch);
      resolve(code);
    });
  });
}

async function contentsOf(folder: string): Promise<Buffer> {
  const cache = await KDCacheDataset.open(folder);
  const parts: Uint8Array[] = [];
  for (let i = 0; i < cache.length; i++)
    for (const { data } of Object.values(await cache.get(i)))
      parts.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return Buffer.concat(parts);
}

test(`kill -9 at ${KILLS} random moments`, async () => {
  const whole = path.join(scratch, 'whole');
  expect(await run(whole)).toBe(0);
  const folder = path.join(scratch, 'killed');
  let kills = 0;
  const leftovers: string[] = [];
  while (kills < KILLS && (await run(folder, Math.random() * 120)) === null) {
    kills++;
    leftovers.push(...fs.readdirSync(folder).filter((n) => n.endsWith('.tmp')));
  }
  expect(kills).toBe(KILLS); // or it was done before
  await expect(KDCacheDataset.open(folder)).rejects.toThrow(/is not finished/);
  const files = fs.readdirSync(folder).filter((n) => n.startsWith('shard-') && n.endsWith('.safetensors'));
  expect(await run(folder)).toBe(0);
  expect((await contentsOf(folder)).equals(await contentsOf(whole))).toBe(true);
  for (const name of fs.readdirSync(whole))
    expect(fs.readFileSync(path.join(folder, name)).equals(fs.readFileSync(path.join(whole, name))), name).toBe(true);
  expect(files.length).toBeGreaterThanOrEqual(KILLS);
  expect(fs.readdirSync(folder).filter((n) => n.endsWith('.tmp') || n.endsWith('.lock'))).toEqual([]);
  console.log(`${kills} kills, ${new Set(leftovers).size} of them in the middle of a shard`);
});
