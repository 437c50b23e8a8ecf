// Device memory that is freed by garbage collection, which does not know how much device memory a small object holds.
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
  collector ??= findCollector();
  collector();
}
function findCollector(): () => void {
  const { Bun } = globalThis as { Bun?: { gc(now: boolean): void } }; // its engine is not V8
  if (Bun) return () => Bun.gc(true);
  v8.setFlagsFromString('--expose-gc');
  return vm.runInNewContext('gc') as () => void;
}
/** Collects garbage now, and lets finalizers free its device memory. */
export async function collectGarbage(): Promise<void> {
  await setImmediate(); // a dereferenced WeakRef keeps its target alive until this turn of the event loop ends
  collectNow();
  for (let i = 0; i < 3; i++) await setImmediate(); // finalizers run in turns of the event loop
}

/** Memory may grow by this, and by half of what was live before, until garbage is collected. */
const SLACK = 256 * 2 ** 20;
let base = 0;
/** Whether live memory has grown so much since the last collection that garbage should be collected. */
export const hasGrown = (client: Client): boolean => client.live.bytes > base * 1.5 + SLACK;
export async function watchMemory(client: Client): Promise<void> {
  if (!hasGrown(client)) return;
  await collectGarbage();
  base = client.live.bytes;
}

/** Runs a function; if memory is short, collects garbage and tries once more. */
export async function withRelief<T>(run: () => T, mayTryAgain: () => boolean): Promise<T> {
  try {
    return run();
  } catch (e) {
    if (!(e instanceof OutOfMemoryError) || !mayTryAgain()) throw e;
    await collectGarbage();
    return run();
  }
}

/** The memory that programs may use, as a function of the capacity. */
let limited = (capacity: number): number => capacity;
/** Limits programs, from now on, to `limit(total memory of the device)`: a program that needs more is refused. */
export function limitMemory(limit: (capacity: number) => number): void {
  limited = limit;
}

const whole = new WeakMap<Client, number>(); // asked once: the CPU plugin answers with an error, which is slow
/** Total memory of the device; Infinity if it does not report it. */
export function wholeOf(client: Client): number {
  let bytes = whole.get(client);
  if (bytes === undefined) {
    bytes = client.defaultDevice.memory()?.bytesLimit ?? machineMemory(client.platform);
    whole.set(client, bytes);
  }
  return bytes;
}
/** The same before there is a client; Infinity if not known. */
export const machineMemory = (platform: string): number =>
  platform === 'cpu' ? os.totalmem() : Number.POSITIVE_INFINITY;
/** The part of it that may be used. */
export const capacityOf = (client: Client): number => limited(wholeOf(client));

/** Memory a program needs while it runs. */
export const programBytes = (m: MemoryStats): number => m.arguments + m.outputs - m.aliased + m.temporaries;

/**
 * Refuses a program that needs more memory than the device has before it runs, so that no tensor is lost.
 * TSXLA_MEMORY_CHECK=off turns this check off.
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
    `${name} needs ${bytes(needed)} (${parts}), ${device} has ${bytes(limit)}${limit < wholeOf(client) ? ' available' : ''}: nothing was run or changed. Use a smaller batch, ` +
      `accumulate(), or checkpoint()\n    the largest buffers:\n${(await largest()).map((line) => `      ${line}\n`).join('')}`.trimEnd(),
    'RESOURCE_EXHAUSTED',
    'PJRT_LoadedExecutable_Execute',
    { details: { required: needed, available: limit } },
  );
}

/** The ten largest buffers of a program, with the user's names and lines: compiles it again with these included. */
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
