// Events reported by the runtime and the layers above it. Listeners (metrics, explanations, rules, debug output, a profiler)
// register a sink with some of these methods; the runtime does not know them. An event without a listener costs nothing.
import type { TypedArray } from '../base/dtype.js';
import type { Expr } from '../ir/expr.js';
import type { Client, LoadedExecutable } from '../pjrt/index.js';
import type { FoundPlugin } from '../plugins/index.js';
import type { Cell } from './cell.js';
import type { Computation, Program, ProgramKey, Request } from './program.js';
import type { Stored } from './sharded.js';

/** Events that are counted; events with a duration are spans. */
export type CountKind =
  | 'tensorCreated'
  | 'bufferCreated'
  | 'bufferFreed'
  | 'shardingMarked'
  | 'resharded'
  | 'programFound' // in the memory cache
  | 'diskCacheMiss'
  | 'diskCacheError';

/** Intervals on the host; compiles and runs have events of their own. */
export type SpanKind =
  | 'trace' // the function of a step describes its program
  | 'wait' // for earlier steps, before a step is started
  | 'gatherInputs'
  | 'placeResults'
  | 'upload'
  | 'read'
  | 'loadFromDisk'
  | 'loaderWait'; // a loop waits for a batch of a loader

/** A program that ran and whose results are to be checked. */
export interface Ran {
  readonly computation: Computation;
  /** For each parameter of the computation, a node with its value. */
  readonly given: readonly Expr[];
  /** The cells they come from, for names. */
  readonly cells?: readonly (Cell | undefined)[];
  readonly outputs: readonly Stored[];
  readonly request: Request;
  /** Each result in the user's words. `nameOf` names an input. */
  readonly resultName: (i: number, nameOf: (i: number) => string) => string;
}
/** Runs a program of these nodes, without checks, and copies their values to the host. */
export type Compute = (roots: readonly Expr[], name: string) => Promise<readonly TypedArray[]>;

/** Receives events. Times are those of performance.now(). Methods must not throw unless documented. */
export interface EventSink {
  /** Counts one event of this kind. */
  count(kind: CountKind): void;
  /** An operation of the public API was called. */
  op(name: string): void;
  /** A span has ended; transfers have `bytes`, a read also the request it answers. */
  span(kind: SpanKind, start: number, end: number, bytes?: number, request?: Request): void;
  /** A plugin is about to be started, which may take minutes if it waits for other hosts. */
  clientStarting(plugin: FoundPlugin): void;
  /** The plugin was started. */
  clientStarted(client: Client): void;
  /** A step was started. */
  stepStarted(): void;
  /** A new program, before it is compiled. May throw to refuse it. */
  programMissing(key: ProgramKey, computation: Computation, client: Client, request: Request): void;
  /** A program is about to be loaded from the disk cache or compiled. */
  compiling(program: Program, computation: Computation, text: string, request: Request): void;
  /** The program is in no cache: XLA compiles it now. */
  compilerStarted(program: Program, request: Request): void;
  /** The executable is ready. The first run waits for the returned promise. */
  compiled(program: Program, executable: LoadedExecutable, request: Request): Promise<void> | void;
  compileFailed(program: Program): void;
  /** A program is about to run. May throw to refuse it. */
  running(program: Program, request: Request): void;
  /** The run was handed to the device. */
  started(program: Program, request: Request): void;
  /** The device has finished the run. */
  ran(program: Program, request: Request, start: number, end: number): void;
  /** The executable of a program is freed. */
  dropped(program: Program): void;
  /** Checks the results of a run before they are used; an error discards them. Only called while `checksResults()`. */
  checkResults(ran: Ran, compute: Compute): Promise<Error | undefined>;
}

const sinks: Partial<EventSink>[] = [];
type Listener = (a?: unknown, b?: unknown, c?: unknown, d?: unknown, e?: unknown) => unknown;

/** All listeners of one event as one function. Parameters are spelled out so that a call allocates nothing. */
function joined(listeners: readonly Listener[]): Listener {
  const [first = () => undefined, ...others] = listeners;
  if (!others.length) return first;
  return (a, b, c, d, e) => {
    let pending: unknown;
    for (const listener of listeners) {
      const result = listener(a, b, c, d, e);
      if (result instanceof Promise) pending = pending ? firstOf(pending as Promise<unknown>, result) : result;
    }
    return pending;
  };
}
const firstOf = async (a: Promise<unknown>, b: Promise<unknown>): Promise<unknown> => {
  const [x, y] = await Promise.all([a, b]);
  return x ?? y;
};

const listenersOf = (name: keyof EventSink): Listener[] =>
  sinks.flatMap((sink) => (sink[name] ? [sink[name].bind(sink) as Listener] : []));
const NAMES = {
  count: true,
  op: true,
  span: true,
  clientStarting: true,
  clientStarted: true,
  stepStarted: true,
  programMissing: true,
  compiling: true,
  compilerStarted: true,
  compiled: true,
  compileFailed: true,
  running: true,
  started: true,
  ran: true,
  dropped: true,
  checkResults: true,
} satisfies Record<keyof EventSink, true>;
function connect(): EventSink {
  const names = Object.keys(NAMES) as (keyof EventSink)[];
  return Object.fromEntries(names.map((name) => [name, joined(listenersOf(name))])) as unknown as EventSink;
}

/** Report events here: every method calls all sinks, in the order they were added. */
export const events: EventSink = connect();

/** Adds a listener; disposing of the result removes it. */
export function addSink(sink: Partial<EventSink>): Disposable {
  sinks.push(sink);
  Object.assign(events, connect());
  return {
    [Symbol.dispose]() {
      const at = sinks.indexOf(sink);
      if (at >= 0) sinks.splice(at, 1);
      Object.assign(events, connect());
    },
  };
}

/** Whether results of programs are checked; if so, inputs are kept until then. */
export const checksResults = (): boolean => sinks.some((sink) => sink.checkResults);

/** Reports how long fn takes, even if it throws. */
export function timed<T>(kind: SpanKind, fn: () => T): T {
  const start = performance.now();
  try {
    return fn();
  } finally {
    events.span(kind, start, performance.now());
  }
}
