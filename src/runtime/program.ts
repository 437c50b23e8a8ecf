// Programs: found by what they compute, compiled when they are new, and kept while there is room.
import { checkSeconds } from '../base/check.js';
import { envFlag, envInteger } from '../base/env.js';
import { CompileTimeoutError } from '../base/errors.js';
import { bytes } from '../base/format.js';
import type { Aval } from '../ir/aval.js';
import type { Expr } from '../ir/expr.js';
import { type Graph, hashOf, structure } from '../ir/graph.js';
import { type Mesh, Sharding } from '../ir/mesh.js';
import type { Source } from '../ir/source.js';
import { type Cause, printCompilation, printExecution, printPostCompilation } from '../observe/debug.js';
import { GraphDump } from '../observe/dump.js';
import { describeProgram, explainCompile, type ProgramFacts } from '../observe/explain.js';
import { count, record } from '../observe/metrics.js';
import { showProgress } from '../observe/progress.js';
import { checkProgram } from '../observe/rules-compile.js';
import { noteEnd, noteRun } from '../observe/rules-loop.js';
import type { Buffer, Client, CompileOptions, ExecuteOptions, LoadedExecutable } from '../pjrt/index.js';
import { livenessOf, named } from '../plan/hlo/liveness.js';
import { emitModule, type Layout } from '../stablehlo/emitter.js';
import { DiskCache } from './cache.js';
import { keyOfLayout, resultShardings } from './layout.js';
import { checkFits } from './memory.js';
import { spansProcesses, watchOthers } from './processes.js';
import { placesOf, ShardedArray, type Stored } from './sharded.js';
import { roomToRun } from './turn.js';

/** What is to be computed: everything a program is made from. */
export interface Plan {
  readonly graph: Graph;
  /** The nodes of the graph whose values are given, in its order. */
  readonly parameters: readonly Expr[];
  /** What each parameter is to the user: "argument 0", "the tensor made at train.ts:12". */
  readonly labels: () => readonly string[];
  /** For each parameter, the result that takes over its memory, or -1. */
  readonly aliases: readonly number[];
  readonly isGiven: (e: Expr) => boolean;
  /** Those that operations name. */
  readonly meshes?: readonly Mesh[];
  /** How it is split over several devices, once that is known. */
  readonly layout?: Layout | undefined;
}

/** Who wants it, and how. */
export interface Request {
  readonly cause: Cause;
  readonly name?: string | undefined;
  /** What tells the function from others of the same name; a function without a name of its own is told by its place. */
  readonly group?: unknown;
  readonly unnamed?: boolean | undefined;
  /** Where the user's code called. */
  readonly source?: Source | undefined;
  readonly compileOptions?: CompileOptions | undefined;
  /** false: compiled here and now, and kept for nobody else, in memory or on disk. */
  readonly cache?: boolean | undefined;
  /** How long to wait for a compile, in seconds. */
  readonly compilationTimeoutSeconds?: number | undefined;
  /** Called with the program that was found, or before it is compiled: to refuse it. */
  readonly admit?: ((program: Described) => void) | undefined;
}

/** One run: results that are being made. */
export interface Run {
  readonly outputs: readonly Stored[];
  /** Resolves when the devices are done, rejects with the error that stopped one. */
  readonly done: Promise<void>;
}

/** A program as others are compared with it. */
export interface Described {
  readonly key: Int32Array;
  readonly hash: string;
  readonly facts: ProgramFacts;
}

export class Program implements Described {
  readonly key: Int32Array;
  readonly hash: string;
  readonly facts: ProgramFacts;
  readonly inputs: number;
  readonly outputs: number;
  /** What its text was written for: the same graph is another program elsewhere. */
  readonly platform: string;
  readonly layout: Layout | undefined;
  /** How its results lie on several devices, once it is compiled. */
  results: readonly Sharding[] = [];
  executions = 0;
  /** When it ran last: the number of that run. */
  lastRun = 0;
  /** It made room for others: it cannot run any more. */
  dropped = false;
  /** Which cache had it, once it is there. */
  tier: 'disk' | 'miss' = 'miss';
  seconds = 0;
  bytes = 0;
  #executable: LoadedExecutable | undefined;
  #explained: ReturnType<typeof explainCompile> | undefined;
  readonly #dump: GraphDump | undefined;
  /** The types of its results. */
  readonly #roots: readonly Aval[];
  readonly #compiling: Promise<LoadedExecutable>;
  #running: Promise<void> = Promise.resolve();

  constructor(described: Described, plan: Plan, client: Client, request: Request, told = false) {
    this.key = described.key;
    this.hash = described.hash;
    this.facts = described.facts;
    this.inputs = plan.parameters.length;
    this.outputs = plan.graph.roots.length;
    this.platform = client.platform;
    this.layout = plan.layout;
    this.#roots = plan.graph.roots.map((r) => r.aval);
    const emit = (layout: Layout | undefined, locations = envFlag('XLA_HLO_DEBUG')) =>
      emitModule(plan.graph, plan.parameters, {
        name: moduleName(request.name),
        aliases: plan.aliases,
        locations,
        platform: client.platform,
        layout,
      });
    const text = emit(plan.layout);
    this.#dump = GraphDump.of(plan, text, this.hash);
    this.#compiling = this.#compile(client, text, request, told).then((e) =>
      this.#settle(e, client, plan, emit, request),
    );
    this.#compiling.catch(() => {}); // whoever asked for it hears of it
    this.facts.settle(); // while XLA compiles
  }

  async #compile(client: Client, text: string, request: Request, told: boolean): Promise<LoadedExecutable> {
    const { name } = request;
    const all = { ...devicesFor(this.layout), ...request.compileOptions };
    this.#explained ??= explainCompile(this, request); // once, where it is compiled twice
    const explained = this.#explained;
    printCompilation(() => ({ ...this.#analysis(request), notes: explained.lines() }));
    this.#dump?.save(request);
    count('UncachedCompile');
    record('TensorsGraphSize', this.facts.nodeCount);
    record('InputOutputAliasCount', this.facts.aliases.filter((a) => a >= 0).length);
    const compile = () => {
      if (!told) explained.tell(); // not when the disk has it
      counts.compiled++;
      count('StableHloCompile');
      return client.compile(text, all);
    };
    const start = performance.now();
    const progress = showProgress(name ?? 'a program', bytes(text.length));
    // What several processes run, they compile together: one that waits for another's file would hold up both.
    const isShared = spansProcesses(client, this.layout?.mesh.devices ?? []);
    if (isShared) void watchOthers(name ?? 'a program', text).catch(() => {}); // the store is gone: so is the run
    const cache = isShared || request.cache === false ? undefined : DiskCache.current();
    const building = cache
      ? cache.getOrCompile(client, { text, options: all, ...(name && { name }) }, compile)
      : compile().then((executable) => ({
          executable,
          tier: 'compiled' as const,
          seconds: (performance.now() - start) / 1e3,
        }));
    const { executable, tier, seconds } = await building.finally(() => progress.end());
    if (tier === 'disk') this.tier = 'disk';
    this.seconds = seconds;
    if (this.tier === 'miss') record('CompileTime', this.seconds * 1e9);
    count('CreateCompileHandles');
    const memory = executable.memory();
    this.bytes = Math.max(memory.code, text.length);
    printPostCompilation(() => ({ hash: this.hash, memory, cache: this.tier, compileSeconds: this.seconds }));
    await this.#dump?.compiled(executable, request);
    return executable;
  }

  /** Finds out how the results lie. Where XLA chose what no axes of the mesh describe, every device is to have the whole. */
  async #settle(
    executable: LoadedExecutable,
    client: Client,
    plan: Plan,
    emit: (layout: Layout | undefined, locations?: boolean) => string,
    request: Request,
  ): Promise<LoadedExecutable> {
    const { layout, graph, meshes } = plan;
    if (layout) {
      const { mesh } = layout;
      const found = resultShardings(layout, executable, graph.roots, meshes);
      this.results = found.map((sharding) => sharding ?? Sharding.replicated(mesh));
      if (found.includes(undefined)) {
        executable.dispose();
        executable = await this.#compile(client, emit({ ...layout, results: this.results }), request, true);
      }
    }
    await checkFits(client, request.name ?? 'this', executable.memory(), () =>
      largestOf(client, emit(layout, true), { ...devicesFor(layout), ...request.compileOptions }, plan.labels()),
    );
    this.#executable = executable;
    this.#explained = undefined; // it holds on to the request
    return executable;
  }

  /** The executable if it is there: then nobody has to wait. */
  get ready(): LoadedExecutable | undefined {
    return this.#executable;
  }

  /** Waits for the compile, but no longer than the request says. */
  async compiled({ name, compilationTimeoutSeconds: limit }: Request): Promise<LoadedExecutable> {
    if (!limit) return this.#compiling;
    checkSeconds('compile: compilationTimeoutSeconds', limit);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const why = `compiling ${name ?? 'a program'} (${this.facts.nodeCount} operations) took more than ${limit} s`;
      const error = new CompileTimeoutError(
        `${why}: nothing was run or changed, and it goes on: call again later, or raise compilationTimeoutSeconds`,
      );
      timer = setTimeout(() => reject(error), limit * 1e3);
    });
    return Promise.race([this.#compiling, late]).finally(() => clearTimeout(timer));
  }

  /** Runs it. Returns at once: the results are being made. */
  run(executable: LoadedExecutable, args: readonly Stored[], keep: readonly number[], request: Request): Run {
    printExecution(() => this.#analysis(request));
    if (this.executions) this.#dump?.save(request); // the first time, it was written for the compile
    noteRun(this, request);
    const start = performance.now();
    const execution = this.#execute(executable, args, keep.length ? { keep } : {});
    this.executions++;
    this.lastRun = ++counts.executed;
    count(this.layout ? 'ExecuteReplicated' : 'ExecuteComputation');
    this.#running = execution.done.then(
      () => {
        record(this.layout ? 'ExecuteReplicatedTime' : 'ExecuteTime', (performance.now() - start) * 1e6);
        noteEnd(request, start);
      },
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

  /** Frees the executable, once it has run. */
  drop(): void {
    this.dropped = true;
    this.#compiling.then((e) => this.#running.then(() => e.dispose())).catch(() => {});
    count('DestroyCompileHandles');
  }

  /** Rejects if it cannot be compiled. */
  get built(): Promise<unknown> {
    return this.#compiling;
  }

  #analysis({ cause, name, source }: Request) {
    return { cause, name, hash: this.hash, inputs: this.inputs, outputs: this.outputs, frames: source?.frames ?? [] };
  }
}

/** The ten largest buffers of a program, by the names and lines of the user's: it is compiled again, with those in it. */
async function largestOf(client: Client, text: string, options: CompileOptions, labels: readonly string[]) {
  using executable = await client.compile(text, options);
  const { tenLargest } = livenessOf(await executable.optimizedModule());
  return tenLargest.map((buffer) => {
    const { bytes: size, shape, what, source } = named(buffer, labels);
    return `${bytes(size)} ${shape} ${what}${source ? ` at ${source}` : ''}`;
  });
}

/** The devices of a program that is split; of another, the client's first. */
const devicesFor = (layout: Layout | undefined): CompileOptions =>
  layout ? { useSpmd: true, deviceIds: layout.mesh.devices } : {};

/** How many programs were compiled and executed so far. */
export const counts = { compiled: 0, executed: 0 };

/** The text of an MLIR symbol. */
export const moduleName = (name: string | undefined): string =>
  name?.replace(/\W+/g, '_').replace(/^(?=\d|$)/, '_') || 'main';

// ---- the cache in memory

const programs = new Map<string, Program[]>(); // by hash; the key itself decides
const sameKey = (a: Int32Array, b: Int32Array): boolean => a.length === b.length && a.every((x, i) => x === b[i]);

/** The program for a plan: a known one, or a new one that is being compiled. */
export function programFor(client: Client, plan: Plan, request: Request): Program {
  const key = keyOf(plan, request.compileOptions);
  const hash = hashOf(key);
  const known = programs.get(hash)?.find((p) => p.platform === client.platform && sameKey(p.key, key));
  if (known && request.cache !== false) {
    request.admit?.(known);
    count('CachedCompile');
    return known;
  }
  const described = describePlan(plan, request, key);
  const told = checkProgram(described, plan, client, request);
  request.admit?.(described);
  const program = new Program(described, plan, client, request, told);
  if (request.cache === false) return program;
  programs.set(hash, [...(programs.get(hash) ?? []), program]);
  program.built.then(makeRoom, () => forget(program)); // the next try compiles again
  return program;
}

/** A program that is ready to run, when there is room for a run: `known` if it is still there. */
export async function obtain(client: Client, plan: Plan, request: Request, known?: Program) {
  if (plan.layout) placesOf(client, plan.layout.mesh); // they are there
  for (;;) {
    const isThere = known && !known.dropped && sameLayout(known.layout, plan.layout);
    if (isThere) count('CachedCompile');
    const program = isThere ? known : programFor(client, plan, request);
    const executable = program.ready ?? (await program.compiled(request));
    await roomToRun(client);
    if (!program.dropped) return { program, executable }; // else it made room for others while we waited
  }
}

const sameLayout = (a: Layout | undefined, b: Layout | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && String(keyOfLayout(a)) === String(keyOfLayout(b)));

export const describePlan = (plan: Plan, request: Request, key = keyOf(plan, request.compileOptions)): Described => ({
  key,
  hash: hashOf(key),
  facts: describeProgram(plan, request),
});

/** Everything that makes it another program: the graph, the donated arguments, the options. */
function keyOf({ graph, isGiven, aliases, layout }: Plan, options: CompileOptions | undefined): Int32Array {
  const body = structure(graph, isGiven);
  const flags = options && Object.keys(options).length ? new TextEncoder().encode(JSON.stringify(options)) : [];
  const split = keyOfLayout(layout);
  const rest = [...aliases, ...flags, ...split, split.length, graph.nodes.length, graph.roots.length, aliases.length]; // where each part ends
  const key = new Int32Array(body.length + rest.length);
  key.set(body);
  key.set(rest, body.length);
  return key;
}

/** Frees the programs with these hashes: whoever has one makes it again when it is needed. */
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

/** Drops the programs that were not used for longest while there are too many, or too large ones. */
function makeRoom(): void {
  const limits = { count: envInteger('XLA_COMPILATION_CACHE_SIZE', 2048, 1), bytes: memoryLimit() };
  const all = [...programs.values()].flat().sort((a, b) => a.lastRun - b.lastRun);
  let [n, size] = [all.length, all.reduce((sum, p) => sum + p.bytes, 0)];
  for (const program of all.filter((p) => p.ready && p.executions)) {
    if (n <= limits.count && size <= limits.bytes) return;
    forget(program);
    program.drop();
    n--;
    size -= program.bytes;
  }
}
/** Of all programs in memory. */
const memoryLimit = (): number => envInteger('TSXLA_PROGRAM_MEMORY', 4 * 2 ** 30, 1);
export const programCount = (): number => [...programs.values()].flat().length;
