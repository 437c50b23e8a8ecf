// The memory manager: a limit that holds, tensors that count while they are alive, figures that are real.
import { execFile } from 'node:child_process';
import os from 'node:os';
import { promisify } from 'node:util';
import { compile, type DType, noGrad, OutOfMemoryError, ones, stack, sync, tensor, zeros } from 'tsxla';
import {
  basicConfig,
  KernelPyTorchConfig,
  limitOf,
  TPUConfig,
  TPUMemoryError,
  TPUMemoryManager,
  TPUOutOfMemoryError,
  TPUValidationError,
} from 'tsxla/backend';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { MemoryMonitor } from '../../dist/backend/monitor.js';
import { collectGarbage } from '../../dist/runtime/memory.js';

vi.stubEnv('TSXLA_LOG', 'quiet'); // many small programs
const lines: Record<string, unknown>[] = [];
basicConfig({ level: 'error', format: 'json', write: (line) => lines.push(JSON.parse(line)) });
afterEach(async () => {
  new TPUMemoryManager(); // programs have the usual limit again
  lines.length = 0;
  await collectGarbage();
});

const KiB = 1024;
const GiB = 2 ** 30;
/** One with a limit in bytes. */
const limitedTo = (bytes: number) =>
  new TPUMemoryManager(new TPUConfig({ version: 'v6e', v6eMemoryGb: bytes / GiB, memoryFraction: 1 }));

// biome-ignore format: a table
test.each<[fields: ConstructorParameters<typeof TPUConfig>[0], device: [capacity: number, kind?: string], limit: number]>([
  [{}, [100 * GiB, 'cpu'], 90 * GiB],
  [{ memoryFraction: 0.5 }, [100 * GiB, 'cpu'], 50 * GiB],
  [{ memoryFraction: 0.5 }, [100 * GiB], 50 * GiB],
  [{ memoryFraction: 0.5, version: 'v5e' }, [100 * GiB, 'cpu'], 8 * GiB],
  [{ memoryFraction: 0.5, version: 'v5p' }, [64 * GiB, 'cpu'], 32 * GiB], // the device has less than a v5p
  [{ memoryFraction: 0.5, version: 'v6e' }, [100 * GiB, 'cpu'], 16 * GiB],
  [{ memoryFraction: 0.5, version: 'v6e', v6eMemoryGb: 20 }, [100 * GiB, 'cpu'], 10 * GiB],
  [{ memoryFraction: 0.5, version: 'v5e', v6eMemoryGb: 2 }, [100 * GiB, 'cpu'], 8 * GiB],
  [{ memoryFraction: 0.5, version: 'v7', v7MemoryGb: 40 }, [100 * GiB, 'cpu'], 20 * GiB],
  [{ memoryFraction: 1, v6eMemoryGb: 20 }, [100 * GiB, 'TPU v6 lite'], 20 * GiB], // auto: the one that is here
  [{ memoryFraction: 1 }, [Number.POSITIVE_INFINITY, 'TPU v4'], 32 * GiB],
])('limitOf %j on %j is %d', (fields, [capacity, kind], limit) => {
  expect(limitOf(new TPUConfig(fields), capacity, kind)).toBe(limit);
});

test('the limit is known before the device is started, and follows the configuration when that is changed', () => {
  const config = new KernelPyTorchConfig();
  const manager = new TPUMemoryManager(config);
  expect(manager.limit).toBe(0.9 * os.totalmem());
  config.hardware.tpu.memoryFraction = 0.5;
  expect(manager.limit).toBe(0.5 * os.totalmem());
  config.hardware.tpu.version = 'v6e';
  config.hardware.tpu.v6eMemoryGb = 1;
  expect(manager.limit).toBe(0.5 * GiB);
  expect(() => manager.allocateTensor([200, 1024, 1024])).toThrow(TPUOutOfMemoryError);
});

test('allocateTensor gives zeros that are their own: changing one leaves the others as they are', async () => {
  const manager = new TPUMemoryManager();
  const [a, b, c] = [manager.allocateTensor([2, 2]), manager.allocateTensor([2, 2]), manager.allocateTensor([2, 2])];
  a.add_(1);
  const step = compile(() => void b.add_(2)); // gives b's memory to the new value
  await step();
  await step();
  expect(await a.tolist()).toEqual([
    [1, 1],
    [1, 1],
  ]);
  expect(await b.tolist()).toEqual([
    [4, 4],
    [4, 4],
  ]);
  expect(await c.tolist()).toEqual([
    [0, 0],
    [0, 0],
  ]);
});

test('dtype, requiresGrad and shapes of any rank', async () => {
  const manager = new TPUMemoryManager();
  expect(`${manager.allocateTensor([3], { dtype: 'bf16' }).aval}`).toBe('bf16[3]');
  expect(`${manager.allocateTensor([3]).aval}`).toBe('f32[3]');
  expect(`${manager.allocateTensor([]).aval}`).toBe('f32[]');
  expect(await manager.allocateTensor([0, 4]).tolist()).toEqual([]);
  const w = manager.allocateTensor([2], { requiresGrad: true });
  w.mul(tensor([3, 4]))
    .sum()
    .backward();
  expect(await w.grad!.tolist()).toEqual([3, 4]);
});

// biome-ignore format: a table
test.each<[shape: unknown, options: object, said: string]>([
  [[2, -1], {}, '[2, -1] is not a shape'],
  [[2.5], {}, '[2.5] is not a shape'],
  [7, {}, 'takes a shape as an array of sizes, got'],
  [[2], { dtype: 'float32' }, "dtype 'float32' is written 'f32'"],
  [[2], { dtype: 'x' }, 'x is not a dtype'],
  [[2], { requiresGrad: true, dtype: 'i32' }, 'requiresGrad is true, but i32[2] is not of a floating point dtype'],
  [[2], { dtpye: 'f32' }, "there is no option 'dtpye'"],
  [[2], ['f32'], 'takes options { dtype'],
])('allocateTensor(%j, %j) is an error', (shape, options, said) => {
  const allocate = () => new TPUMemoryManager().allocateTensor(shape as never, options);
  expect(allocate).toThrow(TPUValidationError);
  expect(allocate).toThrow(said);
});

test('what is too large is refused, with what there is and what to do, and one line in the log', () => {
  const manager = limitedTo(100 * KiB);
  const held = manager.allocateTensor([16, KiB]);
  const refused = (() => {
    try {
      return manager.allocateTensor([10, KiB], { purpose: 'activations' });
    } catch (e) {
      return e;
    }
  })();
  expect(refused).toBeInstanceOf(TPUOutOfMemoryError);
  expect((refused as TPUOutOfMemoryError).details).toMatchObject({ required: 40 * KiB, available: 36 * KiB });
  expect((refused as Error).message).toBe(
    'allocateTensor: f32[10, 1024] takes 40.0 KiB, and 36.0 KiB of 100 KiB are left: 0 B are on the device, 64.0 KiB are ' +
      'reserved for 1 tensor not computed yet. Free some (freeTensor, clearMemoryPools), allocate less, or raise ' +
      'memoryFraction, now 1',
  );
  expect(lines).toMatchObject([{ level: 'ERROR', message: 'allocation refused', required: 40 * KiB, dtype: 'f32' }]);
  expect(manager.allocateTensor([9, KiB]).shape).toEqual([9, KiB]);
  expect(held.shape).toEqual([16, KiB]);
});

test('a tensor counts once: promised before it is computed, and as what is alive afterwards', async () => {
  const manager = limitedTo(100 * KiB);
  const a = manager.allocateTensor([16, KiB]);
  expect(await manager.getMemoryStats()).toMatchObject({ allocatedMemory: 0, availableMemory: 36 * KiB });
  await sync(a);
  expect(await manager.getMemoryStats()).toMatchObject({ allocatedMemory: 64 * KiB, availableMemory: 36 * KiB });
  const b = manager.allocateTensor([9, KiB]);
  expect(() => manager.allocateTensor([KiB])).toThrow(TPUOutOfMemoryError);
  manager.freeTensor(a);
  expect(manager.allocateTensor([16, KiB]).shape).toEqual([16, KiB]);
  expect(b.shape).toEqual([9, KiB]);
});

test('tensors of others count, too', async () => {
  const manager = limitedTo(100 * KiB);
  const other = zeros([20, KiB]);
  await sync(other);
  expect(() => manager.allocateTensor([6, KiB])).toThrow('80.0 KiB are on the device');
  other.dispose();
  expect(manager.allocateTensor([6, KiB]).shape).toEqual([6, KiB]);
});

test('a tensor that was dropped no longer counts, computed or not', async () => {
  const manager = limitedTo(100 * KiB);
  const drop = async (compute: boolean) => {
    const t = manager.allocateTensor([20, KiB]);
    if (compute) await sync(t);
  };
  await drop(true);
  await collectGarbage();
  await drop(false);
  for (let i = 0; i < 20; i++) await new Promise(setImmediate).then(() => drop(false)); // without calling the collector
  await collectGarbage();
  expect(await manager.getMemoryStats()).toMatchObject({ activeTensors: 0, availableMemory: 100 * KiB });
});

test('no program keeps what it made', async () => {
  const manager = new TPUMemoryManager();
  await collectGarbage();
  const before = (await manager.getMemoryStats()).allocatedMemory;
  const make = async (n: number) => sync(manager.allocateTensor([n, KiB]));
  for (const n of [1, 2, 3]) await make(n);
  await collectGarbage();
  expect((await manager.getMemoryStats()).allocatedMemory).toBe(before);
});

test('freeTensor frees the memory now; twice, and what is not its own, is an error', async () => {
  const manager = new TPUMemoryManager();
  const before = (await manager.getMemoryStats()).allocatedMemory;
  const t = manager.allocateTensor([KiB]);
  await sync(t);
  expect((await manager.getMemoryStats()).allocatedMemory).toBe(before + 4 * KiB);
  manager.freeTensor(t);
  expect((await manager.getMemoryStats()).allocatedMemory).toBe(before);
  expect(() => t.add(1)).toThrow('was freed');
  expect(() => manager.freeTensor(t)).toThrow(TPUMemoryError);
  expect(() => manager.freeTensor(t)).toThrow('freed already');
  expect(() => manager.freeTensor(zeros([2]))).toThrow(
    'this f32[2] was not allocated by this manager: free it with dispose()',
  );
  expect(() => manager.freeTensor(undefined as never)).toThrow(TPUMemoryError);
});

test('a program that needs more than the limit is refused before it runs', async () => {
  const x = ones([64, KiB]);
  const w = ones([KiB]);
  await sync(x, w);
  const step = compile((t: typeof x) => noGrad(() => void w.add_(t.mul(2).sum(0))));
  limitedTo(100 * KiB);
  await expect((async () => step(x))()).rejects.toThrow(OutOfMemoryError);
  await expect((async () => step(x))()).rejects.toThrow('100 KiB available');
  new TPUMemoryManager();
  expect(await w.max().item()).toBe(1); // nothing was changed
  await step(x);
  expect(await w.max().item()).toBe(129);
});

test('getAllocationHistory: what was allocated, until allocationHistoryRetentionSeconds are over', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const manager = new TPUMemoryManager(new TPUConfig({ allocationHistoryRetentionSeconds: 0.1 }));
  const began = Date.now();
  manager.allocateTensor([2, 3], { purpose: 'weights' });
  manager.allocateTensor([5], { dtype: 'i8' });
  const history = manager.getAllocationHistory();
  expect(history).toMatchObject([
    { shape: [2, 3], dtype: 'f32', bytes: 24, purpose: 'weights' },
    { shape: [5], dtype: 'i8', bytes: 5, purpose: 'unknown' },
  ]);
  expect(history[0]!.time).toBe(began);
  vi.advanceTimersByTime(150);
  manager.allocateTensor([1]);
  expect(manager.getAllocationHistory().map((a) => a.bytes)).toEqual([4]);
  for (let i = 0; i < 25_000; i++) manager.freeTensor(manager.allocateTensor([0]));
  manager.config.hardware.tpu.allocationHistoryRetentionSeconds = 3600;
  expect(manager.getAllocationHistory().length).toBeLessThanOrEqual(20_000);
});

test('getMemoryStats tells what is there, what was at most, and what is left', async () => {
  const manager = new TPUMemoryManager(new TPUConfig({ memoryFraction: 0.5 }));
  const before = await manager.getMemoryStats();
  const [a, b] = [manager.allocateTensor([KiB, KiB]), manager.allocateTensor([KiB, KiB])];
  await sync(a);
  const stats = await manager.getMemoryStats();
  expect(stats).toMatchObject({
    allocatedMemory: before.allocatedMemory + 4 * KiB ** 2,
    reservedMemory: before.allocatedMemory + 8 * KiB ** 2, // b is promised
    cachedMemory: 0,
    memoryFraction: 0.5,
    activeTensors: 2,
    limit: 0.5 * os.totalmem(),
    total: os.totalmem(),
    availableMemory: 0.5 * os.totalmem() - before.allocatedMemory - 8 * KiB ** 2,
    device: null, // a CPU does not tell
  });
  manager.freeTensor(a);
  manager.freeTensor(b);
  const after = await manager.getMemoryStats();
  expect(after).toMatchObject({ allocatedMemory: before.allocatedMemory, activeTensors: 0 });
  expect(after.peakMemory).toBeGreaterThanOrEqual(stats.allocatedMemory);
});

// ---- over time

test('monitorMemory yields samples as configured', async () => {
  const manager = new TPUMemoryManager(
    new TPUConfig({ monitoringIntervalSeconds: 0.04, monitoringDurationSeconds: 0.19 }),
  );
  vi.spyOn(manager, 'getMemoryStats').mockResolvedValue(await manager.getMemoryStats());
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const times: number[] = [];
  const read = (async () => {
    for await (const sample of manager.monitorMemory()) times.push(sample.time);
  })();
  await vi.advanceTimersByTimeAsync(190);
  await read;
  expect(times.map((time) => Math.round((time - times[0]!) / 10))).toEqual([0, 4, 8, 12, 16]);
  const other = manager.monitorMemory({ interval: 0.01, duration: 0.015 }).all();
  await vi.advanceTimersByTimeAsync(15);
  const all = await other;
  expect(all).toHaveLength(2);
  expect(Object.keys(all[0]!).slice(0, 3)).toEqual(['time', 'allocatedMemory', 'cachedMemory']);
});

test('breaking out of the loop stops it; so does stop()', async () => {
  const manager = new TPUMemoryManager();
  const monitor = manager.monitorMemory({ interval: 0.005, duration: 60 });
  for await (const _ of monitor) if (monitor.samples.length >= 3) break;
  const { length } = monitor.samples;
  const other = manager.monitorMemory({ interval: 0.005, duration: 60 });
  for await (const _ of other) if (other.samples.length >= 3) other.stop();
  expect((await other.all()).length).toBe(3);
  await new Promise((resolve) => setTimeout(resolve, 30)); // several intervals
  expect([monitor.samples.length, other.samples.length]).toEqual([length, 3]);
});

test('chart shows what was allocated, its peak and the limit, as wide as it is told', async () => {
  const manager = limitedTo(64 * KiB);
  const monitor = manager.monitorMemory({ interval: 0.02, duration: 10 });
  expect(monitor.chart()).toBe('no samples yet');
  const held = [];
  for await (const sample of monitor) {
    if (sample.allocatedMemory) break;
    if (!held.length) held.push(manager.allocateTensor([8, KiB]));
    await sync(...held);
  }
  const chart = monitor.chart(60).split('\n');
  expect(chart[0]).toMatch(/^ 32\.0 KiB │ +█+$/);
  expect(chart[5]).toMatch(/^ {6}0 B │/);
  expect(chart.slice(-2).join('\n')).toMatch(/peak +32\.0 KiB +after .* m?s, 50% of the limit\n +limit +64\.0 KiB/);
  expect(Math.max(...chart.slice(0, 6).map((line) => line.length))).toBeLessThanOrEqual(60);
});

test('on a terminal a line shows it while it runs, and is taken away', async () => {
  const written: string[] = [];
  const write = vi.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0);
  const { isTTY } = process.stderr;
  process.stderr.isTTY = true;
  try {
    await new TPUMemoryManager().monitorMemory({ interval: 0.01, duration: 0.015 }).all();
  } finally {
    process.stderr.isTTY = isTTY;
    write.mockRestore();
  }
  expect(written[0]).toMatch(/^memory .* peak .*, limit .* GiB\n$/);
  expect(written.at(-1)).toBe('\x1b[1A\r\x1b[K');
});

test('time is counted from the first sample, for which the plugin may have to be started', async () => {
  const stats = await new TPUMemoryManager().getMemoryStats();
  let calls = 0;
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const measure = () => new Promise<typeof stats>((done) => setTimeout(done, calls++ ? 0 : 100, stats));
  const all = new MemoryMonitor(measure, 0.02, 0.05).all();
  await vi.advanceTimersByTimeAsync(150);
  expect((await all).length).toBe(3);
});

test('a process ends though a monitor runs, and does not where someone waits for its samples', async () => {
  const run = async (script: string) => {
    const code = `const { TPUMemoryManager } = await import('tsxla/backend'); const m = new TPUMemoryManager(); ${script}`;
    return (await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code])).stdout;
  };
  const [left, awaited] = await Promise.all([
    run(
      "const monitor = m.monitorMemory({ interval: 1, duration: 3600 }); await m.getMemoryStats(); console.log('done')",
    ),
    run(
      'await m.getMemoryStats(); console.log((await m.monitorMemory({ interval: 0.01, duration: 1 }).all()).length > 0)',
    ),
  ]);
  expect(left).toBe('done\n'); // and not after an hour
  expect(awaited).toBe('true\n');
});

test.each([{ interval: 0 }, { duration: -1 }, { interval: Number.NaN }, { duration: 1e9 }, { every: 1 }])(
  'monitorMemory(%j) is an error',
  (o) => {
    expect(() => new TPUMemoryManager().monitorMemory(o as object)).toThrow(TPUValidationError);
  },
);

// ---- layout

// biome-ignore format: a table
test.each<[dtype: DType, shape: number[], chip: string | undefined, padded: number[], overhead: number]>([
  ['f32', [3, 100], 'v6e', [8, 128], 1 - 300 / 1024],
  ['bf16', [3, 100], 'v6e', [16, 128], 1 - 300 / 2048],
  ['i8', [3, 100], 'v6e', [32, 128], 1 - 300 / 4096],
  ['i64', [3, 100], 'v4', [8, 128], 1 - 300 / 1024],
  ['bool', [33, 129], 'v7', [64, 256], 1 - (33 * 129) / (64 * 256)],
  ['f32', [2, 5, 9, 130], 'v5p', [2, 5, 16, 256], 1 - (9 * 130) / (16 * 256)],
  ['f32', [8, 128], undefined, [8, 128], 0], // what is no chip of the table: as a TPU
  ['f32', [1, 7], undefined, [8, 128], 1 - 7 / 1024],
  ['f32', [130], 'v6e', [256], 1 - 130 / 256],
  ['f32', [], 'v6e', [], 0],
  ['f32', [0, 5], 'v6e', [0, 128], 0],
  ['bf16', [3, 9], 'h200', [8, 16], 1 - 27 / 128],
  ['f32', [3, 9], 'h200', [4, 12], 1 - 27 / 48],
])('optimizeTensorLayout %s%j for %s is %j', async (dtype, shape, chip, padded, overhead) => {
  const x = ones(shape, { dtype });
  const layout = new TPUMemoryManager().optimizeTensorLayout(x, chip ? { chip } : {});
  expect(layout).toMatchObject({ shape: padded, original: shape });
  expect(layout.overhead).toBeCloseTo(overhead, 12);
  expect(layout.tensor.shape).toEqual(padded);
  expect(layout.tensor === x).toBe(String(padded) === String(shape));
  const sums = stack([layout.tensor, layout.restore(layout.tensor)].map((t) => t.to('f32').sum()));
  await sync(sums);
  expect(await sums.tolist()).toEqual([x.numel(), x.numel()]); // zeros were added
  expect(layout.restore(layout.tensor).shape).toEqual(shape);
});

test('the chip is the one that version names; gradients pass; what does not fit is an error', async () => {
  const manager = new TPUMemoryManager(new TPUConfig({ version: 'v5e' }));
  const x = ones([3, 100], { requiresGrad: true });
  const { tensor: padded, tile, paddedBytes, restore } = manager.optimizeTensorLayout(x);
  expect([tile, paddedBytes]).toEqual([[8, 128], 4096]);
  restore(padded.mul(2)).sum().backward();
  expect(await x.grad!.sum().item()).toBe(600);
  expect(() => restore(x)).toThrow('takes a tensor of the padded shape [8, 128], got f32[3, 100]');
  expect(() => manager.optimizeTensorLayout(x, { chip: 'v9' })).toThrow("'v9' is not a known chip: use one of v2");
  expect(() => manager.optimizeTensorLayout([1] as never)).toThrow(TPUValidationError);
});
