// XLACompiler: compiles models for sample inputs on request, and caches them.
import { inspect } from 'node:util';
import { ArgumentError } from '../base/errors.js';
import { sentenceOf } from '../base/thrown.js';
import { describe, isPlain } from '../base/tree.js';
import { Module } from '../nn/module.js';
import { type Plan, type PlanOptions, plan } from '../plan/plan.js';
import { DiskCache } from '../runtime/cache.js';
import { clear } from '../runtime/cache-store.js';
import { device } from '../runtime/device.js';
import { dropPrograms } from '../runtime/program.js';
import { deviceCount, meshOf } from '../spmd/config.js';
import { batchFor, parallelize } from '../spmd/parallel.js';
import { compile, type Prepared } from '../step/step.js';
import { noGrad } from '../tensor/autograd.js';
import { Tensor } from '../tensor/tensor.js';
import { type CacheStats, ModelCache } from './cache.js';
import { checkOptions } from './check.js';
import { type Configuration, configOf, type KernelPyTorchConfig, type TPUConfig } from './config.js';
import { type TPUBackendError, TPUCacheError, TPUValidationError, XLACompilationError } from './errors.js';
import { type Forward, ModelForm, tensorsIn } from './forward.js';
import { log, rounded, warnOnce } from './log.js';
import { named, naming } from './naming.js';

/** A model's compiled forward. Each call uses the current weights. It computes no gradients: train with tx.step. */
export interface CompiledModel<M extends Module = Module> {
  (...inputs: Parameters<M['forward']>): Promise<ReturnType<M['forward']>>;
  forward(...inputs: Parameters<M['forward']>): Promise<ReturnType<M['forward']>>;
  readonly model: M;
  /** The program for the sample inputs; undefined without them: programs are then compiled by the first call. */
  readonly program: Prepared | undefined;
}

export interface CompileModelOptions {
  /** false: always compile, and cache neither in memory nor on disk. Default: enableXlaCache. */
  readonly useCache?: boolean;
}

interface CacheTotals {
  /** The number of cached programs; equal models share one. */
  readonly cachedGraphs: number;
  /** The size of their executables. */
  readonly bytes: number;
}
export interface CompilationStats extends Pick<CacheStats, 'hits' | 'misses' | 'hitRate' | 'evictions'>, CacheTotals {
  readonly compilationCache: CacheStats & CacheTotals;
  /** Total compile time. */
  readonly seconds: number;
  readonly compilationMode: TPUConfig['compilationMode'];
  readonly cacheMaxSize: number;
}
/** The part of an entry that outlives the model: its program. */
interface ProgramFacts {
  hash: string;
  bytes: number;
}

/** Options of each level. 2 leaves XLA's default, which is 3. */
const LEVELS = [{ xla_backend_optimization_level: 0 }, { xla_backend_optimization_level: 1 }, {}] as const;

export class XLACompiler {
  readonly config: KernelPyTorchConfig;
  readonly #cache: ModelCache<{ readonly form: ModelForm; readonly made: Promise<CompiledModel> }, ProgramFacts>;
  #seconds = 0;

  constructor(config?: Configuration) {
    this.config = configOf(config);
    const { tpu } = this.config.hardware;
    this.#cache = new ModelCache(
      'compiled model',
      () => tpu.cacheMaxSize,
      (facts) => this.#drop(facts),
    );
  }

  /**
   * Compiles `forward` for sample inputs: a tensor, or the list of its arguments. The same model with inputs of the same kind
   * gives the same compiled model; another model never does, even with equal weights and name.
   */
  async compileModel<M extends Module>(
    model: M,
    sampleInputs?: unknown,
    options: CompileModelOptions = {},
  ): Promise<CompiledModel<M>> {
    const inputs = checkInputs('compileModel', model, sampleInputs);
    checkOptions('compileModel', ['useCache'], options);
    const { useCache = this.config.hardware.tpu.enableXlaCache } = options;
    if (!useCache) return this.#compile(model, inputs, false);
    const { compilationMode, xlaOptimizationLevel } = this.config.hardware.tpu;
    const key = `${inputs ? kindOf(inputs) : 'any inputs'}, ${compilationMode} ${xlaOptimizationLevel}`;
    const known = this.#cache.get(model, key, ({ form }) => form.isStill(model));
    if (known) return known.made as unknown as Promise<CompiledModel<M>>;
    const made = this.#compile(model, inputs, true);
    const facts: ProgramFacts = { hash: '', bytes: 0 };
    this.#cache.set(model, key, { form: new ModelForm(model), made: made as never }, facts);
    const isKept = () => [...this.#cache.facts()].includes(facts);
    made.then(
      ({ program }) => {
        Object.assign(facts, program && { hash: program.hash, bytes: program.bytes });
        if (!isKept()) this.#drop(facts); // evicted while it was compiled
      },
      () => isKept() && this.#cache.delete(model, key), // the next one tries again
    );
    return made;
  }
  /** Frees a program unless another entry uses it. */
  #drop({ hash }: ProgramFacts): void {
    if (![...this.#cache.facts()].some((facts) => facts.hash === hash)) dropPrograms([hash]);
  }

  async #compile<M extends Module>(
    model: M,
    inputs: readonly unknown[] | undefined,
    cache: boolean,
  ): Promise<CompiledModel<M>> {
    const { tpu } = this.config.hardware;
    const { compilationMode: mode, xlaOptimizationLevel: level } = tpu;
    const name = model.constructor.name;
    if (mode === 'xla' && !inputs)
      throw new TPUValidationError(
        `compileModel: compilationMode xla compiles ${name} for its sample inputs: pass some, or use torch_xla`,
      );
    if (device() === 'tpu' && level !== 2)
      warnOnce(`xlaOptimizationLevel ${level} has no effect on a TPU: its compiler has no optimization levels`);
    const placed = mode === 'pjit' ? await spread(model) : <T>(batch: T): T => batch;
    const run = compile(forwardOf(model), {
      name,
      cache,
      ...(mode === 'xla' && { maxGraphs: 1 }),
      ...(level !== 2 && { xlaFlags: LEVELS[level] }),
      compilationTimeoutSeconds: tpu.compilationTimeoutSeconds,
    });
    let program: Prepared | undefined;
    try {
      program = inputs && (await run.prepare(placed(inputs) as never));
    } catch (e) {
      log.error('model compilation failed', { model: name, why: sentenceOf(e) });
      throw failure(`compileModel: ${name}`, e, { model: name });
    }
    if (program) {
      const { seconds, cached: fromDisk } = program;
      if (!fromDisk) this.#seconds += seconds;
      log.info('model compiled', { model: name, seconds: rounded(seconds), fromDisk, cache });
    }
    let form = new ModelForm(model);
    const forward = async (...args: unknown[]) => {
      if (!form.isStill(model)) {
        run.clearCache(); // it was traced before the model changed
        form = new ModelForm(model);
      }
      try {
        return await run(...(placed(args) as never[]));
      } catch (e) {
        throw failure(name, e);
      }
    };
    return Object.assign(forward, { forward, model, program }) as unknown as CompiledModel<M>;
  }

  /**
   * Compiles the model for a TPU topology this machine need not have ('v6e-8'), and reports memory, time, and the largest
   * buffers. See tx.plan.
   */
  async compileAheadOfTime(
    model: Module,
    sampleInputs: unknown,
    topology: string,
    options: Pick<PlanOptions, 'fresh'> = {},
  ): Promise<Plan> {
    const inputs = checkInputs('compileAheadOfTime', model, sampleInputs);
    checkOptions('compileAheadOfTime', ['fresh'], options);
    if (!inputs)
      throw new TPUValidationError('compileAheadOfTime: sample inputs are needed: pass a tensor, or a list of them');
    const { compilationTimeoutSeconds: timeoutSeconds } = this.config.hardware.tpu;
    const names = [...model.namedParameters(), ...model.namedBuffers()];
    try {
      return await plan(forwardOf(model), inputs, topology, { ...options, timeoutSeconds, names });
    } catch (e) {
      throw failure(`compileAheadOfTime: ${model.constructor.name} for ${topology}`, e);
    }
  }

  [inspect.custom](): string {
    return `XLACompiler(cachedGraphs=${this.getCompilationStats().cachedGraphs})`;
  }

  getCompilationStats(): CompilationStats {
    const cache = this.#cache.stats();
    const { hits, misses, hitRate, evictions } = cache;
    const graphs = new Map([...this.#cache.facts()].map(({ hash, bytes }) => [hash, bytes]));
    graphs.delete(''); // not compiled yet
    const totals = { cachedGraphs: graphs.size, bytes: [...graphs.values()].reduce((sum, n) => sum + n, 0) };
    const { compilationMode, cacheMaxSize } = this.config.hardware.tpu;
    return {
      compilationCache: { ...cache, ...totals },
      ...{ hits, misses, hitRate, evictions },
      ...totals,
      seconds: this.#seconds,
      compilationMode,
      cacheMaxSize,
    };
  }

  /** Clears the cache and frees the programs. Compiled models in use compile again when called. */
  clearCache(): void {
    this.#cache.clear();
  }

  /** Also removes all programs, of all processes, from the disk cache. */
  async clearDiskCache(): Promise<void> {
    this.clearCache();
    const cache = DiskCache.current();
    if (!cache) return;
    if (cache.readOnly)
      throw new TPUCacheError(`the program cache in ${cache.folder} is read-only: nothing was removed`);
    await naming(`the program cache in ${cache.folder} cannot be cleared`, () => clear(cache.folder), TPUCacheError);
  }
}

/** Replicates the model on all devices, each with a part of the batch. Returns a function that splits inputs. */
async function spread(model: Module): Promise<<T>(batch: T) => T> {
  const devices = await deviceCount();
  if (devices === 1) {
    warnOnce('compilationMode pjit has no effect: there is one device');
    return (batch) => batch;
  }
  parallelize(model, meshOf({ data: -1 }, devices));
  return (batch) => batchFor(model, batch);
}

/** The model's forward without gradients. */
const forwardOf =
  (model: Module) =>
  (...args: unknown[]): unknown =>
    noGrad(() => (model.forward as Forward)(...args));

/** Errors of tracing are errors in the inputs or the model; others come from XLA. */
const failure = (what: string, e: unknown, details = {}): TPUBackendError =>
  named(what, e, e instanceof ArgumentError ? TPUValidationError : XLACompilationError, details);

/** The kind of an input: f32[32, 512]. Numbers are inputs too: their value does not change the program. */
function kindOf(x: unknown): string {
  if (x instanceof Tensor) return String(x.aval);
  if (typeof x === 'number') return 'number';
  if (Array.isArray(x)) return `[${x.map(kindOf).join(', ')}]`;
  if (isPlain(x))
    return `{${Object.entries(x)
      .map(([key, value]) => `${key}: ${kindOf(value)}`)
      .join(', ')}}`;
  return describe(x);
}

/** The arguments of forward, from a tensor or a list. */
function checkInputs(what: string, model: unknown, given: unknown): readonly unknown[] | undefined {
  if (!(model instanceof Module)) throw new TPUValidationError(`${what}: takes a model, got ${describe(model)}`);
  if (given === undefined) return undefined;
  const inputs = Array.isArray(given) ? given : [given];
  if (!tensorsIn(inputs).tensors.length)
    throw new TPUValidationError(
      `${what}: sampleInputs is ${describe(given)}: pass a tensor, or a list of forward's arguments`,
    );
  return inputs;
}
