// Counters and metrics: what PyTorch/XLA's report would say, written by hand from its format.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { metrics } from 'tsxla';
import { afterAll, afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { analyse, saveMetrics } from '../dist/observe/debug.js';
import { count, type MetricName, NAMES, record } from '../dist/observe/registry.js';
import { timed } from '../dist/runtime/events.js';

const folder = mkdtempSync(path.join(tmpdir(), 'tsxla-metrics-'));
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(() => metrics.clearAll());
afterEach(() => void vi.unstubAllEnvs());

const SECOND = 1e9; // of nanoseconds

describe('the report', () => {
  test('is metrics, then counters, each sorted by name', () => {
    record('TensorsGraphSize', 12, 5000);
    count('xla::mul', 2);
    record('CompileTime', 369.401746001 * SECOND, 1000);
    record('CompileTime', 1.9e6, 3000); // PyTorch/XLA shows it as 002ms900.000us
    record('OutboundData', 1536, 1000);
    record('OutboundData', 100, 1000); // at the same time: there is no rate
    count('MarkStep');
    count('CachedCompile', 395);
    count('MarkStep');
    expect(metrics.report()).toBe(`\
Metric: CompileTime
  TotalSamples: 2
  Accumulator: 06m09s403ms646.001us
  ValueRate: 03m04s701ms823.001us / second
  Rate: 1 / second
  Percentiles: 1%=001ms900.000us; 5%=001ms900.000us; 10%=001ms900.000us; 20%=001ms900.000us; 50%=06m09s401ms746.001us; \
80%=06m09s401ms746.001us; 90%=06m09s401ms746.001us; 95%=06m09s401ms746.001us; 99%=06m09s401ms746.001us
Metric: OutboundData
  TotalSamples: 2
  Accumulator: 1.60KB
  Percentiles: 1%=100.00B; 5%=100.00B; 10%=100.00B; 20%=100.00B; 50%=1.50KB; 80%=1.50KB; 90%=1.50KB; 95%=1.50KB; 99%=1.50KB
Metric: TensorsGraphSize
  TotalSamples: 1
  Accumulator: 12.00
  Percentiles: 1%=12.00; 5%=12.00; 10%=12.00; 20%=12.00; 50%=12.00; 80%=12.00; 90%=12.00; 95%=12.00; 99%=12.00
Counter: CachedCompile
  Value: 395
Counter: MarkStep
  Value: 2
Counter: xla::mul
  Value: 2
`);
  });

  test('is empty when nothing happened', () => expect(metrics.report()).toBe(''));

  const accumulator = (name: MetricName, value: number) => {
    metrics.clearAll();
    record(name, value);
    return /Accumulator: (.*)/.exec(metrics.report())![1];
  };
  test.each([
    [0, '000.000us'],
    [1, '000.001us'],
    [32_778, '032.778us'],
    [999_999.6, '001ms000.000us'], // rounded before it is taken apart
    [1_032_778, '001ms032.778us'],
    [59.9999 * SECOND, '59s999ms900.000us'],
    [60 * SECOND, '01m00s000ms000.000us'],
    [3_600 * SECOND + 1000, '01h00m00s000ms001.000us'],
    [12 * 86_400 * SECOND + 5 * 3_600 * SECOND, '12d05h00m00s000ms000.000us'],
    [123 * 86_400 * SECOND, '123d00h00m00s000ms000.000us'],
  ])('%d nanoseconds are %s', (ns, text) => expect(accumulator('ExecuteTime', ns)).toBe(text));
  test.each([
    [0, '0.00B'],
    [1023, '1023.00B'],
    [1024, '1.00KB'],
    [1.5 * 1024 ** 2, '1.50MB'],
    [247.256 * 1024 ** 3, '247.26GB'],
    [1024 ** 4, '1.00TB'],
    [5000 * 1024 ** 5, '5000.00PB'],
  ])('%d bytes are %s', (n, text) => expect(accumulator('InboundData', n)).toBe(text));

  const rate = (perSecond: number) => {
    metrics.clearAll();
    record('TensorsGraphSize', 1, 0);
    record('TensorsGraphSize', 1, 2e3 / perSecond);
    return / {2}Rate: (.*) \/ second/.exec(metrics.report())![1];
  };
  test.each([
    [0.4252014, '0.425201'],
    [1234.567, '1234.57'],
    [1_234_567, '1.23457e+06'],
    [0.00001234567, '1.23457e-05'],
    [100, '100'],
  ])('a rate of %d is written %s, as C++ does', (perSecond, text) => expect(rate(perSecond)).toBe(text));

  test('takes percentiles from the sorted samples: number p * n of n', () => {
    vi.stubEnv('XLA_METRICS_PERCENTILES', '0.999:0.25:0.5');
    for (const value of [9, 1, 8, 2, 7, 3, 6, 4]) record('TensorsGraphSize', value);
    expect(metrics.report()).toContain('  Percentiles: 25%=3.00; 50%=6.00; 99.9%=9.00\n');
  });

  test.each(['0.5:1', 'half', '0.5:'])('refuses XLA_METRICS_PERCENTILES=%s', (text) => {
    vi.stubEnv('XLA_METRICS_PERCENTILES', text);
    record('CompileTime', 1);
    expect(() => metrics.report()).toThrow(
      `XLA_METRICS_PERCENTILES=${text} is not valid: use numbers between 0 and 1, ` +
        'as in 0.01:0.05:0.1:0.2:0.5:0.8:0.9:0.95:0.99',
    );
  });
});

test('the short report has what one looks at first, or what one names', () => {
  for (const name of ['CompileTime', 'LazyTracing', 'InboundData'] as const) record(name, 1);
  for (const name of ['CachedCompile', 'UncachedCompile'] as const) count(name);
  const names = (text: string) => [...text.matchAll(/(?:Metric|Counter): (.*)/g)].map((m) => m[1]);
  expect(names(metrics.shortReport())).toEqual(['CompileTime', 'CachedCompile']);
  expect(names(metrics.shortReport({ counters: ['UncachedCompile'] }))).toEqual(['CompileTime', 'UncachedCompile']);
  expect(names(metrics.shortReport({ metrics: ['LazyTracing', 'InboundData'] }))).toEqual([
    'LazyTracing',
    'InboundData',
    'CachedCompile',
  ]);
  expect(names(metrics.shortReport({ counters: ['MarkStep'], metrics: ['ExecuteTime'] }))).toEqual([]);
});

describe('what is kept', () => {
  test('a counter that has not counted is undefined', () => {
    count('MarkStep', 0);
    expect(metrics.counter('MarkStep')).toBeUndefined();
    expect(metrics.counterNames()).toEqual([]);
    count('MarkStep');
    count('xla::add', 3);
    expect(metrics.counter('MarkStep')).toBe(1);
    expect(metrics.counterNames()).toEqual(['MarkStep', 'xla::add']);
    metrics.clearCounters();
    expect(metrics.counter('MarkStep')).toBeUndefined();
    expect(metrics.counterNames()).toEqual([]);
  });

  test('counters and metrics are cleared apart', () => {
    count('MarkStep');
    record('CompileTime', 1);
    metrics.clearMetrics();
    expect([metrics.counterNames(), metrics.metricNames()]).toEqual([['MarkStep'], []]);
    record('CompileTime', 1);
    metrics.clearCounters();
    expect([metrics.counterNames(), metrics.metricNames()]).toEqual([[], ['CompileTime']]);
  });

  test('the latest samples, oldest first, and the sum of all', () => {
    vi.stubEnv('XLA_METRICS_SAMPLES', '3');
    for (const value of [1, 2, 3, 4, 5]) record('TensorsGraphSize', value, 1000 * value);
    const { total, accumulator, samples } = metrics.metricData('TensorsGraphSize')!;
    expect({ total, accumulator, values: samples.map(([, v]) => v) }).toEqual({
      total: 5,
      accumulator: 15,
      values: [3, 4, 5],
    });
    expect(samples[1]![0] - samples[0]![0]).toBeCloseTo(1, 5); // in seconds
    expect(metrics.report()).toContain('  ValueRate: 6.00 / second\n  Rate: 1.5 / second\n'); // of those kept
    expect(metrics.metricData('CompileTime')).toBeUndefined();
  });

  test('1024 samples, unless XLA_METRICS_SAMPLES says otherwise', () => {
    for (let i = 0; i < 1030; i++) record('TensorsGraphSize', i);
    expect(metrics.metricData('TensorsGraphSize')!.samples).toHaveLength(1024);
    expect(metrics.metricData('TensorsGraphSize')!.samples[0]![1]).toBe(6);
    vi.stubEnv('XLA_METRICS_SAMPLES', '0');
    expect(() => record('CompileTime', 1)).toThrow(
      'XLA_METRICS_SAMPLES=0 is not understood: give a whole number, 1 or more',
    );
  });

  test('samples carry the time of day', () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'], now: new Date('2030-01-02T03:04:05Z') });
    onTestFinished(() => void vi.useRealTimers());
    record('CompileTime', 1);
    expect(metrics.metricData('CompileTime')!.samples[0]![0]).toBeCloseTo(Date.parse('2030-01-02T03:04:05Z') / 1e3, 0);
  });

  test('no operation ever falls back to the host', () => expect(metrics.executedFallbackOps()).toEqual([]));
});

describe('timed', () => {
  const last = () => metrics.metricData('LazyTracing')!.samples.at(-1)![1];
  const spend = (ms: number) => {
    for (const start = performance.now(); performance.now() - start < ms; );
    return ms;
  };

  test('gives what the function gives, and its nanoseconds', () => {
    const start = performance.now();
    expect(timed('trace', () => spend(20))).toBe(20);
    expect(last()).toBeGreaterThanOrEqual(20e6);
    expect(last()).toBeLessThanOrEqual((performance.now() - start) * 1e6);
  });

  test('counts failures too', () => {
    const fail = () => {
      throw new Error(`no, after ${spend(20)} ms`);
    };
    expect(() => timed('trace', fail)).toThrow('no');
    expect(metrics.metricData('LazyTracing')!.total).toBe(1);
    expect(last()).toBeGreaterThanOrEqual(20e6);
  });
});

describe('names', () => {
  test('only those of the table, by kind, and xla::OP', () => {
    count('xla::anything');
    // @ts-expect-error: not a name
    expect(() => count('CachedCompiles')).toThrow(
      'metrics: CachedCompiles is not a counter: add it to NAMES in src/observe/registry.ts',
    );
    // @ts-expect-error: a metric
    expect(() => count('CompileTime')).toThrow('metrics: CompileTime is not a counter');
    // @ts-expect-error: a counter
    expect(() => record('MarkStep', 1)).toThrow('metrics: MarkStep is not a metric');
    // @ts-expect-error: no operation falls back
    expect(() => count('aten::add')).toThrow('metrics: aten::add is not a counter');
    // @ts-expect-error: not a name, though every object has one
    expect(() => record('toString', 1)).toThrow('metrics: toString is not a metric');
    expect(metrics.metricNames()).toEqual([]);
  });

  const docs = readFileSync(path.resolve(import.meta.dirname, '../docs/metrics.md'), 'utf8');
  test('docs/metrics.md has the table', () => {
    const rows = Object.entries(NAMES).map(([name, [kind, meaning]]) => `| ${name} | ${kind} | ${meaning} |`);
    expect(docs.match(/^\| \w+ \| (counter|time|bytes|value) \| .* \|$/gm)).toEqual(rows);
  });

  // PyTorch/XLA's, found in its source.
  const theirs =
    `AtenSourceDowncasts CachedCompile CachedSizeNodeValue CompileTime CompileWithAutoSharding CreateAsyncDataHandles
    CreateCompileHandles CreateDataHandles CreateIotaOpSharding CreateOpSharding CreateXlaTensor DestroyCompileHandles
    DestroyDataHandles DestroyXlaTensor DeviceDataCacheMiss DeviceLockWait EagerOpCompileTime EagerOpExecuteTime
    EarlySyncLiveTensorsCount EinsumFallback ExecuteComputation ExecuteReplicated ExecuteReplicatedTime ExecuteTime InboundData
    InputOutputAliasCount IrValueTensorToXlaData LazyTracing MarkStep OutboundData PersistentCacheDeserializeFailure
    PersistentCacheHit PersistentCacheLoad PersistentCacheMiss ReleaseCompileHandles ReleaseDataHandles ReleaseDataHandlesTime
    ReplicateShardedData ReshardData ReshardParameters RunCachedGraphInputData RunCachedGraphOutputData SetShardingSpec
    StableHloCompile SyncTensorsToData TensorToData TensorsGraphSize TransferFromDeviceTime TransferToDeviceTime
    TransferToDeviceTransformTime UncachedCompile UncachedOutputSharding UnwrapXlaData VirtualDeviceUsage WrapXlaData
    XlaAnnotateCustomSharding XlaMarkDynamic XlaMarkSharding XlaSetBufferDonation`.split(/\s+/);
  test("docs/metrics.md has a word on each of PyTorch/XLA's", () => {
    expect(theirs.filter((name) => !new RegExp(`\\b${name}\\b`).test(docs))).toEqual([]);
    expect(Object.keys(NAMES).filter((name) => !theirs.includes(name))).toEqual([]);
  });
});

describe('the analysis', () => {
  const times = (name: MetricName, n: number, value = 1) => {
    for (let i = 0; i < n; i++) record(name, value);
  };
  test('finds compiles in more than half of the steps, once more than 10 are done', () => {
    times('CompileTime', 21);
    expect(analyse(10)).toEqual([]);
    expect(analyse(11)).toEqual(['pt-xla-profiler: CompileTime too frequent: 21 counts during 11 steps']);
    expect(analyse(42)).toEqual([]); // one in two
    expect(analyse(41)).toHaveLength(1);
  });

  test('finds transfers from the device in more than half of the steps', () => {
    times('TransferFromDeviceTime', 1);
    expect(analyse(0)).toEqual([]);
    expect(analyse(2)).toEqual([]);
    expect(analyse(1)).toEqual(['pt-xla-profiler: TransferFromDeviceTime too frequent: 1 counts during 1 steps']);
  });

  test('finds what takes too long', () => {
    times('CompileTime', 1, 300 * SECOND);
    times('ExecuteTime', 1, 30 * SECOND);
    expect(analyse(100)).toEqual([]);
    times('ExecuteTime', 1, 31.5 * SECOND);
    times('CompileTime', 1, 301 * SECOND);
    expect(analyse(100)).toEqual([
      'pt-xla-profiler: CompileTime too slow: longest instance took 05m01s000ms000.000us. ' +
        'Write equal layers as one tx.scan, which compiles one of them; PT_XLA_DEBUG_LEVEL=1 names each program.',
      'pt-xla-profiler: ExecuteTime too slow: longest instance took 31s500ms000.000us. ' +
        'Check that it runs on the intended device (tsxla doctor); PT_XLA_DEBUG_LEVEL=2 names each program.',
    ]);
  });

  test('counts steps by MarkStep', () => {
    times('TransferFromDeviceTime', 3);
    expect(analyse()).toEqual([]);
    count('MarkStep', 4);
    expect(analyse()).toEqual(['pt-xla-profiler: TransferFromDeviceTime too frequent: 3 counts during 4 steps']);
  });
});

describe('XLA_METRICS_FILE', () => {
  const step = (n: number) => `[MetricsData; step=${n}]\nCounter: MarkStep\n  Value: ${n + 1}\n\n`;

  test('gets the report of each step', () => {
    const file = path.join(folder, 'metrics.txt');
    vi.stubEnv('XLA_METRICS_FILE', file);
    for (const n of [0, 1]) {
      count('MarkStep');
      saveMetrics(n);
    }
    expect(readFileSync(file, 'utf8')).toBe(step(0) + step(1));
    vi.stubEnv('PJRT_LOCAL_PROCESS_RANK', '1'); // only the first process writes
    saveMetrics(2);
    expect(readFileSync(file, 'utf8')).toBe(step(0) + step(1));
  });

  const program = `
    import { count } from './dist/observe/registry.js';
    import { saveMetrics } from './dist/observe/debug.js';
    for (const n of [0, 1]) { count('MarkStep'); saveMetrics(n); }`;
  const run = (file: string, more = {}) =>
    promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
      cwd: path.resolve(import.meta.dirname, '..'),
      env: { ...process.env, XLA_METRICS_FILE: file, ...more },
    });

  test('can be STDERR or STDOUT', async () => {
    expect(await run('STDERR')).toEqual({ stdout: '', stderr: step(0) + step(1) });
    expect(await run('STDOUT')).toEqual({ stdout: step(0) + step(1), stderr: '' });
    expect(await run('')).toEqual({ stdout: '', stderr: '' });
  });

  test('that cannot be written is said once, and ends nothing', async () => {
    const file = path.join(folder, 'absent', 'metrics.txt');
    expect(await run(file)).toEqual({
      stdout: '',
      stderr: `tsxla: XLA_METRICS_FILE=${file} cannot be written: ENOENT: no such file or directory, open '${file}'\n`,
    });
    expect((await run(folder)).stderr).toContain('EISDIR');
  });
});
