// Counters and metrics under PyTorch/XLA's names, and the runtime events that feed them. A counter is a number; a metric keeps
// a total and its latest samples.
import { envInteger } from '../base/env.js';
import { ArgumentError } from '../base/errors.js';
import type { CountKind, EventSink, SpanKind } from '../runtime/events.js';

/** The unit of a metric's values: nanoseconds, bytes, or plain numbers. */
export type Kind = 'counter' | 'time' | 'bytes' | 'value';

/** Every name (besides `xla::OP` for each operation), its kind and its meaning; docs/metrics.md shows this table. */
export const NAMES = {
  CachedCompile: ['counter', 'programs that were needed and in the memory cache'],
  CreateCompileHandles: ['counter', 'executables created: compiled, or loaded from the disk cache'],
  CreateDataHandles: ['counter', 'device buffers created by programs and transfers'],
  CreateXlaTensor: ['counter', 'tensors made'],
  DestroyCompileHandles: ['counter', 'executables freed'],
  DestroyDataHandles: ['counter', 'device buffers freed'],
  ExecuteComputation: ['counter', 'programs started on one device'],
  ExecuteReplicated: ['counter', 'programs started on several devices'],
  MarkStep: [
    'counter',
    'steps: each `sync()`, each call of a `step` or a `compile`d function, each `step()` of an optimizer outside of those',
  ],
  PersistentCacheDeserializeFailure: ['counter', 'executables in the disk cache that could not be loaded'],
  PersistentCacheHit: ['counter', 'executables loaded from the disk cache'],
  PersistentCacheMiss: ['counter', 'executables not found in the disk cache'],
  ReshardData: ['counter', 'arrays whose sharding was changed'],
  StableHloCompile: ['counter', "programs passed to XLA's compiler, all as StableHLO"],
  SyncTensorsToData: ['counter', 'host arrays moved to the device because a program needed them'],
  UncachedCompile: ['counter', 'programs that were needed and not in the memory cache'],
  XlaMarkSharding: ['counter', 'calls of `markSharding`'],

  CompileTime: ['time', 'one compile by XLA'],
  DeviceLockWait: ['time', 'waiting for earlier steps, before a step is started'],
  ExecuteReplicatedTime: ['time', 'one run on several devices, until the last is done'],
  ExecuteTime: ['time', 'one run on one device, until its results are ready (not until it is started)'],
  InboundData: ['bytes', 'one transfer from the device'],
  InputOutputAliasCount: ['value', 'inputs of a program whose memory its results take over'],
  LazyTracing: ['time', "one run of a step's function, which describes the program"],
  OutboundData: ['bytes', 'one transfer to the device'],
  PersistentCacheLoad: ['time', 'loading one executable from the disk cache'],
  RunCachedGraphInputData: ['time', 'gathering the inputs for one call of a `step` or a `compile`d function'],
  RunCachedGraphOutputData: ['time', 'handing out the results of one call of a `step` or a `compile`d function'],
  TensorsGraphSize: ['value', 'operations in a program'],
  TensorToData: ['time', 'creating one device buffer from host numbers'],
  TransferFromDeviceTime: ['time', 'one transfer from the device'],
  TransferToDeviceTime: ['time', 'one transfer to the device'],
} as const satisfies Readonly<Record<string, readonly [Kind, string]>>;

type NameOf<K extends Kind> = {
  [N in keyof typeof NAMES]: (typeof NAMES)[N][0] extends K ? N : never;
}[keyof typeof NAMES];
export type CounterName = NameOf<'counter'> | `xla::${string}`;
export type TimeName = NameOf<'time'>;
export type MetricName = TimeName | NameOf<'bytes'> | NameOf<'value'>;

class Metric {
  total = 0;
  accumulator = 0;
  readonly #size = envInteger('XLA_METRICS_SAMPLES', 1024, 1);
  readonly #times = new Float64Array(this.#size); // a ring buffer: the next sample overwrites the oldest
  readonly #values = new Float64Array(this.#size);

  constructor(readonly kind: Exclude<Kind, 'counter'>) {}

  add(value: number, at: number): void {
    const place = this.total++ % this.#size;
    this.accumulator += value;
    this.#times[place] = at;
    this.#values[place] = value;
  }

  /** The times of the values, by performance.now(). */
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

/** Bounded: names are those of NAMES and of operations, and a metric is a ring buffer. */
export const counters = new Map<string, { value: number }>();
export const metrics = new Map<string, Metric>();
/** The number of CompileTime samples for the first program of a function or line, which are expected. */
export const compiles = { first: 0 };

const kindOf = (name: string): Kind | undefined =>
  name.startsWith('xla::') ? 'counter' : (NAMES as Readonly<Record<string, readonly [Kind, string]>>)[name]?.[0];
const refuse = (name: string, what: string): never => {
  throw new ArgumentError(`metrics: ${name} is not ${what}: add it to NAMES in src/observe/registry.ts`);
};

/** Adds to a counter (0.01 us). */
export function count(name: CounterName, by = 1): void {
  const counter = counters.get(name);
  if (counter) counter.value += by;
  else if (kindOf(name) === 'counter') counters.set(name, { value: by });
  else refuse(name, 'a counter');
}

/** Adds a sample (0.05 us) in the metric's unit. `at` is a time of performance.now(). */
export function record(name: MetricName, value: number, at = performance.now()): void {
  let metric = metrics.get(name);
  if (!metric) {
    const kind = kindOf(name) ?? 'counter';
    metrics.set(name, (metric = kind === 'counter' ? refuse(name, 'a metric') : new Metric(kind)));
  }
  metric.add(value, at);
}

/** The metric of this name, if it has samples. */
export const findMetric = (name: string): Metric | undefined => metrics.get(name);

const COUNTERS: Readonly<Record<CountKind, CounterName>> = {
  tensorCreated: 'CreateXlaTensor',
  bufferCreated: 'CreateDataHandles',
  bufferFreed: 'DestroyDataHandles',
  shardingMarked: 'XlaMarkSharding',
  resharded: 'ReshardData',
  programFound: 'CachedCompile',
  diskCacheMiss: 'PersistentCacheMiss',
  diskCacheError: 'PersistentCacheDeserializeFailure',
};
const SPANS: Readonly<
  Record<SpanKind, { times: readonly TimeName[]; bytes?: NameOf<'bytes'>; counter?: CounterName }>
> = {
  trace: { times: ['LazyTracing'] },
  wait: { times: ['DeviceLockWait'] },
  gatherInputs: { times: ['RunCachedGraphInputData'] },
  placeResults: { times: ['RunCachedGraphOutputData'] },
  upload: { times: ['TensorToData', 'TransferToDeviceTime'], bytes: 'OutboundData', counter: 'SyncTensorsToData' },
  read: { times: ['TransferFromDeviceTime'], bytes: 'InboundData' },
  loadFromDisk: { times: ['PersistentCacheLoad'], counter: 'PersistentCacheHit' },
  loaderWait: { times: [] }, // only for profiles: PyTorch/XLA has no such metric
};
const opCounters = new Map<string, CounterName>(); // as many as there are operations

/** Counts and times the events of the runtime. */
export const recordEvents = {
  count: (kind) => count(COUNTERS[kind]),
  op(name) {
    let counter = opCounters.get(name);
    if (!counter) opCounters.set(name, (counter = `xla::${name}`));
    count(counter);
  },
  span(kind, start, end, size = 0) {
    const { times, bytes, counter } = SPANS[kind];
    for (const name of times) record(name, (end - start) * 1e6, end);
    if (bytes) record(bytes, size, end);
    if (counter) count(counter);
  },
  stepStarted: () => count('MarkStep'),
  compiling({ key, donated }) {
    count('UncachedCompile');
    record('TensorsGraphSize', key.nodeCount);
    record('InputOutputAliasCount', donated);
  },
  compilerStarted: () => count('StableHloCompile'),
  compiled({ tier, seconds }) {
    if (tier === 'miss') record('CompileTime', seconds * 1e9);
    count('CreateCompileHandles');
  },
  started: ({ layout }) => count(layout ? 'ExecuteReplicated' : 'ExecuteComputation'),
  ran: ({ layout }, _, start, end) =>
    record(layout ? 'ExecuteReplicatedTime' : 'ExecuteTime', (end - start) * 1e6, end),
  dropped: () => count('DestroyCompileHandles'),
} satisfies Partial<EventSink>;
