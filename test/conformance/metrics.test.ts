// tx.metrics: what is counted when, and what clearing does.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tx from 'tsxla';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { NAMES } from '../../dist/observe/registry.js';
import { collectGarbage, startCounting, times } from './support.js';

const { metrics } = tx;
beforeEach(() => void vi.stubEnv('TSXLA_LOG', 'quiet'));
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});
/** The names in a report, in its order. */
const named = (report: string): string[] => [...report.matchAll(/^(?:Metric|Counter): (.*)$/gm)].map((m) => m[1]!);

test('before anything ran the report is empty; a tensor made there and read has been compiled, run and brought here', async () => {
  expect(metrics.report()).toBe('');
  await tx.rand([3, 3]).data();
  await tx.sync({ wait: true });
  expect(named(metrics.report())).toEqual(
    expect.arrayContaining([
      'CompileTime',
      'CreateCompileHandles',
      'CreateDataHandles',
      'ExecuteTime',
      'InboundData',
      'OutboundData',
      'TransferFromDeviceTime',
      'TransferToDeviceTime',
    ]),
  );
});

describe('clearing', () => {
  test('counters: they are gone, and count again from nothing', () => {
    const t = tx.tensor(100);
    t.add_(2);
    expect(metrics.report()).toContain('Counter: xla::add\n');
    metrics.clearCounters();
    expect(metrics.report()).not.toContain('xla::add');
    expect(metrics.counter('xla::add')).toBeUndefined();
    expect(metrics.counterNames()).toEqual([]);
    t.add_(2);
    expect(metrics.counter('xla::add')).toBe(1);
    expect(metrics.report()).toContain('Counter: xla::add\n  Value: 1\n');
  });

  test('metrics: they are gone, and are measured again', async () => {
    await tx.sync(tx.tensor(156).add(1));
    expect(metrics.metricNames()).toContain('TensorToData');
    metrics.clearMetrics();
    expect(metrics.metricNames()).toEqual([]);
    expect(metrics.report()).not.toContain('TensorToData');
    await tx.sync(tx.tensor(200).add(1));
    expect(metrics.metricData('TensorToData')!.total).toBe(1);
  });

  test('of one kind leaves the other', async () => {
    await startCounting();
    await tx.sync(tx.tensor([1, 2, 3]).mul(2));
    metrics.clearCounters();
    expect(metrics.metricNames()).toContain('TensorsGraphSize');
    await tx.sync();
    metrics.clearMetrics();
    expect(metrics.counterNames()).toEqual(['MarkStep']);
    expect(metrics.metricData('TensorsGraphSize')).toBeUndefined();
  });
});

test('LazyTracing has one sample for each time a step is described', async () => {
  await startCounting();
  const x = tx.tensor(156);
  x.add(100); // outside of a step nothing is timed
  expect(metrics.metricData('LazyTracing')).toBeUndefined();
  for (let i = 0; i < 3; i++) await tx.step(() => x.add(100));
  expect(metrics.metricData('LazyTracing')!.total).toBe(3);
});

describe('the short report', () => {
  test('has compiles, runs, transfers and steps, and cached programs once there are any', async () => {
    await startCounting();
    const t = tx.tensor(1456);
    const twice = () => tx.sync(t.mul(2));
    const result = t.mul(2);
    await tx.sync(result);
    await result.item();
    await tx.sync({ wait: true });
    expect(named(metrics.shortReport())).toEqual([
      'CompileTime',
      'ExecuteTime',
      'TransferToDeviceTime',
      'TransferFromDeviceTime',
      'MarkStep',
    ]);
    await twice();
    expect(named(metrics.shortReport())).toContain('CachedCompile');
  });

  test('has what is asked for; of a kind that is not named, the usual', async () => {
    await startCounting();
    const t = tx.tensor(100);
    const product = t.mul(3);
    t.add_(2);
    await product.item();
    const counters = ['CreateCompileHandles'];
    expect(named(metrics.shortReport({ counters }))).toEqual(
      expect.arrayContaining(['CreateCompileHandles', 'CompileTime']),
    );
    expect(named(metrics.shortReport({ counters }))).not.toContain('MarkStep');
    expect(named(metrics.shortReport({ counters, metrics: ['InboundData', 'InputOutputAliasCount'] }))).toEqual([
      'InboundData',
      'InputOutputAliasCount',
      'CreateCompileHandles',
    ]);
  });
});

describe('the report', () => {
  test('has what happened, by name; a name that was cleared is unknown', async () => {
    await startCounting();
    const t = tx.tensor([2077]);
    const twice = t.mul(2);
    await tx.sync(twice);
    await twice.item();
    const all = named(metrics.report());
    for (const name of ['CreateXlaTensor', 'UncachedCompile', 'MarkStep', 'SyncTensorsToData']) {
      expect(all).toContain(name);
      expect(metrics.counter(name), name).toBeGreaterThan(0);
    }
    for (const name of ['TensorsGraphSize', 'InputOutputAliasCount', 'TensorToData', 'DeviceLockWait']) {
      expect(all).toContain(name);
      expect(metrics.metricData(name)!.total, name).toBeGreaterThan(0);
    }
    metrics.clearAll();
    expect([metrics.counter('MarkStep'), metrics.metricData('TensorToData')]).toEqual([undefined, undefined]);
    await tx.sync(t.mul(2));
    expect(metrics.counter('CachedCompile')).toBe(1);
    expect(metrics.counter('UncachedCompile')).toBeUndefined();
  });

  test('of a run with everything has every name of the table', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-metrics-'));
    vi.stubEnv('TSXLA_CACHE', 'on');
    vi.stubEnv('XLA_PERSISTENT_CACHE_PATH', folder);
    vi.stubEnv('XLA_COMPILATION_CACHE_SIZE', '1');
    await startCounting();
    const x = tx.tensor(new Float32Array([1, 2, 3]));
    const [f, g] = [tx.compile(() => void x.add_(1)), tx.compile(() => void x.mul_(2))];
    for (const run of [f, g, f, f]) await run(); // the second call of f finds it on disk
    await tx.sync(tx.exp(x));
    await tx.sync(tx.exp(x));
    await x.data();
    await tx.sync({ wait: true });
    rmSync(folder, { recursive: true });
    const missing = Object.keys(NAMES).filter((name) => !named(metrics.report()).includes(name));
    const [severalDevices, damage] = [/^(ExecuteReplicated|ReshardData|XlaMarkSharding)/, /DeserializeFailure$/];
    expect(missing.filter((name) => !severalDevices.test(name) && !damage.test(name))).toEqual([]);
    expect(metrics.counterNames()).toEqual(expect.arrayContaining(['xla::add', 'xla::mul', 'xla::exp']));
  });
});

test('buffers that are made and buffers that are freed: what is between them is alive', async () => {
  await collectGarbage();
  await startCounting();
  const x = tx.tensor(new Float32Array([1, 2, 3, 4]));
  for (let i = 0; i < 5; i++) await tx.step(() => void x.mul_(2));
  const [made, freed] = [metrics.counter('CreateDataHandles')!, metrics.counter('DestroyDataHandles')!];
  expect([made, freed]).toEqual([6, 5]); // one upload, five results; each but the last was given up
});

test('ExecuteTime is the time of the device, not of starting: a long program has a multiple of a short one', async () => {
  const x = tx.rand([1024, 1024]);
  const chain = tx.compile(() => {
    let y = x;
    for (let i = 0; i < 4; i++) y = y.matmul(x).mul(1e-3);
    return y.sum();
  });
  const short = tx.compile(() => x.add(1));
  /** The least of several: others use the processor too. */
  const least = async (program: () => Promise<tx.Tensor>) => {
    await program(); // compiled
    await tx.sync({ wait: true });
    await startCounting();
    for (let i = 0; i < 5; i++) {
      await program();
      await tx.sync({ wait: true });
    }
    const { total, samples } = metrics.metricData('ExecuteTime')!;
    expect(total).toBe(5);
    return Math.min(...samples.map(([, ns]) => ns));
  };
  expect(await least(chain)).toBeGreaterThan(5 * (await least(short)));
});

test('waiting for the device: what it ran is measured then', async () => {
  await startCounting();
  const value = tx.rand([64, 64]);
  const means = Array.from({ length: 5 }, () => value.mul(tx.rand([64, 64])).mean());
  await tx.sync(...means, { wait: true });
  expect(metrics.metricData('ExecuteTime')!.total).toBe(1);
});

test('printing runs one program, however often; none if the value is there', async () => {
  const log = vi.spyOn(console, 'log').mockImplementation(() => {});
  for (const synced of [true, false]) {
    await startCounting();
    const t = tx.randn([1, 4]);
    if (synced) await tx.sync(t);
    for (let i = 0; i < 3; i++) await t.print();
    expect(await times('ExecuteTime')).toBe(1);
  }
  expect(log).toHaveBeenCalledTimes(6);
});

test('a number in the code is part of the program: it is not transferred', async () => {
  await startCounting();
  const [a, b, c] = [1, 2, 3].map((k) => tx.tensor([[k, k, k]], { dtype: 'f32' })) as [tx.Tensor, tx.Tensor, tx.Tensor];
  for (let i = 0; i < 3; i++) {
    a.addcdiv_(b, c, { value: 0.1 });
    await tx.sync();
  }
  expect(metrics.metricData('TransferToDeviceTime')!.total).toBe(3); // a, b and c
});

describe('fallbacks', () => {
  test('reading is none, and there are no others', async () => {
    await startCounting();
    const x = tx.rand([10, 1]);
    await tx
      .cat([x, x.add(1)], { dim: 1 })
      .max()
      .item();
    expect(metrics.executedFallbackOps()).toEqual([]);
    expect(metrics.counterNames().filter((name) => name.startsWith('aten::'))).toEqual([]);
    expect(metrics.shortReport()).not.toContain('aten::');
  });
});

test('XLA_METRICS_FILE has the report of each step', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-metrics-'));
  const file = path.join(folder, 'metrics.txt');
  await startCounting();
  vi.stubEnv('XLA_METRICS_FILE', file);
  await tx.sync(tx.tensor(4).mul(4));
  await tx.step(() => tx.ones([2]));
  const text = readFileSync(file, 'utf8');
  rmSync(folder, { recursive: true });
  expect(text.match(/^\[MetricsData; step=\d+\]$/gm)).toEqual(['[MetricsData; step=1]', '[MetricsData; step=2]']);
  expect(text).toContain('Counter: MarkStep\n  Value: 2\n');
});
