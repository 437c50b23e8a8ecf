// What the runtime, and what is built on it, reports while it works. Listeners (metrics, explanations, rules, debug output,
// a profiler) register a sink with some of these methods; nothing here knows them. An event without a listener does nothing.
import type { TypedArray } from '../base/dtype.js';
import type { Expr } from '../ir/expr.js';
import type { Client, LoadedExecutable } from '../pjrt/index.js';
import type { Cell } from './cell.js';
import type { Computation, Program, ProgramKey, Request } from './program.js';
import type { Stored } from './sharded.js';

/** Things that are counted; those with a duration are spans. */
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
  | 'loadFromDisk';

/** A program that ran, whose results are to be checked. */
export interface Ran {
  readonly computation: Computation;
  /** Of each of the computation's parameters, a node that has its value. */
  readonly given: readonly Expr[];
  /** Where those come from, for names. */
  readonly cells?: readonly (Cell | undefined)[];
  readonly outputs: readonly Stored[];
  readonly request: Request;
  /** What each result is to the user. `nameOf`: of an input. */
  readonly resultName: (i: number, nameOf: (i: number) => string) => string;
}
/** Runs a program of these nodes, checks nothing, and brings their values to the host. */
export type Compute = (roots: readonly Expr[], name: string) => Promise<readonly TypedArray[]>;

/** Times are those of performance.now(). Methods must not throw, except where it is said. */
export interface EventSink {
  /** One more of these. */
  count(kind: CountKind): void;
  /** An operation of the public API was called. */
  op(name: string): void;
  /** Something took this time; transfers have `bytes`, a read also the request it answers. */
  span(kind: SpanKind, start: number, end: number, bytes?: number, request?: Request): void;
  /** A step was started. */
  stepStarted(): void;
  /** A new program, before it is compiled. May throw to refuse it. */
  programMissing(key: ProgramKey, computation: Computation, client: Client, request: Request): void;
  /** A program is about to be loaded from the disk cache or compiled. */
  compiling(program: Program, computation: Computation, text: string, request: Request): void;
  /** No cache has it: XLA compiles it now. */
  compilerStarted(program: Program, request: Request): void;
  /** The executable is there. The first run waits for the promise. */
  compiled(program: Program, executable: LoadedExecutable, request: Request): Promise<void> | void;
  compileFailed(program: Program): void;
  /** A program is about to run. May throw to refuse it. */
  running(program: Program, request: Request): void;
  /** The device has been given the run. */
  started(program: Program, request: Request): void;
  /** The device has finished the run. */
  ran(program: Program, request: Request, start: number, end: number): void;
  /** The executable of a program is freed. */
  dropped(program: Program): void;
  /** Looks at the results of a run before anyone sees them; an error discards them. Only called while `checksResults()`. */
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

/** Report events here: every method reaches all sinks, in the order in which they were added. */
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

/** Whether results of programs are checked: then inputs are kept until they have been. */
export const checksResults = (): boolean => sinks.some((sink) => sink.checkResults);

/** Reports how long fn takes, also when it throws. */
export function timed<T>(kind: SpanKind, fn: () => T): T {
  const start = performance.now();
  try {
    return fn();
  } finally {
    events.span(kind, start, performance.now());
  }
}
