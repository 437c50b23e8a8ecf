// Device memory that only the garbage collector can free: it does not see how much hangs on a small object.
import os from 'node:os';
import { setImmediate } from 'node:timers/promises';
import v8 from 'node:v8';
import vm from 'node:vm';
import { env } from '../base/env.js';
import { OutOfMemoryError } from '../base/errors.js';
import { bytes } from '../base/format.js';
import type { Client, CompileOptions, MemoryStats } from '../pjrt/index.js';

let collector: (() => void) | undefined;
/** Collects garbage now; finalizers run later. */
export function collectNow(): void {
  if (!collector) {
    v8.setFlagsFromString('--expose-gc');
    collector = vm.runInNewContext('gc') as () => void;
  }
  collector();
}
/** Collects garbage now, and lets finalizers free what hung on it. */
export async function collectGarbage(): Promise<void> {
  await setImmediate(); // what a WeakRef was asked for lives until this turn of the event loop ends
  collectNow();
  for (let i = 0; i < 3; i++) await setImmediate(); // finalizers run in turns of the event loop
}

/** Memory may grow by this much, and by half of what there was, before garbage is looked for. */
const SLACK = 256 * 2 ** 20;
let base = 0;
/** Whether live memory has grown much since the last time: then garbage is looked for. */
export const hasGrown = (client: Client): boolean => client.live.bytes > base * 1.5 + SLACK;
export async function watchMemory(client: Client): Promise<void> {
  if (!hasGrown(client)) return;
  await collectGarbage();
  base = client.live.bytes;
}

/** Runs it; where memory is short, once more when garbage has been collected. */
export async function withRelief<T>(run: () => T, mayTryAgain: () => boolean): Promise<T> {
  try {
    return run();
  } catch (e) {
    if (!(e instanceof OutOfMemoryError) || !mayTryAgain()) throw e;
    await collectGarbage();
    return run();
  }
}

/** What programs may have of the memory there is. */
let limited = (capacity: number): number => capacity;
/** From now on programs may have no more than `limit` gives for the device's whole memory: a larger one is refused. */
export function limitMemory(limit: (capacity: number) => number): void {
  limited = limit;
}

const whole = new WeakMap<Client, number>(); // asked once: the CPU's plugin answers with an error, which takes its time
/** How much memory the device has in all; Infinity where it does not say. */
export function wholeOf(client: Client): number {
  let bytes = whole.get(client);
  if (bytes === undefined) {
    bytes = client.defaultDevice.memory()?.bytesLimit ?? machineMemory(client.platform);
    whole.set(client, bytes);
  }
  return bytes;
}
/** The same before there is a client; Infinity where it is not known. */
export const machineMemory = (platform: string): number =>
  platform === 'cpu' ? os.totalmem() : Number.POSITIVE_INFINITY;
/** How much of it may be used. */
export const capacityOf = (client: Client): number => limited(wholeOf(client));

/** What a program takes of it while it runs. */
export const programBytes = (m: MemoryStats): number => m.arguments + m.outputs - m.aliased + m.temporaries;

/**
 * Refuses a program that is larger than the device before it runs, so that nothing is lost with it. TSXLA_MEMORY_CHECK=off
 * lets it try.
 */
export async function checkFits(
  client: Client,
  name: string,
  m: MemoryStats,
  largest: () => Promise<readonly string[]>,
): Promise<void> {
  const { defaultDevice: device } = client;
  const limit = capacityOf(client);
  const needed = programBytes(m);
  if (needed <= limit || env('TSXLA_MEMORY_CHECK') === 'off') return;
  const parts = `inputs ${bytes(m.arguments)}, new results ${bytes(m.outputs - m.aliased)}, temporaries ${bytes(m.temporaries)}`;
  throw new OutOfMemoryError(
    `${name} needs ${bytes(needed)} (${parts}), ${device} has ${bytes(limit)}${limit < wholeOf(client) ? ' to give' : ''}: nothing was run or changed. Use a smaller batch, ` +
      `accumulate(), or checkpoint()\n    the largest buffers:\n${(await largest()).map((line) => `      ${line}\n`).join('')}`.trimEnd(),
    'RESOURCE_EXHAUSTED',
    'PJRT_LoadedExecutable_Execute',
    { details: { required: needed, available: limit } },
  );
}

/** The ten largest buffers of a program, by the names and lines of the user's: it is compiled again, with those in it. */
export async function largestBuffers(
  client: Client,
  text: string,
  options: CompileOptions,
  labels: readonly string[],
): Promise<string[]> {
  const { livenessOf, named } = await import('../plan/hlo/liveness.js');
  using executable = await client.compile(text, options);
  const { tenLargest } = livenessOf(await executable.optimizedModule());
  return tenLargest.map((buffer) => {
    const { bytes: size, shape, what, source } = named(buffer, labels);
    return `${bytes(size)} ${shape} ${what}${source ? ` at ${source}` : ''}`;
  });
}
