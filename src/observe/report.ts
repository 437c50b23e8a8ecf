// Metrics as text: PyTorch/XLA's report, its automatic analysis, and a file with the report of each step.
import { env, isFirstProcess } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';
import { appendTo } from '../base/log.js';
import { counter, counterNames, findMetric, type MetricName, metricNames } from './metrics.js';

const TIME_PARTS = [
  ['d', 86_400e9, 2],
  ['h', 3_600e9, 2],
  ['m', 60e9, 2],
  ['s', 1e9, 2],
  ['ms', 1e6, 3],
] as const;

/** 369401746001 is "06m09s401ms746.001us". */
function time(ns: number): string {
  let rest = Math.round(ns); // first, so that no part rounds up what another one counts
  let text = '';
  for (const [unit, size, width] of TIME_PARTS) {
    if (!text && rest < size) continue;
    text += `${Math.floor(rest / size)}`.padStart(width, '0') + unit;
    rest %= size;
  }
  return `${text}${(rest / 1e3).toFixed(3).padStart(7, '0')}us`;
}

const BYTE_UNITS = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];
/** 1536 is "1.50KB". */
function bytes(n: number): string {
  let unit = 0;
  for (; n >= 1024 && unit < BYTE_UNITS.length - 1; unit++) n /= 1024;
  return n.toFixed(2) + BYTE_UNITS[unit];
}

const SHOW = { time, bytes, value: (n: number): string => n.toFixed(2) };

/** C's %g: six significant digits. */
function general(n: number): string {
  const [digits, power] = n.toExponential(5).split('e').map(Number) as [number, number];
  if (power >= -4 && power < 6) return `${Number(n.toPrecision(6))}`;
  return `${digits}e${power < 0 ? '-' : '+'}${`${Math.abs(power)}`.padStart(2, '0')}`;
}

const DEFAULT_PERCENTILES = '0.01:0.05:0.1:0.2:0.5:0.8:0.9:0.95:0.99';
function percentiles(): number[] {
  const text = env('XLA_METRICS_PERCENTILES') ?? DEFAULT_PERCENTILES;
  const list = text.split(':').map(Number);
  if (list.every((p) => p > 0 && p < 1)) return list.sort((a, b) => a - b);
  throw new ArgumentError(
    `XLA_METRICS_PERCENTILES=${text} is not understood: give numbers between 0 and 1, as in ${DEFAULT_PERCENTILES}`,
  );
}

function describeMetric(name: string): string {
  const metric = findMetric(name);
  if (!metric) return '';
  const show = SHOW[metric.kind];
  const { times } = metric;
  const values = metric.values.sort();
  const seconds = (times.at(-1)! - times[0]!) / 1e3;
  const sum = values.reduce((a, b) => a + b, 0);
  const rates = [
    `  ValueRate: ${show(sum / seconds)} / second`,
    `  Rate: ${general(values.length / seconds)} / second`,
  ];
  const shares = percentiles().map((p) => `${general(100 * p)}%=${show(values[Math.floor(p * values.length)]!)}`);
  return [
    `Metric: ${name}`,
    `  TotalSamples: ${metric.total}`,
    `  Accumulator: ${show(metric.accumulator)}`,
    ...(seconds > 0 ? rates : []),
    `  Percentiles: ${shares.join('; ')}\n`,
  ].join('\n');
}

function describeCounter(name: string): string {
  const value = counter(name);
  return value ? `Counter: ${name}\n  Value: ${value}\n` : '';
}

const describe = (metrics: readonly string[], counters: readonly string[]): string =>
  [...metrics.map(describeMetric), ...counters.map(describeCounter)].join('');

/** All metrics and counters, as PyTorch/XLA writes them. */
export const report = (): string => describe(metricNames(), counterNames());

const SHORT = {
  counters: ['CachedCompile', 'MarkStep'],
  metrics: ['CompileTime', 'ExecuteTime', 'ExecuteReplicatedTime', 'TransferToDeviceTime', 'TransferFromDeviceTime'],
};
export interface ShortReportOptions {
  readonly counters?: readonly string[];
  readonly metrics?: readonly string[];
}
/** The report of some metrics and counters; what is not named is CompileTime, ExecuteTime and the like. */
export function shortReport({ counters = [], metrics = [] }: ShortReportOptions = {}): string {
  return describe(metrics.length ? metrics : SHORT.metrics, counters.length ? counters : SHORT.counters);
}

const PROFILER = 'pt-xla-profiler: ';
/** More than one in two steps, once there have been more steps than `warmUp`. */
const TOO_FREQUENT: readonly { name: MetricName; warmUp: number }[] = [
  { name: 'CompileTime', warmUp: 10 },
  { name: 'TransferFromDeviceTime', warmUp: 0 },
];
const TOO_SLOW: readonly { name: MetricName; seconds: number; wayOut: string }[] = [
  {
    name: 'CompileTime',
    seconds: 300,
    wayOut: 'Write equal layers as one tx.scan, which compiles one of them; PT_XLA_DEBUG_LEVEL=1 names each program.',
  },
  {
    name: 'ExecuteTime',
    seconds: 30,
    wayOut: 'See that it runs on the device you mean (tsxla doctor); PT_XLA_DEBUG_LEVEL=2 names each program.',
  },
];

/** What the metrics say is wrong after so many steps, a line for each. */
export function analyse(steps: number = counter('MarkStep') ?? 0): string[] {
  const frequent = TOO_FREQUENT.flatMap(({ name, warmUp }) => {
    const total = findMetric(name)?.total ?? 0;
    if (steps <= warmUp || total / steps <= 0.5) return [];
    return [`${PROFILER}${name} too frequent: ${total} counts during ${steps} steps`];
  });
  const slow = TOO_SLOW.flatMap(({ name, seconds, wayOut }) => {
    const longest = findMetric(name)?.values.reduce((a, b) => Math.max(a, b)) ?? 0;
    if (longest <= seconds * 1e9) return [];
    return [`${PROFILER}${name} too slow: longest instance took ${time(longest)}. ${wayOut}`];
  });
  return [...frequent, ...slow];
}

/** With XLA_METRICS_FILE (a path, STDERR or STDOUT), adds the report of a step to it. */
export function saveMetrics(step: number): void {
  const file = env('XLA_METRICS_FILE');
  if (!file || !isFirstProcess()) return;
  const text = `[MetricsData; step=${step}]\n${report()}\n`;
  if (file === 'STDERR') process.stderr.write(text);
  else if (file === 'STDOUT') process.stdout.write(text);
  else appendTo('XLA_METRICS_FILE', file, text);
}
