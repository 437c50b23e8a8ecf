// Data, at length: files larger than the memory they may take, and a busy device.

import { once } from 'node:events';
import { createWriteStream, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DataLoader, JsonlDataset } from 'tsxla/data';
import { afterAll, expect, test } from 'vitest';
import { compare } from '../../bench/loader-case.js';

const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-slow-data-'));
afterAll(() => rmSync(folder, { recursive: true }));
const MB = 2 ** 20;
/** What this process has read of files so far. */
const bytesRead = (): number => Number(/rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))![1]);
/** The most resident memory while something runs, above what there was before. */
async function peakOf(work: () => Promise<void>): Promise<number> {
  globalThis.gc!();
  const before = process.memoryUsage.rss();
  let peak = before;
  const watch = setInterval(() => void (peak = Math.max(peak, process.memoryUsage.rss())), 20);
  await work();
  clearInterval(watch);
  return (peak - before) / MB;
}

test('a JSON Lines file of 300 MB is streamed in half as much memory, and resumed in its middle without reading the first part', async () => {
  const file = path.join(folder, 'large.jsonl');
  const out = createWriteStream(file);
  const words = 'lorem ipsum dolor sit amet '.repeat(36); // lines of about 1 kB
  const n = 300_000;
  for (let i = 0; i < n; i += 100) {
    const block = Array.from({ length: 100 }, (_, j) => `{"id": ${i + j}, "text": "${words}"}\n`).join('');
    if (!out.write(block)) await once(out, 'drain');
  }
  out.end();
  await once(out, 'close');

  const make = () =>
    new DataLoader(new JsonlDataset<{ id: number }>(file).map(({ id }) => Int32Array.of(id, id)).shuffle(1000), {
      batchSize: 500,
    });
  for await (const _ of make()) break; // starts the device
  const loader = make();
  let sum = 0;
  const middle = { state: loader.state(), next: undefined as unknown };
  const peak = await peakOf(async () => {
    let batches = 0;
    for await (const x of loader) {
      sum += 500;
      if (++batches === 400) middle.state = loader.state();
      if (batches === 401) middle.next = await x.tolist();
      x.dispose();
    }
  });
  console.log(`300 MB streamed with at most ${peak.toFixed(0)} MB more memory`);
  expect(sum).toBe(n);
  expect(peak).toBeLessThan(statSync(file).size / MB / 2);

  const resumed = make();
  resumed.load(middle.state);
  const before = bytesRead();
  for await (const x of resumed) {
    expect(await x.tolist()).toEqual(middle.next);
    break;
  }
  expect(bytesRead() - before).toBeLessThan(50 * MB); // 200 MB were not read again
});

test('the loader keeps the device busy: while a step runs, the next batch is read', async () => {
  const { constant, loaded, ratio, late, idle } = await compare({ rounds: 5, steps: 20 });
  console.log(
    `constant batch ${constant.toFixed(2)} ms, loader ${loaded.toFixed(2)} ms: ${((ratio - 1) * 100).toFixed(1)}%`,
  );
  expect(late).toBe(0); // every batch was on the device before its step was called
  expect(idle).toBe(0);
});
