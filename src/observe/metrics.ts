// tx.metrics: the runtime's counters and metrics, and a report in PyTorch/XLA's format. docs/metrics.md is the guide.
import { env } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';
import { duration } from '../base/format.js';
import { compiles, counters, findMetric, metrics } from './registry.js';

/** [seconds since 1970, value] */
export type Sample = readonly [time: number, value: number];
export interface MetricData {
  /** The number of values recorded. */
  readonly total: number;
  /** Their sum. */
  readonly accumulator: number;
  /** The latest values, oldest first. XLA_METRICS_SAMPLES sets their number. Default: 1024. */
  readonly samples: readonly Sample[];
}

/** The value of a counter; undefined if it is 0. */
export const counter = (name: string): number | undefined => counters.get(name)?.value || undefined;

/** The names of the counters above 0, sorted. */
export const counterNames = (): string[] => [...counters.keys()].filter(counter).sort();

/** The data of a metric; undefined if nothing was recorded. */
export function metricData(name: string): MetricData | undefined {
  const metric = findMetric(name);
  if (!metric) return undefined;
  const { total, accumulator, times, values } = metric;
  const seconds = (time: number) => (performance.timeOrigin + time) / 1e3;
  return { total, accumulator, samples: Array.from(values, (value, i) => [seconds(times[i]!), value]) };
}

/** The names of the metrics with samples, sorted. */
export const metricNames = (): string[] => [...metrics.keys()].sort();

export const clearCounters = (): void => counters.clear();
export function clearMetrics(): void {
  metrics.clear();
  compiles.first = 0;
}
export function clearAll(): void {
  clearCounters();
  clearMetrics();
}

/** Operations that ran on the host instead of the device. Always empty: an operation that cannot be compiled is an error. */
export const executedFallbackOps = (): string[] => [];

// ---- as text

const BYTE_UNITS = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];
/** 1536 is "1.50KB". */
function bytes(n: number): string {
  let unit = 0;
  for (; n >= 1024 && unit < BYTE_UNITS.length - 1; unit++) n /= 1024;
  return n.toFixed(2) + BYTE_UNITS[unit];
}

const SHOW = { time: duration, bytes, value: (n: number): string => n.toFixed(2) };

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
    `XLA_METRICS_PERCENTILES=${text} is not valid: use numbers between 0 and 1, as in ${DEFAULT_PERCENTILES}`,
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

/** All metrics and counters, in PyTorch/XLA's format. */
export const report = (): string => describe(metricNames(), counterNames());

const SHORT = {
  counters: ['CachedCompile', 'MarkStep'],
  metrics: ['CompileTime', 'ExecuteTime', 'ExecuteReplicatedTime', 'TransferToDeviceTime', 'TransferFromDeviceTime'],
};
export interface ShortReportOptions {
  readonly counters?: readonly string[];
  readonly metrics?: readonly string[];
}
/** A report of some metrics and counters. Default: CompileTime, ExecuteTime and similar ones. */
export function shortReport({ counters = [], metrics = [] }: ShortReportOptions = {}): string {
  return describe(metrics.length ? metrics : SHORT.metrics, counters.length ? counters : SHORT.counters);
}
