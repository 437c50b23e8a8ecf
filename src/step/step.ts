// Steps: a function that describes what is computed, run as one program. What lives after it is what it returns, every
// outside tensor it changed, and the gradients that are still set; all else made inside is spent.

import { BoundedMap } from '../base/bounded.js';
import { markDescribed } from '../base/described.js';
import { envSeconds } from '../base/env.js';
import { ArgumentError, TooManyGraphsError } from '../base/errors.js';
import { insideBody } from '../ir/scope.js';
import { captureSource, entry, recordsCalls, type Source } from '../ir/source.js';
import { describeProgram, differenceOf, nearestOf } from '../observe/explain.js';
import type { CompileOptions, MemoryStats } from '../pjrt/index.js';
import type { DeviceType } from '../plugins/index.js';
import { chooseDevice } from '../runtime/device.js';
import { stepStarted } from '../runtime/evaluate.js';
import { capacityOf } from '../runtime/memory.js';
import { dropPrograms, moduleName, obtain, type ProgramKey, type Request } from '../runtime/program.js';
import { defaultClient } from '../runtime/value.js';
import { emitModule } from '../stablehlo/emitter.js';
import { checkOf } from '../tensor/arguments.js';
import { currentStep } from '../tensor/scope.js';
import type { Tensor } from '../tensor/tensor.js';
import { callUser } from '../tensor/trees.js';
import { checkClosures } from './closures.js';
import { call, layoutFor } from './launch.js';
import {
  checkOverlap,
  type Given,
  inputsOf,
  isStill,
  NONE,
  otherUse,
  type ProgramInput,
  readArguments,
  standIns,
  type Trace,
  trace,
} from './trace.js';

export interface StepOptions {
  /** What it is called in explanations, metrics and dumps; the function's own name unless told. */
  readonly name?: string;
  /** How many different programs it may become; one more is an error that says what differs. */
  readonly maxGraphs?: number;
  /** The longest time to wait for a compile. After it, an error; the compile goes on, and a later call finds its result. */
  readonly compilationTimeoutSeconds?: number;
  /** false: compiled anew, and kept for no other function or process. */
  readonly cache?: boolean;
  /** XLA's flags for this program alone. */
  readonly xlaFlags?: CompileOptions['xlaFlags'];
}

const [checkStep, checkCompile] = [entry(checkOf('step')), entry(checkOf('compile'))];

/** The programs a function has become, by their hashes; what they are is only kept where their number is limited. */
type Known = Map<string, ProgramKey | undefined>;

type Who = Pick<Request, 'group' | 'unnamed'> & { readonly name: string };
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

/** Inside another step, or in the body of a loop, it is part of that. */
const isPart = (): boolean => currentStep() !== undefined || insideBody();

/** There, nobody can wait for a promise. */
function inline<A extends unknown[], R>(name: string, fn: (...args: A) => R, ...args: A): Promise<R> {
  const result = callUser(name, fn, ...args);
  if (result === undefined) return Promise.resolve(result);
  throw new ArgumentError(
    `${name} is called inside another step, where nobody can wait for its result: call the function itself (${name}.fn of a compiled one)`,
  );
}

/** Programs of the steps of each name, for maxGraphs. */
const stepPrograms = new BoundedMap<string, Known>(1000);

/**
 * Runs fn and computes, in one program, what it returns, every tensor it changed in place, and the gradients it leaves. All
 * else made inside is spent. fn only describes: it is called each time, and reads nothing. Resolves when the program was
 * started.
 */
export function step<T>(fn: () => T, options: StepOptions = {}): Promise<T> {
  checkStep([fn, options]);
  const { name, unnamed } = nameOf(fn, options);
  if (isPart()) return inline(name, fn);
  const source = captureSource(step);
  const group = unnamed ? fn.toString() : name; // the function is made anew each time: its text tells it from others
  const known = stepPrograms.get(group) ?? new Map();
  stepPrograms.delete(group); // to the end: the one that was not called for longest goes first
  stepPrograms.set(group, known);
  return attempt(() => {
    checkClosures();
    return call(
      trace(name, fn, NONE, source),
      [],
      requestOf({ name, unnamed, group }, source, options, known),
      true,
    ) as Promise<T>;
  });
}

/** What is thrown at once, as a promise that rejects. */
function attempt<T>(run: () => Promise<T>): Promise<T> {
  try {
    return markDescribed(run());
  } catch (error) {
    return markDescribed(Promise.reject(error));
  }
}

export interface CompileFunctionOptions extends StepOptions {
  /** Traces at every call and compares: an error if the function describes something else than when it was traced. */
  readonly check?: boolean;
  /** For people from PyTorch/XLA: nothing can be run inside, so every graph is full. */
  readonly fullGraph?: boolean;
  /** The numbers of arguments that are part of the program: another value is another program. */
  readonly staticArguments?: readonly number[];
}

/** Where fn takes a tensor, the compiled function also takes a number. */
type Lax<T> = T extends Tensor
  ? Tensor | number | bigint
  : T extends readonly unknown[] | object
    ? { [K in keyof T]: Lax<T[K]> }
    : T;
export interface Compiled<A extends unknown[], R> {
  (...args: { [K in keyof A]: Lax<A[K]> }): Promise<R>;
  /** The function itself, to be used inside another step. */
  readonly fn: (...args: A) => R;
  /** How many programs it has become so far. */
  readonly programs: number;
  /** Its program for such arguments, as StableHLO, for a device that need not be here. Nothing is computed, arguments neither. */
  stablehlo(args: { [K in keyof A]: Lax<A[K]> }, options?: { readonly platform?: DeviceType }): string;
  /** The same, with what each of its inputs is; `names` are those of tensors it reaches from outside (namedParameters). */
  lower(args: { [K in keyof A]: Lax<A[K]> }, options?: LowerOptions): Lowered;
  /** Frees its programs, also where other functions have the same: the next call of any makes them again. */
  clearCache(): void;
  /** Compiles its program for such arguments now, so that the first call finds it. Nothing is computed, arguments neither. */
  prepare(args: { [K in keyof A]: Lax<A[K]> }): Promise<Prepared>;
}
export interface LowerOptions {
  readonly platform?: DeviceType;
  readonly names?: Iterable<readonly [name: string, tensor: Tensor]>;
  /** Every op says where in the user's code it comes from. */
  readonly locations?: boolean;
}
/** A program that need not be compiled here. */
export interface Lowered {
  readonly name: string;
  /** StableHLO. */
  readonly text: string;
  readonly inputs: readonly ProgramInput[];
}
/** A program before it runs. */
export interface Prepared {
  /** Equal for equal programs. */
  readonly hash: string;
  /** What compiling took, now or when the program was put into the cache on disk. */
  readonly seconds: number;
  readonly cached: boolean;
  /** Of the executable, about. */
  readonly bytes: number;
  /** Bytes on one device. */
  readonly memory: MemoryStats;
  /** All memory of that device; Infinity where it does not say. */
  readonly available: number;
}

/**
 * fn, compiled: it is called once for every kind of arguments (shapes, dtypes, strings, booleans), and later calls only start
 * the program. Numbers are inputs: another number is the same program. Tensors that fn reaches from outside are used, and
 * changed, as they are at each call. Resolves when the program was started.
 */
export function compile<A extends unknown[], R>(
  fn: (...args: A) => R,
  options: CompileFunctionOptions = {},
): Compiled<A, R> {
  checkCompile([fn, options]);
  const { name, unnamed } = nameOf(fn, options);
  const { check = false, staticArguments = [] } = options;
  const title = unnamed ? 'a compiled function' : name;
  const known: Known = new Map();
  const traces = new Map<string, Trace[]>();
  const find = (given: Given, source: Source | undefined): Trace => {
    const same = traces.get(given.signature) ?? [];
    const found = same.find(isStill);
    const isShallow = found && recordsCalls() && !found.recorded; // it knows no modules: it is traced once more
    if (found && !check && !isShallow) return found;
    const traced = trace(title, fn, standIns(given), source);
    stepStarted(); // or only lowered: either way what was traced does not wait to be computed
    if (found && check) checkSame(name, found, traced);
    if (found && !isShallow) return found;
    traces.set(given.signature, [...same.filter((t) => t !== found), traced]);
    return traced;
  };
  function compiled(...args: unknown[]): Promise<R> {
    if (isPart()) return inline(title, fn, ...(args as A));
    const source = captureSource(compiled);
    return attempt(() => {
      checkClosures();
      const given = readArguments(name, args, staticArguments);
      const traced = find(given, source);
      checkOverlap(name, traced, given.values);
      return call(
        traced,
        given.values,
        requestOf({ name, unnamed, group: known }, source, options, known),
        false,
      ) as Promise<R>;
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
        const request = requestOf({ name, unnamed, group: known }, source, options, known);
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

function checkSame(name: string, before: Trace, after: Trace): void {
  const request: Request = { cause: 'compile' };
  const difference = differenceOf(
    describeProgram(before.computation, request),
    describeProgram(after.computation, request),
  );
  const other = difference
    ? `${difference.what}: was ${difference.was}, now ${difference.now}`
    : otherUse(before, after);
  if (!other) return;
  const way = difference ? `${difference.at && `\n    at ${difference.at}`}\n    ${difference.fix}` : '';
  throw new ArgumentError(`${name}: it describes something else than when it was traced: ${other}${way}`);
}
