// Long runs: what is made and freed leaves nothing behind.

import type { Buffer } from 'tsxla/pjrt';
import { expect, test } from 'vitest';
import { f32, golden, startCpu } from '../support.js';

const MB = 2 ** 20;
const residentMemory = () => {
  globalThis.gc!();
  return process.memoryUsage.rss();
};
/**
 * Runs a fifth as many rounds to warm up (the allocators' pools are full after a tenth: then memory stands still), then
 * demands that all the rounds take at most a quarter more memory: of three times once, since what leaks does so each time.
 */
async function staysFlat(rounds: number, round: () => Promise<void>): Promise<void> {
  for (let i = 0; i < rounds / 5; i++) await round();
  const ratios: number[] = [];
  while (ratios.length < 3 && !ratios.some((ratio) => ratio < 1.25)) {
    const before = residentMemory();
    for (let i = 0; i < rounds; i++) await round();
    ratios.push(residentMemory() / before);
    const size = `${(before / MB).toFixed(0)} MB`;
    console.log(`resident memory: ${size}, ${ratios.at(-1)!.toFixed(2)} times as much after ${rounds} rounds`);
  }
  expect(Math.min(...ratios)).toBeLessThan(1.25);
}

test('100,000 buffers made and freed, read back now and then', async () => {
  using client = await startCpu();
  const data = new Float32Array(1024).fill(3);
  await staysFlat(100, async () => {
    for (let i = 0; i < 1000; i++) {
      using buffer = client.bufferFromHost(data, f32(1024));
      if (i % 100 === 0) expect((await buffer.toHost())[1023]).toBe(3);
    }
  });
  expect(client.live).toEqual({ buffers: 0, bytes: 0, executables: 0 });
});

test('10,000 executions, with donated state, awaited now and then', async () => {
  using client = await startCpu();
  const executable = await client.compile(golden('gpt-step.mlir'));
  const { inputs } = executable;
  let args = inputs.map((t) => client.bufferFromHost(new Uint8Array(t.shape.reduce((a, b) => a * b, 4)), t));
  await staysFlat(100, async () => {
    let last: Promise<void> | undefined;
    for (let i = 0; i < 100; i++) {
      const { outputs, done } = executable.executeSharded([args]);
      [args] = executable.feedBack([args], outputs) as [Buffer[]];
      last = done;
    }
    await last;
    expect(client.live.buffers).toBe(inputs.length);
  });
  for (const b of args) b.dispose();
  executable.dispose();
  expect(client.live).toEqual({ buffers: 0, bytes: 0, executables: 0 });
});

test('300 programs compiled, serialized, loaded and dropped', async () => {
  using client = await startCpu();
  await staysFlat(30, async () => {
    for (let i = 0; i < 10; i++) {
      using compiled = await client.compile(golden('mlir/matmul.mlir'));
      using loaded = await client.load(await compiled.serialize());
      expect((await loaded.optimizedHlo()).length).toBeGreaterThan(100);
    }
  });
  expect(client.live.executables).toBe(0);
});

test('100 clients started and closed', async () => {
  await staysFlat(10, async () => {
    for (let i = 0; i < 10; i++) {
      const client = await startCpu();
      client.bufferFromHost(new Float32Array(1024), f32(1024));
      client.dispose();
    }
  });
});
