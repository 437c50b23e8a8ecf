// Models as programs: compiled when asked, for the inputs that are shown, and remembered.
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

/** A model's forward, compiled. It uses the weights as they are at each call; gradients are not kept: train in tx.step. */
export interface CompiledModel<M extends Module = Module> {
  (...inputs: Parameters<M['forward']>): Promise<ReturnType<M['forward']>>;
  forward(...inputs: Parameters<M['forward']>): Promise<ReturnType<M['forward']>>;
  readonly model: M;
  /** Of the program for the sample inputs; undefined without those: programs are made when it is called. */
  readonly program: Prepared | undefined;
}

export interface CompileModelOptions {
  /** false: compiled anew, and not remembered, in memory or on disk; enableXlaCache unless told. */
  readonly useCache?: boolean;
}

interface CacheTotals {
  /** Programs that are remembered: equal models share theirs. */
  readonly cachedGraphs: number;
  /** Of their executables. */
  readonly bytes: number;
}
export interface CompilationStats extends Pick<CacheStats, 'hits' | 'misses' | 'hitRate' | 'evictions'>, CacheTotals {
  readonly compilationCache: CacheStats & CacheTotals;
  /** That compiling took, all in all. */
  readonly seconds: number;
  readonly compilationMode: TPUConfig['compilationMode'];
  readonly cacheMaxSize: number;
}
/** What outlives a model: of which program its entry is. */
interface ProgramFacts {
  hash: string;
  bytes: number;
}

/** XLA's own default, 3, is what 2 asks for. */
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
   * Compiles now what `forward` does with such inputs: a tensor, or the list of its arguments. The same model and inputs of the
   * same kind give the same compiled model; another model never does, whatever its weights and its name.
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
        if (!isKept()) this.#drop(facts); // it made room while it was compiled
      },
      () => isKept() && this.#cache.delete(model, key), // the next one tries again
    );
    return made;
  }
  /** Frees a program that no other entry has. */
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
      warnOnce(`xlaOptimizationLevel ${level} has no effect on a TPU: its compiler has no such levels`);
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
      log.error('a model is not compiled', { model: name, why: sentenceOf(e) });
      throw failure(`compileModel: ${name}`, e, { model: name });
    }
    if (program) {
      const { seconds, cached: fromDisk } = program;
      if (!fromDisk) this.#seconds += seconds;
      log.info('a model is compiled', { model: name, seconds: rounded(seconds), fromDisk, cache });
    }
    let form = new ModelForm(model);
    const forward = async (...args: unknown[]) => {
      if (!form.isStill(model)) {
        run.clearCache(); // it describes what the model was
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
   * What the TPU's compiler says of the model on a topology that need not be here ('v6e-8'): memory, time, what fills it. See
   * tx.plan.
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
      throw new TPUValidationError('compileAheadOfTime: it takes sample inputs: a tensor, or a list of them');
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
    graphs.delete(''); // those that are being compiled, or will be when they are called
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

  /** Forgets compiled models and frees their programs: those that were handed out make them again when called. */
  clearCache(): void {
    this.#cache.clear();
  }

  /** Removes the programs of all processes from the cache on disk, too. */
  async clearDiskCache(): Promise<void> {
    this.clearCache();
    const cache = DiskCache.current();
    if (!cache) return;
    if (cache.readOnly)
      throw new TPUCacheError(`the cache of programs in ${cache.folder} is read-only: nothing was removed`);
    await naming(
      `the cache of programs in ${cache.folder} cannot be cleared`,
      () => clear(cache.folder),
      TPUCacheError,
    );
  }
}

/** The model on all devices, each with a part of the batch. Gives what splits inputs. */
async function spread(model: Module): Promise<<T>(batch: T) => T> {
  const devices = await deviceCount();
  if (devices === 1) {
    warnOnce('compilationMode pjit has no effect: there is one device');
    return (batch) => batch;
  }
  parallelize(model, meshOf({ data: -1 }, devices));
  return (batch) => batchFor(model, batch);
}

/** What it computes, without what gradients would need. */
const forwardOf =
  (model: Module) =>
  (...args: unknown[]): unknown =>
    noGrad(() => (model.forward as Forward)(...args));

/** What cannot be described, for these inputs or at all, is a mistake in them; the rest is XLA's. */
const failure = (what: string, e: unknown, details = {}): TPUBackendError =>
  named(what, e, e instanceof ArgumentError ? TPUValidationError : XLACompilationError, details);

/** What tells inputs of one kind from others: f32[32, 512]. Numbers are inputs, too: another one is the same program. */
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

/** The arguments of forward that a tensor, or a list, means. */
function checkInputs(what: string, model: unknown, given: unknown): readonly unknown[] | undefined {
  if (!(model instanceof Module)) throw new TPUValidationError(`${what}: takes a model, got ${describe(model)}`);
  if (given === undefined) return undefined;
  const inputs = Array.isArray(given) ? given : [given];
  if (!tensorsIn(inputs).tensors.length)
    throw new TPUValidationError(
      `${what}: sampleInputs is ${describe(given)}: it takes a tensor, or a list of arguments`,
    );
  return inputs;
}
