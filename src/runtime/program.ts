// Programs and their cache in memory: found by their computation, compiled if new, and evicted when there are too many.
import { checkSeconds } from '../base/check.js';
import { envInteger } from '../base/env.js';
import { CompileTimeoutError } from '../base/errors.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { type Graph, hashOf, type Symbols, structure, symbolsOf } from '../ir/graph.js';
import { namesOperations } from '../ir/locations.js';
import { type Mesh, Sharding } from '../ir/mesh.js';
import type { Source } from '../ir/source.js';
import type { Buffer, Client, CompileOptions, ExecuteOptions, LoadedExecutable } from '../pjrt/index.js';
import { emitModule, type Layout } from '../stablehlo/emitter.js';
import { DiskCache, timedCompile } from './cache.js';
import { events } from './events.js';
import { keyOfLayout, resultShardings } from './layout.js';
import { checkFits, largestBuffers } from './memory.js';
import { spansProcesses, watchOthers } from './processes.js';
import { placesOf, ShardedArray, type Stored } from './sharded.js';
import { roomToRun } from './turn.js';

/** A computation: everything a program is made from. */
export interface Computation {
  readonly graph: Graph;
  /** The nodes of the graph whose values are given, in its order. */
  readonly parameters: readonly Expr[];
  /** Each parameter in the user's words: "argument 0", "the tensor made at train.ts:12". */
  readonly labels: () => readonly string[];
  /** For each parameter, the result that takes over its memory, or -1. */
  readonly aliases: readonly number[];
  readonly isGiven: (e: Expr) => boolean;
  /** The meshes that operations name. */
  readonly meshes?: readonly Mesh[];
  /** How it is split over several devices, once that is known. */
  readonly layout?: Layout | undefined;
}

/** Why a program is needed. `pending`: changes that were not computed yet when a compiled function was called. */
export type Cause = 'sync' | 'step' | 'compile' | 'pending' | 'loader' | 'read';

/** A request for a program: its origin and options. */
export interface Request {
  readonly cause: Cause;
  readonly name?: string | undefined;
  /** Identifies the function among others of the same name. */
  readonly group?: unknown;
  readonly unnamed?: boolean | undefined;
  /** A function of the library itself: not reported, since the user cannot change how often it is compiled or read. */
  readonly internal?: boolean | undefined;
  /** The line of the user's code that made the call. */
  readonly source?: Source | undefined;
  readonly compileOptions?: CompileOptions | undefined;
  /** false: always compile, and do not cache in memory or on disk. */
  readonly cache?: boolean | undefined;
  /** How long to wait for a compile, in seconds. */
  readonly compilationTimeoutSeconds?: number | undefined;
  /** Called with the program's key before it is used or compiled; may throw to refuse it. */
  readonly admit?: ((key: ProgramKey) => void) | undefined;
}

/** One run, with results that are being computed. */
export interface Run {
  readonly outputs: readonly Stored[];
  /** Resolves when the devices are done, rejects with the error that stopped one. */
  readonly done: Promise<void>;
}

/** The key of a program in memory. */
export interface ProgramKey {
  /** Everything that makes programs differ; `hash` is computed from these. */
  readonly words: Int32Array;
  readonly hash: string;
  /** The symbols that the words refer to: kept with them, so that equal graphs get equal words. */
  readonly symbols: Symbols;
  readonly nodeCount: number;
}

/** A computation as XLA's executable: being compiled, ready, or evicted. It counts its runs, for eviction and metrics. */
export class Program {
  readonly key: ProgramKey;
  readonly inputs: number;
  readonly outputs: number;
  /** The number of inputs whose memory a result takes over. */
  readonly donated: number;
  /** The platform its text was written for: the same graph gives another program on another platform. */
  readonly platform: string;
  readonly layout: Layout | undefined;
  /** The shardings of its results, once it is compiled. */
  results: readonly Sharding[] = [];
  executions = 0;
  /** The number of its last run. */
  lastRun = 0;
  /** Evicted from the cache: it cannot run any more. */
  dropped = false;
  /** The cache that had it, once it is loaded. */
  tier: 'disk' | 'miss' = 'miss';
  seconds = 0;
  bytes = 0;
  #executable: LoadedExecutable | undefined;
  /** The types of its results. */
  readonly #roots: readonly Aval[];
  readonly #compiling: Promise<LoadedExecutable>;
  #running: Promise<void> = Promise.resolve();

  constructor(key: ProgramKey, computation: Computation, client: Client, request: Request) {
    this.key = key;
    this.inputs = computation.parameters.length;
    this.outputs = computation.graph.roots.length;
    this.donated = computation.aliases.filter((a) => a >= 0).length;
    this.platform = client.platform;
    this.layout = computation.layout;
    this.#roots = computation.graph.roots.map((r) => r.aval);
    this.#compiling = this.#compile(client, computation, request);
    this.#compiling.catch(() => {}); // callers of compiled() get the rejection
  }

  get hash(): string {
    return this.key.hash;
  }

  /** If XLA chooses a sharding for a result that no axes of the mesh describe, compiles again with that result replicated. */
  async #compile(client: Client, computation: Computation, request: Request): Promise<LoadedExecutable> {
    const { graph, parameters, aliases, layout, meshes } = computation;
    const { name, compileOptions } = request;
    const { platform } = client;
    const emit = (layout: Layout | undefined, locations = namesOperations()) =>
      emitModule(graph, parameters, { name: moduleName(name), aliases, locations, platform, layout });
    const options = { ...devicesFor(layout), ...compileOptions };
    let executable = await this.#load(client, computation, emit(layout), options, request);
    if (layout) {
      const found = resultShardings(layout, executable, graph.roots, meshes);
      this.results = found.map((sharding) => sharding ?? Sharding.replicated(layout.mesh));
      if (found.includes(undefined)) {
        executable.dispose();
        executable = await this.#load(
          client,
          computation,
          emit({ ...layout, results: this.results }),
          options,
          request,
        );
      }
    }
    const memory = executable.knownMemory();
    if (memory)
      await checkFits(client, name ?? 'this', memory, () =>
        largestBuffers(client, emit(layout, true), options, computation.labels()),
      );
    this.#executable = executable;
    return executable;
  }

  /** Loads the executable of a text from the disk cache, or compiles it. */
  async #load(client: Client, computation: Computation, text: string, options: CompileOptions, request: Request) {
    events.compiling(this, computation, text, request);
    const { name = 'a program', cache: isCached = true } = request;
    const compile = () => {
      events.compilerStarted(this, request);
      counts.compiled++;
      return client.compile(text, options);
    };
    // Processes compile shared programs together: one that waits for another's cache file would block both.
    const isShared = spansProcesses(client, this.layout?.mesh.devices ?? []);
    if (isShared) void watchOthers(name, text).catch(() => {}); // fails only if the store is gone, and the run with it
    const cache = isShared || !isCached ? undefined : DiskCache.current();
    try {
      const source = { text, options, ...(request.name && { name }) };
      const { executable, tier, seconds } = await (cache
        ? cache.getOrCompile(client, source, compile)
        : timedCompile(compile));
      if (tier === 'disk') this.tier = 'disk';
      this.seconds = seconds;
      this.bytes = Math.max(executable.knownMemory()?.code ?? 0, text.length);
      await events.compiled(this, executable, request);
      return executable;
    } catch (error) {
      events.compileFailed(this);
      throw error;
    }
  }

  /** The executable, if it is compiled. */
  get ready(): LoadedExecutable | undefined {
    return this.#executable;
  }

  /** Waits for the compile, at most as long as the request allows. */
  async compiled({ name, compilationTimeoutSeconds: limit }: Request): Promise<LoadedExecutable> {
    if (!limit) return this.#compiling;
    checkSeconds('compile: compilationTimeoutSeconds', limit);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const why = `compiling ${name ?? 'a program'} (${this.key.nodeCount} operations) took more than ${limit} s`;
      const error = new CompileTimeoutError(
        `${why}: nothing was run or changed, and the compile continues: call again later, or raise compilationTimeoutSeconds`,
      );
      timer = setTimeout(() => reject(error), limit * 1e3);
    });
    return Promise.race([this.#compiling, late]).finally(() => clearTimeout(timer));
  }

  /** Runs the program. Returns immediately, while the results are computed. */
  run(executable: LoadedExecutable, args: readonly Stored[], keep: readonly number[], request: Request): Run {
    events.running(this, request);
    const start = performance.now();
    const execution = this.#execute(executable, args, keep.length ? { keep } : {});
    this.executions++;
    this.lastRun = ++counts.executed;
    events.started(this, request);
    this.#running = execution.done.then(
      () => events.ran(this, request, start, performance.now()),
      () => {},
    );
    return execution;
  }

  #execute(executable: LoadedExecutable, args: readonly Stored[], options: ExecuteOptions): Run {
    if (!this.layout) return executable.execute(args as readonly Buffer[], options);
    const { client, devices } = executable;
    const rows = devices.map((_, d) => args.map((a) => (a as ShardedArray).shards[d]!));
    const { outputs, done } = executable.executeSharded(rows, options);
    return {
      done,
      outputs: this.results.map(
        (sharding, i) =>
          new ShardedArray(
            client,
            this.#roots[i]!,
            sharding,
            outputs.map((row) => row[i]!),
          ),
      ),
    };
  }

  /** Frees the executable once its runs are done. */
  drop(): void {
    this.dropped = true;
    this.#compiling.then((e) => this.#running.then(() => e.dispose())).catch(() => {});
    events.dropped(this);
  }

  /** Resolves when it is compiled; rejects if that fails. */
  get built(): Promise<unknown> {
    return this.#compiling;
  }
}

/** Compile options for the devices of a split program; other programs use the client's first device. */
const devicesFor = (layout: Layout | undefined): CompileOptions =>
  layout ? { useSpmd: true, deviceIds: layout.mesh.devices } : {};

/** The numbers of programs compiled and executed so far. */
export const counts = { compiled: 0, executed: 0 };

/** The text of an MLIR symbol. */
export const moduleName = (name: string | undefined): string =>
  name?.replace(/\W+/g, '_').replace(/^(?=\d|$)/, '_') || 'main';

// ---- the cache in memory

const programs = new Map<string, Program[]>(); // by hash; keys are compared in full
const sameWords = (a: Int32Array, b: Int32Array): boolean => a.length === b.length && a.every((x, i) => x === b[i]);

/** The program for a computation: an existing one, or a new one that is being compiled. */
function programFor(client: Client, computation: Computation, request: Request): Program {
  const words = wordsOf(computation, request);
  const hash = hashOf(words);
  const known = programs.get(hash)?.find((p) => p.platform === client.platform && sameWords(p.key.words, words));
  if (known && request.cache !== false) {
    request.admit?.(known.key);
    events.count('programFound');
    return known;
  }
  const key = keyOf(computation, request, words, hash);
  events.programMissing(key, computation, client, request);
  request.admit?.(key);
  const program = new Program(key, computation, client, request);
  if (request.cache === false) return program;
  programs.set(hash, [...(programs.get(hash) ?? []), program]);
  program.built.then(makeRoom, () => forget(program)); // the next try compiles again
  return program;
}

/** Waits until there is room for a run, and returns a program that is ready: `known` if it still exists. */
export async function obtain(client: Client, computation: Computation, request: Request, known?: Program) {
  if (computation.layout) placesOf(client, computation.layout.mesh); // throws if devices are missing
  for (;;) {
    const isThere = known && !known.dropped && sameLayout(known.layout, computation.layout);
    if (isThere) events.count('programFound');
    const program = isThere ? known : programFor(client, computation, request);
    const executable = program.ready ?? (await program.compiled(request));
    await roomToRun(client); // not too far ahead of the device
    if (!program.dropped) return { program, executable }; // else it was evicted while we waited
  }
}

const sameLayout = (a: Layout | undefined, b: Layout | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && String(keyOfLayout(a)) === String(keyOfLayout(b)));

export function keyOf(
  computation: Computation,
  request: Request,
  words = wordsOf(computation, request),
  hash = hashOf(words),
): ProgramKey {
  const { graph, isGiven } = computation;
  return { words, hash, symbols: symbolsOf(graph, isGiven), nodeCount: graph.nodes.length };
}

/** Everything that makes programs differ: the graph, the donated arguments, the options. */
function wordsOf({ graph, isGiven, aliases, layout }: Computation, { compileOptions }: Request): Int32Array {
  const body = structure(graph, isGiven);
  const flags = compileOptions && Object.keys(compileOptions).length ? JSON.stringify(compileOptions) : '';
  const split = keyOfLayout(layout);
  const ends = [split.length, graph.nodes.length, graph.roots.length, aliases.length]; // where each part ends
  const rest = [...aliases, ...new TextEncoder().encode(flags), ...split, ...ends];
  const words = new Int32Array(body.length + rest.length);
  words.set(body);
  words.set(rest, body.length);
  return words;
}

/** Frees the programs with these hashes: they are compiled again when needed. */
export function dropPrograms(hashes: Iterable<string>): void {
  for (const hash of hashes) {
    for (const program of programs.get(hash) ?? []) program.drop();
    programs.delete(hash);
  }
}

function forget(program: Program): void {
  const rest = (programs.get(program.hash) ?? []).filter((p) => p !== program);
  if (rest.length) programs.set(program.hash, rest);
  else programs.delete(program.hash);
}

/** Evicts the least recently used programs while there are too many, or they are too large in total. */
function makeRoom(): void {
  const limits = { count: envInteger('XLA_COMPILATION_CACHE_SIZE', 2048, 1), bytes: memoryLimit() };
  const all = [...programs.values()].flat().sort((a, b) => a.lastRun - b.lastRun);
  let [n, size] = [all.length, all.reduce((sum, p) => sum + p.bytes, 0)];
  for (const program of all.filter((p) => p.ready && p.executions)) {
    // A program that has not run yet was compiled for a call that is still to come.
    if (n <= limits.count && size <= limits.bytes) return;
    forget(program);
    program.drop();
    n--;
    size -= program.bytes;
  }
}
/** The size limit of all programs in memory. */
const memoryLimit = (): number => envInteger('TSXLA_PROGRAM_MEMORY', 4 * 2 ** 30, 1);
export const programCount = (): number => [...programs.values()].flat().length;
