// What the runtime did, under PyTorch/XLA's names: counters count; metrics keep a total and their latest samples.
import { envInteger } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';

/** What a metric's values are: nanoseconds, bytes, or numbers of something. */
export type Kind = 'counter' | 'time' | 'bytes' | 'value';

/** Every name there is (and `xla::OP` for each operation), its kind and its meaning; docs/metrics.md shows this table. */
export const NAMES = {
  CachedCompile: ['counter', 'programs that were needed and in the memory cache'],
  CreateCompileHandles: ['counter', 'executables made: compiled, or loaded from the disk cache'],
  CreateDataHandles: ['counter', 'device buffers made: by programs and by transfers'],
  CreateXlaTensor: ['counter', 'tensors made'],
  DestroyCompileHandles: ['counter', 'executables freed'],
  DestroyDataHandles: ['counter', 'device buffers freed'],
  ExecuteComputation: ['counter', 'programs started on one device'],
  ExecuteReplicated: ['counter', 'programs started on several devices'],
  MarkStep: ['counter', 'steps: each `sync()`, and each call of a `step` or a `compile`d function'],
  PersistentCacheDeserializeFailure: ['counter', 'executables in the disk cache that could not be loaded'],
  PersistentCacheHit: ['counter', 'executables loaded from the disk cache'],
  PersistentCacheMiss: ['counter', 'executables looked for in the disk cache that were not there'],
  ReshardData: ['counter', 'arrays that were split over devices in another way'],
  StableHloCompile: ['counter', "programs given to XLA's compiler: all of them are StableHLO"],
  SyncTensorsToData: ['counter', 'arrays of the host that were brought to the device because a program needed them'],
  UncachedCompile: ['counter', 'programs that were needed and not in the memory cache'],
  XlaMarkSharding: ['counter', 'calls of `markSharding`'],

  CompileTime: ['time', 'one compile by XLA'],
  DeviceLockWait: ['time', 'waiting for earlier steps, before a step is started'],
  ExecuteReplicatedTime: ['time', 'one run on several devices, until the last is done'],
  ExecuteTime: ['time', 'one run on one device, until its results are there (not until it is started)'],
  InboundData: ['bytes', 'one transfer from the device'],
  InputOutputAliasCount: ['value', 'inputs of a program whose memory its results take over'],
  LazyTracing: ['time', "one run of a step's function, which describes the program"],
  OutboundData: ['bytes', 'one transfer to the device'],
  PersistentCacheLoad: ['time', 'loading one executable from the disk cache'],
  RunCachedGraphInputData: ['time', 'gathering the inputs for one call of a `step` or a `compile`d function'],
  RunCachedGraphOutputData: ['time', 'handing out the results of one call of a `step` or a `compile`d function'],
  TensorsGraphSize: ['value', 'operations in a program'],
  TensorToData: ['time', "making one device buffer of the host's numbers"],
  TransferFromDeviceTime: ['time', 'one transfer from the device'],
  TransferToDeviceTime: ['time', 'one transfer to the device'],
} as const satisfies Readonly<Record<string, readonly [Kind, string]>>;

type NameOf<K extends Kind> = {
  [N in keyof typeof NAMES]: (typeof NAMES)[N][0] extends K ? N : never;
}[keyof typeof NAMES];
export type CounterName = NameOf<'counter'> | `xla::${string}`;
export type TimeName = NameOf<'time'>;
export type MetricName = TimeName | NameOf<'bytes'> | NameOf<'value'>;

/** [seconds since 1970, value] */
export type Sample = readonly [time: number, value: number];
export interface MetricData {
  /** How many values were recorded. */
  readonly total: number;
  /** Their sum. */
  readonly accumulator: number;
  /** The latest of them, oldest first: as many as XLA_METRICS_SAMPLES says (1024). */
  readonly samples: readonly Sample[];
}

class Metric {
  total = 0;
  accumulator = 0;
  readonly #size = envInteger('XLA_METRICS_SAMPLES', 1024, 1);
  readonly #times = new Float64Array(this.#size); // a ring: the next sample takes the place of the oldest
  readonly #values = new Float64Array(this.#size);

  constructor(readonly kind: Exclude<Kind, 'counter'>) {}

  add(value: number, at: number): void {
    const place = this.total++ % this.#size;
    this.accumulator += value;
    this.#times[place] = at;
    this.#values[place] = value;
  }

  /** When the values came, by performance.now(). */
  get times(): Float64Array {
    return this.#oldestFirst(this.#times);
  }
  get values(): Float64Array {
    return this.#oldestFirst(this.#values);
  }

  #oldestFirst(ring: Float64Array): Float64Array {
    const length = Math.min(this.total, this.#size);
    return Float64Array.from({ length }, (_, i) => ring[(this.total - length + i) % this.#size]!);
  }
}

const counters = new Map<string, { value: number }>();
const metrics = new Map<string, Metric>();

const kindOf = (name: string): Kind | undefined =>
  name.startsWith('xla::') ? 'counter' : (NAMES as Readonly<Record<string, readonly [Kind, string]>>)[name]?.[0];
const refuse = (name: string, what: string): never => {
  throw new ArgumentError(`metrics: ${name} is not ${what}: add it to NAMES in src/observe/metrics.ts`);
};

/** Adds to a counter (0.01 us). */
export function count(name: CounterName, by = 1): void {
  const counter = counters.get(name);
  if (counter) counter.value += by;
  else if (kindOf(name) === 'counter') counters.set(name, { value: by });
  else refuse(name, 'a counter');
}

/** Adds a sample (0.05 us): nanoseconds, bytes or a number, as the metric's kind says. `at` is a time of performance.now(). */
export function record(name: MetricName, value: number, at = performance.now()): void {
  let metric = metrics.get(name);
  if (!metric) {
    const kind = kindOf(name) ?? 'counter';
    metrics.set(name, (metric = kind === 'counter' ? refuse(name, 'a metric') : new Metric(kind)));
  }
  metric.add(value, at);
}

/** Records how long fn takes, or the promise it gives; also when that fails. */
export function timed<T>(name: TimeName, fn: () => T): T {
  const start = performance.now();
  const end = () => record(name, (performance.now() - start) * 1e6);
  let result: T;
  try {
    result = fn();
  } catch (e) {
    end();
    throw e;
  }
  if (result instanceof Promise) return result.finally(end) as T;
  end();
  return result;
}

/** The value of a counter; undefined if nothing was counted. */
export const counter = (name: string): number | undefined => counters.get(name)?.value || undefined;

/** The counters that have counted something, sorted. */
export const counterNames = (): string[] => [...counters.keys()].filter(counter).sort();

/** What was recorded under a name; undefined if nothing was. */
export function metricData(name: string): MetricData | undefined {
  const metric = metrics.get(name);
  if (!metric) return undefined;
  const { total, accumulator, times, values } = metric;
  const seconds = (time: number) => (performance.timeOrigin + time) / 1e3;
  return { total, accumulator, samples: Array.from(values, (value, i) => [seconds(times[i]!), value]) };
}
/** The same for reports. */
export const findMetric = (name: string): Metric | undefined => metrics.get(name);

/** The metrics that have samples, sorted. */
export const metricNames = (): string[] => [...metrics.keys()].sort();

export const clearCounters = (): void => counters.clear();
export const clearMetrics = (): void => metrics.clear();
export function clearAll(): void {
  clearCounters();
  clearMetrics();
}

/** Operations that ran on the host instead of the device: none ever, an operation that cannot be compiled is an error. */
export const executedFallbackOps = (): string[] => [];
