// tx.step and tx.compile: a function that describes a computation, run as one program. What survives are its results, outside
// tensors it changed, and gradients that are still set; other tensors made inside lose their values.

import { BoundedMap } from '../base/bounded.js';
import { markDescribed } from '../base/described.js';
import { envSeconds } from '../base/env.js';
import { ArgumentError, TooManyGraphsError } from '../base/errors.js';
import { insideBody } from '../ir/scope.js';
import { captureSource, entry, recordsCalls, type Source } from '../ir/source.js';
import { differenceOf, nearestOf } from '../observe/explain.js';
import type { CompileOptions, MemoryStats } from '../pjrt/index.js';
import type { DeviceType } from '../plugins/index.js';
import { chooseDevice } from '../runtime/device.js';
import { resetDescribed } from '../runtime/evaluate.js';
import { capacityOf } from '../runtime/memory.js';
import { dropPrograms, moduleName, obtain, type ProgramKey, type Request } from '../runtime/program.js';
import { throwReported } from '../runtime/turn.js';
import { defaultClient } from '../runtime/value.js';
import { emitModule } from '../stablehlo/emitter.js';
import { checkOf } from '../tensor/arguments.js';
import { currentStep } from '../tensor/scope.js';
import type { Tensor } from '../tensor/tensor.js';
import { callUser } from '../tensor/trees.js';
import { checkAgain, isDue } from './check.js';
import { call, layoutFor } from './launch.js';
import {
  checkOverlap,
  type Given,
  inputsOf,
  isLost,
  isStill,
  NONE,
  type ProgramInput,
  readArguments,
  standIns,
  type Trace,
  trace,
} from './trace.js';

const internal = new WeakSet<object>();
/** Marks a function that the library compiles internally: its programs are not explained to the user. */
export function ofLibrary<F extends object>(fn: F): F {
  internal.add(fn);
  return fn;
}

export interface StepOptions {
  /** Its name in explanations, metrics and dumps. Default: the function's own name. */
  readonly name?: string;
  /** The most programs it may be compiled to. One more is an error that says what differs. */
  readonly maxGraphs?: number;
  /** The longest time to wait for a compile, then an error. The compile continues, and a later call finds its result. */
  readonly compilationTimeoutSeconds?: number;
  /** false: always compile, and do not share the program with other functions or processes. */
  readonly cache?: boolean;
  /** XLA flags for this program only. */
  readonly xlaFlags?: CompileOptions['xlaFlags'];
}

const [checkStep, checkCompile] = [entry(checkOf('step')), entry(checkOf('compile'))];

/** The programs of one function, by hash. Their keys are kept only if maxGraphs limits their number. */
type Known = Map<string, ProgramKey | undefined>;

/** The function that a request is for, as metrics and explanations name it. */
type Who = Pick<Request, 'group' | 'unnamed' | 'internal'> & { readonly name: string };
const nameOf = (fn: (...args: never[]) => unknown, { name }: StepOptions): { name: string; unnamed: boolean } => ({
  name: name ?? (fn.name || 'step'),
  unnamed: !name && !fn.name,
});
const requestOf = (who: Who, source: Source | undefined, o: StepOptions, known: Known): Request => ({
  cause: 'compile',
  ...who,
  source,
  ...(o.xlaFlags && { compileOptions: { xlaFlags: o.xlaFlags } }),
  cache: o.cache,
  compilationTimeoutSeconds: o.compilationTimeoutSeconds ?? envSeconds('TSXLA_COMPILE_TIMEOUT'),
  admit(program) {
    if (known.has(program.hash)) return;
    if (known.size >= (o.maxGraphs ?? Number.POSITIVE_INFINITY)) throw tooMany(who.name, known, program);
    known.set(program.hash, o.maxGraphs === undefined ? undefined : program);
  },
});

function tooMany(name: string, known: Known, program: ProgramKey): TooManyGraphsError {
  const nearest = nearestOf(
    program,
    [...known.values()].filter((p) => p !== undefined),
  );
  const difference = nearest && differenceOf(nearest, program);
  const said = difference
    ? `\nGot: ${difference.what}, ${difference.now}\nExpected: ${difference.what}, ${difference.was}` +
      `${difference.at && `\n    at ${difference.at}`}\n    ${difference.fix}`
    : '';
  return new TooManyGraphsError(
    `${name}: Maximum number of different graphs allowed per function exceeded: ${known.size}${said}`,
  );
}

/** The number of traces kept for one kind of arguments: modes, hooks and module fields may change back. */
const KEPT_TRACES = 16;

/** Whether the call is part of an enclosing step, or of a loop's body. */
const isPart = (): boolean => currentStep() !== undefined || insideBody();

/** Traces; if too few arguments were given, an error says so rather than what the function did with undefined. */
function traceGiven(title: string, fn: (...args: never[]) => unknown, given: Given, source: Source | undefined): Trace {
  const args = standIns(given);
  try {
    return trace(title, fn, args, source);
  } catch (error) {
    const count = args.inside.length;
    if (!(error instanceof TypeError) || count >= fn.length) throw error;
    throw new ArgumentError(
      `${title}: called with ${count} ${count === 1 ? 'argument' : 'arguments'}, the function has ${fn.length}: ${error.message}`,
      { cause: error },
    );
  }
}

/** Calls the function inside another step. A result is an error: its promise could not be awaited there. */
function inline<A extends unknown[], R>(name: string, fn: (...args: A) => R, ...args: A): Promise<R> {
  const result = callUser(name, fn, ...args);
  if (result === undefined) return Promise.resolve(result);
  throw new ArgumentError(
    `${name} is called inside another step, where its result cannot be awaited: call the function itself (${name}.fn of a compiled one)`,
  );
}

/** Programs of the steps by name, for maxGraphs. */
const stepPrograms = new BoundedMap<string, Known>(1000);

/**
 * Runs fn and computes, in one program, its results, every tensor it changed in place, and the gradients it set. Other tensors
 * made inside lose their values. fn only describes the computation: it is called every time, and must not read values. Resolves
 * when the program was started.
 */
export function step<T>(fn: (() => T) & Synchronous<T>, options: StepOptions = {}): Promise<T> {
  checkStep([fn, options]);
  const { name, unnamed } = nameOf(fn, options);
  if (isPart()) return inline(name, fn);
  const source = captureSource(step);
  const group = unnamed ? fn.toString() : name; // the function object is new each time: its source text identifies it
  const known = stepPrograms.get(group) ?? new Map();
  stepPrograms.delete(group); // moved to the end: the least recently called is evicted first
  stepPrograms.set(group, known);
  return attempt(() => {
    throwReported();
    return call(
      trace(name, fn, NONE, source),
      [],
      requestOf({ name, unnamed, group }, source, options, known),
      true,
    ) as Promise<T>;
  });
}

/** Turns an error thrown synchronously into a rejected promise. */
function attempt<T>(run: () => Promise<T>): Promise<T> {
  try {
    return markDescribed(run());
  } catch (error) {
    return markDescribed(Promise.reject(error));
  }
}

export interface CompileFunctionOptions extends StepOptions {
  /**
   * Whether calls are traced again and compared with the first trace. true: every call; a difference is an error. false: never.
   * Default: the second and third call of each kind of arguments; a difference is a finding of the rule `stale`.
   */
  readonly check?: boolean;
  /** For code ported from PyTorch/XLA; no effect: every graph is full, since nothing can run while it is traced. */
  readonly fullGraph?: boolean;
  /** Positions of arguments that are part of the program: another value compiles another program. */
  readonly staticArguments?: readonly number[];
}

/** Arguments of a compiled function: where fn takes a tensor, it also takes a number. */
type Lax<T> = T extends Tensor
  ? Tensor | number | bigint
  : T extends readonly unknown[] | object
    ? { [K in keyof T]: Lax<T[K]> }
    : T;
/** Rejects, by type, a function that returns a promise; `any` passes. */
type Synchronous<R> = 0 extends 1 & R
  ? unknown
  : [R] extends [never]
    ? unknown
    : R extends Promise<unknown>
      ? { readonly 'the function must not be async: it only describes; await the call instead': never }
      : unknown;
export interface Compiled<A extends unknown[], R> {
  (...args: { [K in keyof A]: Lax<A[K]> }): Promise<R>;
  /** The function itself, for use inside another step. */
  readonly fn: (...args: A) => R;
  /** The number of programs it was compiled to so far. */
  readonly programs: number;
  /** Its program for these arguments as StableHLO, also for a device this machine lacks. Computes nothing, not even the arguments. */
  stablehlo(args: { [K in keyof A]: Lax<A[K]> }, options?: { readonly platform?: DeviceType }): string;
  /** The same, with a description of each input; `names` names outside tensors it uses (as namedParameters does). */
  lower(args: { [K in keyof A]: Lax<A[K]> }, options?: LowerOptions): Lowered;
  /** Frees its programs, even if shared with other functions: the next call of any of them compiles again. */
  clearCache(): void;
  /** Compiles its program for these arguments now, ready for the first call. Computes nothing, not even the arguments. */
  prepare(args: { [K in keyof A]: Lax<A[K]> }): Promise<Prepared>;
}
export interface LowerOptions {
  readonly platform?: DeviceType;
  readonly names?: Iterable<readonly [name: string, tensor: Tensor]>;
  /** Adds to every op its location in the user's code. */
  readonly locations?: boolean;
}
/** A program as text, not compiled on this machine. */
export interface Lowered {
  readonly name: string;
  /** StableHLO. */
  readonly text: string;
  readonly inputs: readonly ProgramInput[];
}
/** A program that is compiled and has not run yet. */
export interface Prepared {
  /** Equal programs have equal hashes. */
  readonly hash: string;
  /** Compile time, now or when the program was written to the disk cache. */
  readonly seconds: number;
  readonly cached: boolean;
  /** The approximate size of the executable. */
  readonly bytes: number;
  /** Memory the program needs on one device, in bytes. */
  readonly memory: MemoryStats;
  /** Total memory of that device in bytes; Infinity if it does not report it. */
  readonly available: number;
}

/**
 * fn, compiled. The first call with each kind of arguments (shapes, dtypes, strings, booleans) traces fn and compiles a program;
 * later calls only start it. The second and third call trace fn again and compare (`check`). Numbers are inputs: another number
 * is the same program. Tensors from outside that fn uses or changes are read, and changed, at each call. Resolves when the
 * program was started.
 */
export function compile<A extends unknown[], R>(
  fn: ((...args: A) => R) & Synchronous<R>,
  options: CompileFunctionOptions = {},
): Compiled<A, R> {
  checkCompile([fn, options]);
  const { name, unnamed } = nameOf(fn, options);
  const { check, staticArguments = [] } = options;
  const title = unnamed ? 'a compiled function' : name;
  const known: Known = new Map();
  const who: Who = { name, unnamed, group: known, internal: internal.has(fn) };
  const traces = new Map<string, Trace[]>();
  const find = (given: Given, source: Source | undefined, isCall = false): Trace => {
    const same = traces.get(given.signature) ?? [];
    const found = same.find(isStill); // the modes, gradients and fields that it was traced with have not changed
    const isShallow = found && recordsCalls() && !found.recorded; // traced without recording modules: trace again
    const traceNow = () => {
      const traced = traceGiven(title, fn, given, source);
      resetDescribed(); // traced operations are not pending, even if only lowered
      return traced;
    };
    if (found && (isCall || check) && isDue(found, check)) checkAgain(title, found, traceNow, source, check === true);
    if (found && !isShallow) return found;
    const traced = traceNow();
    for (const [signature, list] of traces)
      traces.set(
        signature,
        list.filter((t) => t !== found && !isLost(t)),
      );
    traces.set(given.signature, [...(traces.get(given.signature) ?? []), traced].slice(-KEPT_TRACES));
    return traced;
  };
  function compiled(...args: unknown[]): Promise<R> {
    if (isPart()) return inline(title, fn, ...(args as A));
    const source = captureSource(compiled);
    return attempt(() => {
      throwReported();
      const given = readArguments(name, args, staticArguments);
      const traced = find(given, source, true);
      checkOverlap(name, traced, given.values);
      return call(traced, given.values, requestOf(who, source, options, known), false) as Promise<R>;
    });
  }
  return Object.defineProperties(compiled, {
    name: { value: name },
    fn: { value: fn },
    programs: { get: () => known.size },
    stablehlo: {
      value(args: A, options: { readonly platform?: DeviceType } = {}): string {
        return this.lower(args, options).text;
      },
    },
    lower: {
      value(args: readonly unknown[], options: LowerOptions = {}): Lowered {
        const { platform = chooseDevice().device, locations = false, names = [] } = options;
        const given = readArguments(name, args, staticArguments);
        const traced = find(given, captureSource(this.lower));
        const { graph, parameters, aliases } = traced.computation;
        const layout = layoutFor(traced, given.values);
        const text = emitModule(graph, parameters, { name: moduleName(name), aliases, platform, layout, locations });
        const known = new Map([...names].map(([n, t]) => [t.cell, n]));
        return { name: title, text, inputs: inputsOf(traced, known, layout) };
      },
    },
    clearCache: {
      value(): void {
        dropPrograms(known.keys());
        for (const { program } of [...traces.values()].flat()) if (program && !program.dropped) program.drop();
        known.clear();
        traces.clear();
      },
    },
    prepare: {
      async value(args: readonly unknown[]): Promise<Prepared> {
        const source = captureSource(this.prepare);
        const given = readArguments(name, args, staticArguments);
        const traced = find(given, source);
        const request = requestOf(who, source, options, known);
        const client = await defaultClient();
        const layout = layoutFor(traced, given.values);
        const { program, executable } = await obtain(
          client,
          { ...traced.computation, layout },
          request,
          traced.program,
        );
        traced.program = program;
        return {
          hash: program.hash,
          seconds: program.seconds,
          cached: program.tier === 'disk',
          bytes: program.bytes,
          memory: executable.memory(),
          available: capacityOf(client),
        };
      },
    },
  }) as unknown as Compiled<A, R>;
}
